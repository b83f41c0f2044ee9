"use strict";
const commands = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");

// What a command is, beside the pointer. Text only: names come from models.
document.addEventListener("pointermove", (event) => {
  const mark = event.target.closest ? event.target.closest("[data-c]") : null;
  if (!mark) { tip.hidden = true; return; }
  const lines = [...(commands[mark.dataset.c] || [])];
  if (mark.dataset.note) lines.splice(0, lines.length, mark.dataset.note);
  tip.replaceChildren();
  lines.forEach((line, i) => {
    const part = document.createElement(i ? "div" : "b");
    part.textContent = line;
    tip.append(part);
  });
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18;
  const y = below + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : below;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = Math.max(8, y) + "px";
});

// A click on a drawing leads to the command's row.
const rows = new Map();
for (const row of document.querySelectorAll("#kernels tbody tr")) rows.set(row.cells[0].textContent, row);
document.addEventListener("click", (event) => {
  const mark = event.target.closest("svg [data-c]");
  const row = mark && rows.get(mark.dataset.c);
  if (!row) return;
  document.querySelectorAll("tr.hot").forEach((r) => r.classList.remove("hot"));
  row.classList.add("hot");
  row.hidden = false;
  row.scrollIntoView({ block: "center", behavior: "smooth" });
});

// Tables sort by a click on a heading: numbers by size, text by letters.
for (const table of document.querySelectorAll("table.sortable")) {
  table.tHead.addEventListener("click", (event) => {
    const heading = event.target.closest("th");
    if (!heading) return;
    const column = heading.cellIndex;
    const down = heading.dataset.down !== "1";
    for (const other of heading.parentNode.cells) delete other.dataset.down;
    heading.dataset.down = down ? "1" : "0";
    const value = (row) => {
      const text = row.cells[column].textContent.replace(/[~,]/g, "");
      const number = parseFloat(text);
      return Number.isNaN(number) ? (text === "-" ? -Infinity : text) : number;
    };
    const body = table.tBodies[0];
    const sorted = [...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      const order = typeof x === "string" || typeof y === "string" ? -String(x).localeCompare(String(y)) : y - x;
      return down ? order : -order;
    });
    body.append(...sorted);
    limit();
  });
}

// The longest rows first; a filter and a button show others.
const FIRST = 25;
const filter = document.getElementById("filter");
const all = document.getElementById("all");
let whole = false;
function limit() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const body = document.querySelector("#kernels tbody");
  for (const row of body.rows) {
    const text = row.textContent.toLowerCase();
    const fits = words.every((w) => text.includes(w));
    row.hidden = !fits || (!whole && !words.length && shown >= FIRST);
    if (!row.hidden) shown += 1;
  }
  all.hidden = words.length > 0 || body.rows.length <= FIRST;
  all.textContent = whole ? "show fewer" : "show all " + body.rows.length;
}
filter.addEventListener("input", limit);
all.addEventListener("click", () => { whole = !whole; limit(); });
limit();

for (const button of document.querySelectorAll("[data-zoom]")) {
  button.addEventListener("click", () => {
    for (const drawing of document.querySelectorAll("svg.zoomed")) drawing.setAttribute("width", button.dataset.zoom * 100 + "%");
  });
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
