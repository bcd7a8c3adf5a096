// Lateness live: the last five minutes, from the broker itself.

import { get } from "./api.js";
import { button, empty, h, setText, svg, table } from "./dom.js";
import { count, lateness, laneName } from "./format.js";
import { live } from "./live.js";
import { doing, notice } from "./notice.js";

const SPAN_S = 300;
const [WIDTH, HEIGHT] = [1_000, 200];
const LINES = [["max_us", "max"], ["p99_us", "p99"], ["p50_us", "p50"]];

// Steps of ten, as lateness goes from microseconds to minutes.
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
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": "Lateness in the last five minutes; the table has the figures" }, grid, lines, dots);
}

export function showLateness(view, place) {
  const figures = h("div", { class: "figures" });
  const body = h("div", {});
  const report = h("section", {});
  const note = h("p", { class: "dim" }, "How much later than due messages were delivered, in the last five minutes. Deliveries by hand, and those that a fault put off, are left out.");
  view.append(h("h1", {}, "Lateness"), note, figures, body, report);
  let drawn = "";

  function draw() {
    if (!live.state) return;
    const { in_all: all, by_level: levels, in_time: times } = live.state.lateness;
    const text = JSON.stringify([all, levels, times]);
    if (text === drawn) return;
    drawn = text;
    figures.replaceChildren(...[[count(all.count), "deliveries"], [all.count ? lateness(all.p50_us) : "–", "half are not later than"], [all.count ? lateness(all.p99_us) : "–", "99 in 100 are not later than"], [all.count ? lateness(all.max_us) : "–", "the latest"]].map(([value, label]) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label))));
    body.replaceChildren(...(all.count ? [
      chart(times),
      h("p", { class: "legend" }, LINES.map(([name, label]) => h("span", { class: name.slice(0, 3) }, label)), h("span", { class: "dim" }, "five minutes to now; the lowest line is 100 µs, each other ten times the one below")),
      table("Lateness by level", ["Level", ["Deliveries", "number"], ["p50", "number"], ["p99", "number"], ["Max", "number"]], levels.map((one) => [
        h("a", { href: `#/levels/${one.level || "time"}` }, laneName(one.level)), count(one.count), lateness(one.p50_us), lateness(one.p99_us), h("span", { class: one.max_us > 1_000_000 ? "bad" : "" }, lateness(one.max_us))])),
    ] : [empty("Nothing delivered in the last five minutes", "Send a delayed message and let it become due, by itself or by moving the clock.")]));
  }

  get("/v1/info").then((info) => {
    const command = info.data === ":memory:" ? null : `mocketmq report ${info.data} --open`;
    const line = h("code", {}, command ?? "");
    report.replaceChildren(h("h2", {}, "The whole report"), command
      ? h("div", { class: "row" }, line, button("Copy", doing(async () => { await navigator.clipboard.writeText(command); notice("The command is copied."); }), { class: "plain small" }))
      : h("p", { class: "dim" }, "This broker keeps its data in memory. Start one with --data DIR, and mocketmq report DIR makes the whole report."));
  }).catch(() => setText(report, ""));
  place.listen((kind) => { if (kind === "state") draw(); });
  draw();
}
