// Time, on top: what the broker's clock shows, what is due next, and the buttons that move it.

import { post } from "./api.js";
import { button, field, h, setText } from "./dom.js";
import { clockTime, date, duration, laneName, localInput, plural, visible } from "./format.js";
import { listen, live, moved, nowMs } from "./live.js";
import { doing, notice } from "./notice.js";

const STEPS = [["1s", "+1 s", "1"], ["10s", "+10 s", "2"], ["1m", "+1 m", "3"], ["30m", "+30 m", "4"], ["2h", "+2 h", "5"]];
const actions = new Map();

// Whether the key moved the clock.
export function pressed(key) {
  const act = actions.get(key);
  act?.();
  return act !== undefined;
}

async function move(path, body) {
  const before = live.newest ?? -1;
  const answer = await post(path, body);
  moved(answer.now_ms);
  const by = answer.now_ms - answer.from_ms;
  const what = answer.fired ? `${plural(answer.fired, "message")} delivered` : "nothing was due";
  notice(`Moved by ${duration(by)}: ${what}.`, { link: answer.fired ? ["Show what was delivered", `#/messages?after=${before}&delivered`] : undefined });
}

const run = (path, body) => doing(() => move(path, body));

export function timeBar(place) {
  const day = h("span", { class: "day" });
  const time = h("span", { class: "clock" });
  const mode = h("span", { class: "chip" });
  const ahead = h("span", { class: "dim" });
  const due = h("a", { class: "due", href: "#/levels" });
  const steps = STEPS.map(([by, label, key]) => {
    const act = run("/v1/clock/advance", { by });
    actions.set(key, act);
    return button(label, act, { title: `Key ${key}`, "aria-keyshortcuts": key, "aria-label": `Move the clock by ${by}` });
  });
  const toNext = run("/v1/clock/next", {});
  actions.set("n", toNext);
  const next = button("Next due", toNext, { class: "main", title: "Key n", "aria-keyshortcuts": "n" });
  const until = h("input", { type: "datetime-local", step: "1" });
  const form = h("form", { class: "to", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    const at = new Date(until.value).getTime();
    if (Number.isNaN(at)) return;
    run("/v1/clock/to", { instant_ms: at })(event);
    form.hidden = true;
    toTime.setAttribute("aria-expanded", "false");
    toTime.focus();
  } }, field("Move to", until), h("button", { type: "submit" }, "Move"));
  const toggle = () => {
    form.hidden = !form.hidden;
    toTime.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) {
      until.value = localInput(nowMs() + 60_000);
      until.focus();
    }
  };
  const toTime = button("To…", toggle, { title: "Key t", "aria-keyshortcuts": "t", "aria-expanded": "false", "aria-label": "Move to a time" });
  actions.set("t", toggle);
  place.append(
    h("div", { class: "now" }, h("div", {}, time, day), h("div", { class: "about" }, mode, ahead)),
    h("div", { class: "next" }, h("span", { class: "label" }, "Next due"), due),
    h("div", { class: "move", role: "group", "aria-label": "Move the clock" }, steps, toTime, next, form),
  );

  let shownMs = null;
  function draw() {
    const state = live.state;
    if (!state) {
      setText(time, "––:––:––");
      return;
    }
    // A move slides by, so that one sees that it was one.
    const target = nowMs();
    const gap = target - (shownMs ?? target);
    shownMs = Math.abs(gap) > 1_500 && Math.abs(gap) < 1e12 && !still.matches ? shownMs + gap * 0.35 : target;
    setText(time, clockTime(shownMs, state.rate === 0));
    setText(day, date(shownMs));
    setText(mode, state.rate === 0 ? "standing" : state.rate === 1 ? "running" : `running ×${state.rate}`);
    mode.dataset.kind = state.rate === 0 ? "standing" : "running";
    const off = target - (state.wall_ms + (performance.now() - stateAt));
    setText(ahead, Math.abs(off) < 1_000 ? "as the wall clock" : off > 0 ? `${duration(off)} ahead of the wall clock` : `${duration(-off)} behind the wall clock`);
    next.disabled = !state.next_due;
    const first = state.next_due;
    if (!first) {
      setText(due, "nothing waits");
      due.removeAttribute("href");
      return;
    }
    const left = first.instant_ms - target;
    const when = left > 0 ? `in ${duration(left)}` : "now";
    const where = first.levels.map(laneName).join(", ") || "a delivery that a fault put off";
    const what = first.record ? ` · ${first.record.topic} ${visible(first.record.preview)}` : "";
    setText(due, `${when} · ${where}${what}`);
    due.href = first.record ? `#/messages/${encodeURIComponent(first.record.message_id)}` : `#/levels/${first.levels[0] || "time"}`;
  }

  let stateAt = performance.now();
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  listen((kind) => {
    if (kind === "state") stateAt = performance.now();
    if (kind === "arrivals") live.newest = Math.max(live.newest ?? -1, ...live.news.map((one) => one.log_offset).filter((one) => one < 2 ** 50));
    draw();
  });
  setInterval(() => { if (!document.hidden) draw(); }, 100);
}
