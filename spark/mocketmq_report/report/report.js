// Draw the charts of a report's page, and switch its theme. Bundled with Vega by spark/mocketmq_report/report/bundle.py.
"use strict";

const MINUTE = 60e6;
const PARTS = [[86400e6, "d"], [3600e6, "h"], [MINUTE, "m"], [1e6, "s"]];

// Three digits, before and after the point, without trailing zeros.
function three(number) {
  const text = [2, 1].map((decimals) => number.toFixed(decimals)).find((each) => each.length <= 4);
  return String(Number(text ?? number.toFixed(0)));
}

// Microseconds as spark/mocketmq_report/figures.py writes them.
function duration(us) {
  if (us === null || us === undefined) return "–";
  const size = Math.abs(us), sign = us < 0 ? "-" : "";
  if (size >= 59.95e6) {
    const unit = size >= 100 * MINUTE ? MINUTE : 1e6;
    let left = Math.round(size / unit) * unit, text = sign;
    for (const [part, name] of PARTS) {
      if (left >= part) text += Math.floor(left / part) + name;
      left %= part;
    }
    return text;
  }
  for (const [unit, name] of [[1, "us"], [1e3, "ms"], [1e6, "s"]]) {
    const digits = three(size / unit);
    if (Number(digits) < 1000 || name === "s") return Number(digits) ? sign + digits + name : "0";
  }
}

// Epoch milliseconds.
function instant(ms) {
  const at = new Date(ms);
  return isNaN(at) ? `${ms} ms` : at.toISOString();
}

const tip = document.getElementById("tip");

function tooltip(handler, event, item, value) {
  tip.hidden = !value;
  if (!value) return;
  tip.replaceChildren(...Object.entries(value).flatMap(([name, text]) => {
    const [dt, dd] = ["dt", "dd"].map((tag) => document.createElement(tag));
    dt.textContent = name;
    dd.textContent = text;
    return [dt, dd];
  }));
  const { clientX: x, clientY: y } = event, { offsetWidth: width, offsetHeight: height } = tip;
  const room = document.documentElement.clientWidth - width - 8;
  tip.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
  tip.style.top = `${y + height + 20 < innerHeight ? y + 14 : Math.max(4, y - height - 10)}px`;
}

// On a phone a row is a card, in which each figure has the name of its column.
for (const table of document.querySelectorAll("table:not(.judged, .text)")) {
  const names = [...table.querySelectorAll("thead th")].map((each) => each.textContent);
  for (const cell of table.querySelectorAll("tbody td:not([colspan])")) cell.dataset.of = names[cell.cellIndex];
  table.classList.add("cards");
}

const specs = JSON.parse(document.getElementById("specs").textContent);
for (const [name, spec] of Object.entries(specs)) {
  const figure = document.getElementById(`chart-${name}`);
  const options = {
    mode: "vega",
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    bind: figure.querySelector(".choice"),
    expressionFunctions: { duration, instant },
    tooltip,
  };
  try {
    await vegaEmbed(figure.querySelector(".chart"), spec, options);
  } catch (error) {
    console.error(error);
    figure.querySelector(".chart").textContent = `This chart could not be drawn: ${error.message}`;
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
button.hidden = false;
button.onclick = () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
};

window.duration = duration; // a test compares it with spark/mocketmq_report/figures.py
document.documentElement.dataset.drawn = Object.keys(specs).length;
