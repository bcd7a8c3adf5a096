// The view of lateness: the last five minutes live, and reports.

import { get, post } from "./api.js";
import { button, empty, h, setText, svg, table } from "./dom.js";
import { clockTime, count, lateness, laneName } from "./format.js";
import { live } from "./live.js";
import { doing, notice } from "./notice.js";

const SPAN_S = 300;
const [WIDTH, HEIGHT] = [1_000, 200];
const LOOKS_MS = 250;
const LINES = [["max_us", "max"], ["p99_us", "p99"], ["p50_us", "p50"]];

// Powers of ten, because lateness ranges from microseconds to minutes.
const rise = (us) => Math.log10(Math.max(us, 10)) - 1;

function chart(points) {
  const top = Math.max(rise(Math.max(...points.map((one) => one.max_us))), 3);
  const x = (one) => WIDTH - (one.age_s / SPAN_S) * WIDTH;
  const y = (us) => HEIGHT - 8 - (rise(us) / top) * (HEIGHT - 24);
  const grid = [];
  for (let step = 1; step <= top; step++) {
    const us = 10 ** (step + 1);
    grid.push(svg("line", { x1: 0, x2: WIDTH, y1: y(us), y2: y(us), class: "grid" }));
  }
  const lines = LINES.map(([name]) => svg("polyline", { class: name.slice(0, 3), points: points.map((one) => `${x(one).toFixed(1)},${y(one[name]).toFixed(1)}`).join(" "), fill: "none", "vector-effect": "non-scaling-stroke" }));
  const dots = points.length === 1 ? LINES.map(([name]) => svg("circle", { class: name.slice(0, 3), cx: x(points[0]), cy: y(points[0][name]), r: 3 })) : [];
  const scale = h("div", { class: "scale", "aria-hidden": "true" }, grid.map((line, step) => {
    const label = h("span", {}, lateness(10 ** (step + 2)).replace(/\.0+ /, " "));
    label.style.top = `${(Number(line.getAttribute("y1")) / HEIGHT) * 100}%`;
    return label;
  }));
  return h("div", { class: "chart-place" }, scale, svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "Lateness in the last five minutes; the table has the figures" }, grid, lines, dots));
}

export function showLateness(view, place) {
  const figures = h("div", { class: "figures" });
  const body = h("div", {});
  const report = wholeReport();
  const note = h("p", { class: "dim" }, "How long after their due time messages were delivered, in the last five minutes. Forced deliveries and those delayed by a fault are left out.");
  view.append(h("h1", {}, "Lateness"), note, figures, body, report);
  let drawn = "";

  function draw() {
    if (!live.state) return;
    const { in_all: all, by_level: levels, in_time: times } = live.state.lateness;
    const text = JSON.stringify([all, levels, times]);
    if (text === drawn) return;
    drawn = text;
    figures.replaceChildren(...[[count(all.count), "deliveries"], [all.count ? lateness(all.p50_us) : "–", "median (p50)"], [all.count ? lateness(all.p99_us) : "–", "99th percentile (p99)"], [all.count ? lateness(all.max_us) : "–", "maximum"]].map(([value, label]) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label))));
    body.replaceChildren(...(all.count ? [
      chart(times),
      h("p", { class: "ages", "aria-hidden": "true" }, h("span", {}, "5 minutes ago"), h("span", {}, "now")),
      h("p", { class: "legend" }, LINES.map(([name, label]) => h("span", { class: name.slice(0, 3) }, label)), h("span", { class: "dim" }, "each grid line is ten times the one below")),
      table("Lateness by level", ["Level", ["Deliveries", "number"], ["p50", "number"], ["p99", "number"], ["Max", "number"]], levels.map((one) => [
        h("a", { href: `#/levels/${one.level || "time"}` }, laneName(one.level)), count(one.count), lateness(one.p50_us), lateness(one.p99_us), h("span", { class: one.max_us > 1_000_000 ? "bad" : "" }, lateness(one.max_us))])),
    ] : [empty("Nothing delivered in the last five minutes", "Send a delayed message and let it become due, by itself or by moving the clock.")]));
  }

  place.listen((kind) => { if (kind === "state") draw(); });
  draw();
}

// Shows the progress of a report until `made` is settled.
async function follow(made, place) {
  let isOver = false;
  made.catch(() => {}).finally(() => { isOver = true; });
  while (!isOver) {
    const { step, number, steps } = await get("/v1/reports").catch(() => ({}));
    if (step && !isOver) setText(place, `Step ${number} of ${steps}: ${step}…`);
    await new Promise((done) => setTimeout(done, LOOKS_MS));
  }
}

// The broker makes the report in another process; its page opens beside this one.
function wholeReport() {
  const made = h("span", { class: "dim made" });
  const make = button("Make the report", doing(async () => {
    setText(made, "Making the report, which takes a few seconds…");
    try {
      const making = post("/v1/reports");
      follow(making, made);
      const report = await making;
      made.replaceChildren(h("a", { href: report.page, target: "_blank", rel: "noopener" }, `Open the report of ${clockTime(report.at_ms)}`));
      open(report.page, "_blank", "noopener");
      notice("The report is ready.");
    } catch (error) {
      setText(made, "");
      throw error;
    }
  }), { class: "main" });
  const byHand = h("div", {});
  get("/v1/info").then(({ data }) => {
    if (data === ":memory:") return setText(byHand, "This broker keeps its data in memory: messages that wait for a start-deliver time are not in the report.");
    const command = `mocketmq report ${data} --open`;
    byHand.append("For thresholds, comparisons and exit codes, run ", h("code", {}, command), " ",
      button("Copy", doing(async () => { await navigator.clipboard.writeText(command); notice("The command is copied."); }), { class: "plain small", "aria-label": "Copy the command" }));
  }).catch(() => {});
  return h("section", { "aria-labelledby": "report-title" }, h("h2", { id: "report-title" }, "Full report"),
    h("p", { class: "dim" }, "How late each delivery so far was, and why, by level, topic, consumer group and time. The page works without the broker."),
    h("div", { class: "row" }, make, made), h("div", { class: "dim by-hand" }, byHand));
}
