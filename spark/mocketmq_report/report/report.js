// Draw the charts of a report's page as SVG, as spark/mocketmq_report/report/chart.py specifies them, and switch its theme.
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
  for (const [unit, name] of [[1, "µs"], [1e3, "ms"], [1e6, "s"]]) {
    const digits = three(size / unit);
    if (Number(digits) < 1000 || name === "s") return Number(digits) ? sign + digits + name : "0";
  }
}

const FORMATS = {
  text: String,
  count: (value) => value.toLocaleString(locale, { maximumFractionDigits: 3 }),
  share: (value) => localized(`${Number((100 * value).toPrecision(7))}%`),
  duration: (us) => t(duration(us)),
  instant,
};

const tip = document.getElementById("tip");

// Show name and value of each line of a tooltip beside the pointer, or hide it.
function tell(event) {
  const { tip: lines, row } = event?.target ?? {};
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.flatMap(([title, field, format]) => {
    const [dt, dd] = ["dt", "dd"].map((tag) => document.createElement(tag));
    dt.textContent = t(title);
    dd.textContent = row[field] === null ? "–" : FORMATS[format](row[field]);
    return [dt, dd];
  }));
  const { clientX: x, clientY: y } = event, { offsetWidth: width, offsetHeight: height } = tip;
  const room = document.documentElement.clientWidth - width - 8;
  tip.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
  tip.style.top = `${y + height + 20 < innerHeight ? y + 14 : Math.max(4, y - height - 10)}px`;
}

const LONG = 14; // letters: more than fit into a column of a card

// On a phone a row is a card, in which each figure has the name of its column.
for (const table of document.querySelectorAll("table:not(.judged, .text)")) {
  const names = [...table.querySelectorAll("thead th")].map((each) => each.textContent);
  for (const cell of table.querySelectorAll("tbody :is(th, td:not([colspan]))")) {
    if (names[cell.cellIndex] !== "of") cell.dataset.of = names[cell.cellIndex];
    cell.classList.toggle("long", cell.textContent.length > LONG);
  }
  table.classList.add("cards");
}

const LEFT = { en: 44, zh: 54 }, LONGEST = 130, RIGHT = 12, TOP = 24, BOTTOM = 20, LINE = 16, LETTER = 6.1, BAND = 0.75; // pixels, and a share
const SHAPES = {
  circle: "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
  diamond: "M0 -5.5L4.5 0L0 5.5L-4.5 0Z",
  up: "M0 -5L5 4H-5Z",
  down: "M0 0L5 -9H-5Z",
};

