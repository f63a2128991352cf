// @ts-check
// Sortable tables: each click on a heading sorts ascending, descending, or restores the original order.

const collator = new Intl.Collator("en", { numeric: true });
const sortings = new Map();

// Make the tables under a root sortable; a table that replaces another keeps its sort order.
function sortableTables(root) {
  $$("table.sortable", root).forEach((table, i) => {
    if (table.dataset.ready) return;
    table.dataset.ready = "yes";
    const key = `${table.closest("section")?.id} ${i}`;
    const headings = $$("thead th[data-type]", table);
    $$("tbody tr", table).forEach((row, place) => Object.assign(row.dataset, { place }));
    for (const heading of headings) makeButton(heading, () => sortBy(table, heading, turned(heading), key));
    const before = sortings.get(key);
    const same = headings.find((heading) => heading.textContent === before?.name);
    if (same) sortBy(table, same, before.direction, key);
  });
}

function makeButton(heading, act) {
  const button = element("button", { type: "button" }, [...heading.childNodes]);
  button.addEventListener("click", act);
  heading.append(button);
}

// The third click restores the original order of the rows.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const turned = (heading) => NEXT[heading.getAttribute("aria-sort") ?? "none"];

function sortBy(table, heading, direction, key) {
  const column = heading.cellIndex;
  const compare = heading.dataset.type === "number" ? byNumber : byText;
  const sign = direction === "ascending" ? 1 : -1;
  const byPlace = (one, other) => one.dataset.place - other.dataset.place;
  const byCell = (one, other) => compare(one.cells[column], other.cells[column], sign);
  for (const body of table.tBodies) body.append(...[...body.rows].sort(direction === "none" ? byPlace : byCell));
  for (const other of $$("th[aria-sort]", table)) other.removeAttribute("aria-sort");
  if (direction !== "none") heading.setAttribute("aria-sort", direction);
  sortings.set(key, { name: heading.textContent, direction });
}

const textOf = (cell) => cell.dataset.value ?? cell.textContent.trim();

function byText(one, other, sign) {
  const [a, b] = [textOf(one), textOf(other)];
  if (a === "" || b === "") return Number(a === "") - Number(b === "");
  return sign * collator.compare(a, b);
}

// Missing numbers come last in both directions.
function byNumber(one, other, sign) {
  const [a, b] = [one, other].map((cell) => (textOf(cell) === "" ? NaN : Number(textOf(cell))));
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return sign * (a - b);
}
