// Brings the page to life; without it there are the tables, the texts and the images.

function start() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const methods = newMethods(data.looks);
  for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
  const results = document.getElementById("results");
  startTables(results, methods);
  const charts = {
    pareto: startPareto,
    reliability: startReliability,
    shift: startShift,
    overlap: startOverlap,
    learned: startLearned,
  };
  for (const [id, begin] of Object.entries(charts)) {
    const section = document.getElementById(id);
    if (section) begin(section, data[id], methods);
  }
  const filtered = new Set(results.querySelectorAll(FILTERED));
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    if (!filtered.has(table)) makeSortable(table, (text) => (document.getElementById("said").textContent = text));
  }
}

start();