function make(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Where a value of an axis stands, in pixels; a band stands where its middle is.
function scaled(axis, from, to) {
  if (axis.bands) {
    const size = (to - from) / axis.bands.length;
    const middles = new Map(axis.bands.map((name, index) => [name, from + size * (index + 0.5)]));
    return Object.assign((name) => middles.get(name), { size });
  }
  const straight = axis.log ? Math.log : Number;
  const [low, high] = axis.domain.map(straight);
  return (value) => from + (straight(value) - low) / (high - low) * (to - from);
}

function ticks(axis) {
  if (axis.instants) return axis.instants.map((ms) => [ms, tick(ms)]);
  return axis.bands ? axis.bands.map((name) => [name, axis.areNames ? name : t(name)]) : axis.ticks.map(([value, label]) => [value, t(label)]);
}

// The width of a text in pixels; a Chinese character is as wide as two letters.
const widthOf = (text) => LETTER * [...text].reduce((sum, one) => sum + (one > "\u2e80" ? 1.8 : 1), 0);

function fitting(text, width) {
  let end = text.length;
  while (end > 1 && widthOf(text.slice(0, end)) + (end < text.length ? LETTER : 0) > width) end -= 1;
  return end === text.length ? text : `${text.slice(0, end)}…`;
}

// The axis below: a label that would touch the one before it is left out.
function drawBelow(svg, axis, at, { left, right, top, bottom }) {
  svg.append(make("path", { d: `M${left} ${bottom}H${right}`, class: "axis" }));
  let taken = -Infinity;
  for (const [value, label] of ticks(axis)) {
    const x = at(value), half = widthOf(label) / 2;
    const middle = Math.min(x, right + RIGHT - half);
    if (!axis.bands) svg.append(make("path", { d: `M${x} ${bottom}v4`, class: "axis" }));
    if (axis.hasGrid) svg.append(make("path", { d: `M${x} ${top}V${bottom}`, class: "axis" }));
    if (middle - half < taken) continue;
    taken = middle + half + 8;
    svg.append(make("text", { x: middle, y: bottom + LINE, "text-anchor": "middle", class: "tick" }, label));
  }
  const title = { x: (left + right) / 2, y: bottom + BOTTOM + LINE, "text-anchor": "middle", class: "title" };
  if (axis.title) svg.append(make("text", title, t(axis.title)));
}

// The axis on the left, with its title above it, which is read without turning the head.
function drawLeft(svg, axis, at, { left, right }) {
  let taken = Infinity;
  for (const [value, label] of ticks(axis)) {
    const y = at(value);
    if (!axis.bands) svg.append(make("path", { d: `M${left} ${y}H${right}`, class: "axis" }));
    if (!axis.bands && y + 12 > taken) continue;
    taken = y;
    const place = { x: left - 6, y: y + 4, "text-anchor": "end", class: "tick", translate: axis.areNames ? "no" : undefined };
    const text = make("text", place, fitting(label, left - 6));
    text.append(make("title", {}, label));
    svg.append(text);
  }
  svg.append(make("text", { x: 0, y: TOP - 12, class: "title" }, t(axis.title)));
}

function drawLine(svg, mark, rows, x, y, isChosen) {
  let path = "", isOn = false;
  for (const row of rows) {
    const isThere = row[mark.y] !== null;
    if (isThere) {
      const [px, py] = [x(row[mark.x]).toFixed(1), y(row[mark.y]).toFixed(1)];
      path += !isOn ? `M${px} ${py}` : mark.isStepped ? `H${px}V${py}` : `L${px} ${py}`;
    }
    isOn = isThere;
  }
  const width = isChosen ? mark.width ?? 2 : 1;
  const stroke = isChosen ? mark.color : mark.rest;
  svg.append(make("path", { d: path, class: "mark", fill: "none", stroke, "stroke-width": width, "stroke-dasharray": mark.dash }));
  if (!isChosen || !mark.tip) return;
  for (const row of rows) {
    const dot = make("circle", { cx: x(row[mark.x]), cy: y(row[mark.y]), r: 7, class: "dot" });
    svg.append(Object.assign(dot, { tip: mark.tip, row }));
  }
}

// Draw one row of a mark that is no line.
function drawRow(mark, row, x, y, box, ends) {
  const value = (channel) => (typeof mark[channel] === "number" ? mark[channel] : row[mark[channel]]);
  const px = (channel, at) => at(Math.max(value(channel), mark.least ?? -Infinity));
  const color = mark.colors ? mark.colors[row[mark.color]] : mark.color;
  if (mark.kind === "bar") {
    const band = value("y"), begin = ends.get(band) ?? 0, end = begin + Math.max(row[mark.size] ?? 0, 0);
    ends.set(band, end);
    const height = y.size * BAND;
    return make("rect", { x: x(begin), y: y(band) - height / 2, width: x(end) - x(begin), height, fill: color });
  }
  if (mark.kind === "rect") {
    const left = x(value("x")), right = mark.wide ? x(value("x") + mark.wide) : x(value("x2"));
    const [top, bottom] = mark.y2 === undefined ? [box.top, box.bottom] : [px("y2", y), px("y", y)];
    return make("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: color });
  }
  if (mark.kind === "rule") {
    const d = mark.x === undefined ? `M${box.left} ${y(value("y"))}H${box.right}`
      : mark.y === undefined ? `M${x(value("x"))} ${box.top}V${box.bottom}`
        : `M${x(value("x"))} ${y(value("y"))}V${y(value("y2"))}`;
    return make("path", { d, stroke: color, "stroke-width": 1.5, "stroke-dasharray": mark.dash, opacity: mark.opacity });
  }
  const to = `translate(${x(value("x"))} ${mark.y === undefined ? box.top - 2 : y(value("y"))})`;
  return make("path", { d: SHAPES[mark.shape], transform: to, fill: color });
}

function draw(place, spec, chosen) {
  const width = place.clientWidth;
  if (!width) return; // in a frame that is not shown
  const xAxis = spec.choice && chosen in spec.x ? spec.x[chosen] : spec.x;
  const longest = Math.max(0, ...(spec.y.bands ? ticks(spec.y) : []).map(([, label]) => widthOf(label)));
  const left = Math.max(LEFT[language], Math.min(LONGEST, longest + 8));
  const box = { left, right: width - RIGHT, top: TOP, bottom: TOP + spec.height };
  const height = box.bottom + BOTTOM + (xAxis.title ? LINE + 4 : 0);
  const svg = make("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const x = scaled(xAxis, box.left, box.right);
  const y = spec.y.bands ? scaled(spec.y, box.top, box.bottom) : scaled(spec.y, box.bottom, box.top);
  drawLeft(svg, spec.y, y, box);
  drawBelow(svg, xAxis, x, box);
  const isChosen = (mark) => mark.of === undefined || mark.of === chosen;
  const shown = [...spec.marks.filter((mark) => !isChosen(mark) && mark.rest), ...spec.marks.filter(isChosen)];
  for (const mark of shown) {
    const rows = mark.rows.map((row) => Object.fromEntries(mark.fields.map((field, index) => [field, row[index]])));
    if (mark.kind === "line") {
      drawLine(svg, mark, rows, x, y, isChosen(mark));
      continue;
    }
    const ends = new Map();
    for (const row of rows) {
      const drawn = drawRow({ size: chosen, ...mark }, row, x, y, box, ends);
      drawn.setAttribute("class", "mark");
      svg.append(Object.assign(drawn, { tip: mark.tip, row }));
    }
  }
  place.replaceChildren(svg);
}

// A list of what can be chosen, which draws the chart anew.
function choice(figure, options, value, redraw) {
  const label = document.createElement("label"), select = document.createElement("select"), name = document.createElement("span");
  name.textContent = "show";
  select.append(...options.map((each) => new Option(each, each, false, each === value)));
  select.oninput = redraw;
  label.append(name, " ", select);
  figure.querySelector(".choice").append(label);
  return select;
}

const specs = JSON.parse(document.getElementById("specs").textContent);
const redraws = Object.entries(specs).map(([name, spec]) => {
  const figure = document.getElementById(`chart-${name}`), place = figure.querySelector(".chart");
  const redraw = () => {
    try {
      draw(place, spec, select?.value);
    } catch (error) {
      console.error(error);
      place.textContent = t(`This chart could not be drawn: ${error.message}`);
    }
  };
  const select = spec.choice && choice(figure, spec.choice.options, spec.choice.value, redraw);
  place.onpointermove = place.onpointerdown = tell;
  place.onpointerleave = () => tell();
  return redraw;
});
const redrawAll = () => redraws.forEach((redraw) => redraw());
addEventListener("resize", redrawAll);
speak(document.getElementById("language"), redrawAll);

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
