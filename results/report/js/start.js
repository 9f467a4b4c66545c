// Brings the page to life; without it there are the tables, the texts and the images.

function start() {
  const data = readData();
  const methods = newMethods(data.looks);
  for (const part of document.querySelectorAll("[data-needs-script]")) part.hidden = false;
  const parts = { results: startTables, pareto: startPareto, reliability: startReliability, learned: startLearned };
  for (const [id, begin] of Object.entries(parts)) {
    const section = document.getElementById(id);
    if (!section) continue;
    if (id === "results") begin(section, methods);
    else begin(section, data[id], methods);
  }
  const filtered = new Set(document.getElementById("results").querySelectorAll(FILTERED));
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    if (!filtered.has(table)) makeSortable(table, (text) => (document.getElementById("said").textContent = text));
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start();
