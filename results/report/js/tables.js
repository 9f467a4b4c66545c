// Tables that can be sorted by any column, and filtered.

const WORDS = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** What a cell is sorted by: its number where it has one, else its text. */
function sortKey(cell, isNumber) {
  if (!isNumber) return cell.textContent.trim();
  const value = parseFloat(cell.dataset.value ?? cell.textContent.replaceAll(",", ""));
  return Number.isNaN(value) ? null : value;
}

/** Order two keys; what is missing comes last in either direction. */
function compareKeys(first, second, isNumber, sign) {
  const lacking = (key) => key === null || key === NOTHING;
  if (lacking(first) || lacking(second)) return Number(lacking(first)) - Number(lacking(second));
  return sign * (isNumber ? first - second : WORDS.compare(first, second));
}

/** Sort the rows of a table by a column; rows that are alike keep their order. */
function sortRows(table, column, direction) {
  const heading = table.tHead.rows[0].cells[column];
  const isNumber = heading.classList.contains("number");
  const sign = direction === "ascending" ? 1 : -1;
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [sortKey(row.cells[column], isNumber), row]);
  keyed.sort(([first], [second]) => compareKeys(first, second, isNumber, sign));
  body.append(...keyed.map(([, row]) => row));
}

/** Put a button into each heading that sorts by its column: numbers first with the highest on top. */
function makeSortable(table, tell) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = element("button", { type: "button" }, heading.textContent);
    heading.replaceChildren(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const first = heading.classList.contains("number") ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const direction = heading.getAttribute("aria-sort") === first ? other : first;
      for (const cell of headings) cell.setAttribute("aria-sort", cell === heading ? direction : "none");
      sortRows(table, column, direction);
      tell(`Sorted by ${button.textContent}, ${direction}.`);
    });
  });
}

/** What the columns with filters hold in each row, by name of the filter. */
function filterValues(table) {
  const columns = [...table.tHead.rows[0].cells]
    .map((heading, index) => [heading.dataset.filter, index])
    .filter(([name]) => name);
  return [...table.tBodies[0].rows].map((row) => ({
    row,
    text: row.textContent.toLowerCase(),
    values: Object.fromEntries(columns.map(([name, index]) => [name, row.cells[index].textContent.trim()])),
  }));
}

/** Tables that have filters: those that stand in a section as they are, and not those that are folded up. */
const FILTERED = ":scope > .scroll > table";

/** Make the tables of a section sortable, and let its controls and the legend of methods filter them. */
function startTables(section, methods) {
  const tables = [...section.querySelectorAll(FILTERED)];
  const status = section.querySelector("[role=status]");
  const rows = new Map(tables.map((table) => [table, filterValues(table)]));
  const controls = section.querySelector(".controls");
  const chosen = {};

  function apply() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const counts = tables.map((table) => {
      const entries = rows.get(table);
      let count = 0;
      for (const { row, text, values } of entries) {
        const kept =
          (values.method === undefined || methods.isShown(values.method)) &&
          Object.entries(chosen).every(
            ([name, select]) => select.value === "" || values[name] === undefined || values[name] === select.value,
          ) &&
          words.every((word) => text.includes(word));
        row.hidden = !kept;
        count += kept ? 1 : 0;
      }
      return `${count} of ${entries.length} ${table.dataset.rows}`;
    });
    status.textContent = `Shown: ${counts.join(", ")}.`;
  }

  for (const [name, label] of [["dataset", "Data set"], ["draws", "Test-time draws"], ["state", "State"]]) {
    const values = distinct([...rows.values()].flat().map(({ values: own }) => own[name]).filter((own) => own));
    values.sort(WORDS.compare);
    chosen[name] = addSelect(controls, label, [["all", ""], ...each(values)], apply, 3);
  }
  const search = element("input", { type: "search", placeholder: "any words" });
  search.addEventListener("input", apply);
  controls.append(element("label", {}, "Search", search));
  for (const table of tables) makeSortable(table, (text) => (status.textContent = text));
  methods.whenChanged(apply);
  apply();
}
