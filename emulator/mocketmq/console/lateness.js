// The view of lateness: the last five minutes live, and reports.

import { get, post } from "./api.js";
import { button, empty, h, setText, svg, table } from "./dom.js";
import { clockTime, laneName, lateness, magnitude } from "./format.js";
import { count, parts, t, term } from "./language.js";
import { live } from "./live.js";
import { doing, notice } from "./notice.js";

const SPAN_S = 300;
const [WIDTH, HEIGHT] = [1_000, 200];
const LOOKS_MS = 250;
const LINES = [["max_us", t("lateness.line-max")], ["p99_us", t("lateness.line-p99")], ["p50_us", t("lateness.line-p50")]];

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
    const label = h("span", {}, magnitude(10 ** (step + 2)));
    label.style.top = `${(Number(line.getAttribute("y1")) / HEIGHT) * 100}%`;
    return label;
  }));
  return h("div", { class: "chart-place" }, scale, svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": t("lateness.chart") }, grid, lines, dots));
}

export function showLateness(view, place) {
  const figures = h("div", { class: "figures" });
  const body = h("div", {});
  const report = wholeReport();
  const note = h("p", { class: "dim" }, t("lateness.note"));
  view.append(h("h1", {}, t("room.lateness")), note, figures, body, report);
  let drawn = "";

  function draw() {
    if (!live.state) return;
    const { in_all: all, by_level: levels, in_time: times } = live.state.lateness;
    const text = JSON.stringify([all, levels, times]);
    if (text === drawn) return;
    drawn = text;
    figures.replaceChildren(...[[count(all.count), "deliveries"], ...[["p50_us", "median"], ["p99_us", "p99"], ["max_us", "maximum"]].map(([name, label]) => [all.count ? lateness(all[name]) : t("frame.none"), label])].map(([value, label]) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, t(`lateness.${label}`)))));
    body.replaceChildren(...(all.count ? [
      chart(times),
      h("p", { class: "ages", "aria-hidden": "true" }, h("span", {}, t("lateness.ago")), h("span", {}, t("lateness.now"))),
      h("p", { class: "legend" }, LINES.map(([name, label]) => h("span", { class: name.slice(0, 3) }, label)), h("span", { class: "dim" }, t("lateness.grid"))),
      table(t("lateness.by-level"), [t("lateness.level"), ...["count", "line-p50", "line-p99", "max"].map((column) => [t(`lateness.${column}`), "number"])], levels.map((one) => [
        h("a", { href: `#/levels/${one.level || "time"}` }, laneName(one.level)), count(one.count), lateness(one.p50_us), lateness(one.p99_us), h("span", { class: one.max_us > 1_000_000 ? "bad" : "" }, lateness(one.max_us))])),
    ] : [empty(t("lateness.none"), t("lateness.none-means"))]));
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
    if (step && !isOver) setText(place, t("lateness.step", { number, steps, step: term("step", step) }));
    await new Promise((done) => setTimeout(done, LOOKS_MS));
  }
}

// The broker makes the report in another process; its page opens beside this one.
function wholeReport() {
  const made = h("span", { class: "dim made" });
  const make = button(t("lateness.make"), doing(async () => {
    setText(made, t("lateness.making"));
    try {
      const making = post("/v1/reports");
      follow(making, made);
      const report = await making;
      made.replaceChildren(h("a", { href: report.page, target: "_blank", rel: "noopener" }, t("lateness.open", { time: clockTime(report.at_ms) })));
      open(report.page, "_blank", "noopener");
      notice(t("lateness.ready"));
    } catch (error) {
      setText(made, "");
      throw error;
    }
  }), { class: "main" });
  const byHand = h("div", {});
  get("/v1/info").then(({ data }) => {
    if (data === ":memory:") return setText(byHand, t("lateness.in-memory"));
    const command = `mocketmq report ${data} --open`;
    byHand.append(...parts("lateness.by-hand", { command: h("code", {}, command) }), " ",
      button(t("frame.copy"), doing(async () => { await navigator.clipboard.writeText(command); notice(t("frame.copied-command")); }), { class: "plain small", "aria-label": t("frame.copy-command") }));
  }).catch(() => {});
  return h("section", { "aria-labelledby": "report-title" }, h("h2", { id: "report-title" }, t("lateness.report")),
    h("p", { class: "dim" }, t("lateness.report-means")),
    h("div", { class: "row" }, make, made), h("div", { class: "dim by-hand" }, byHand));
}
