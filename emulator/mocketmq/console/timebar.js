// The time bar at the top: the broker's clock, the next due time, and buttons to move the clock.

import { post } from "./api.js";
import { button, field, h, setText } from "./dom.js";
import { clockTime, date, duration, laneName, localInput, plural, utcOffset, visible } from "./format.js";
import { listen, live, moved, nowMs } from "./live.js";
import { doing, notice } from "./notice.js";

const STEPS = [["1s", "+1 s", "1"], ["10s", "+10 s", "2"], ["1m", "+1 m", "3"], ["30m", "+30 m", "4"], ["2h", "+2 h", "5"]];
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const MODES = {
  manual: ["stopped", "The clock is manual: time stands still until a button here, the API or a test moves it."],
  real: ["real time", "The clock runs at the speed of the wall clock; it can be moved ahead."],
};
const actions = new Map();

// Runs the action of a key; returns whether the key has one.
export function pressed(key) {
  const act = actions.get(key);
  act?.();
  return act !== undefined;
}

async function move(path, body) {
  const before = live.newest;
  const answer = await post(path, body);
  moved(answer.now_ms);
  const by = answer.now_ms - answer.from_ms;
  const what = answer.fired ? `${plural(answer.fired, "message")} delivered` : "nothing was due";
  notice(`Moved by ${duration(by)}: ${what}.`, { link: answer.fired ? ["Show what was delivered", `#/messages?after=${before}&state=delivered`] : undefined });
}

const run = (path, body) => doing(() => move(path, body));

export function timeBar(place) {
  const day = h("span", { class: "day" });
  const time = h("span", { class: "clock" });
  const zone = h("span", { class: "day zone", title: `Times are shown in this browser's time zone, ${ZONE}. The command line and events say UTC.` });
  const mode = h("span", { class: "chip" });
  const ahead = h("span", { class: "dim" });
  const due = h("a", { class: "due", href: "#/levels" });
  const steps = STEPS.map(([by, label, key]) => {
    const act = run("/v1/clock/advance", { by });
    actions.set(key, act);
    return button(label, act, { title: `Move the clock by ${by} (key ${key})`, "aria-keyshortcuts": key, "aria-label": `${label}: move the clock` });
  });
  const toNext = run("/v1/clock/next", {});
  actions.set("n", toNext);
  const next = button("Next due", toNext, { class: "main", title: "Move the clock to the next due message (key n)", "aria-keyshortcuts": "n" });
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
  const toTime = button("To…", toggle, { title: "Move the clock to a time (key t)", "aria-keyshortcuts": "t", "aria-expanded": "false", "aria-label": "To… move to a time" });
  actions.set("t", toggle);
  place.append(
    h("div", { class: "now" }, h("div", {}, time, day, zone), h("div", { class: "about" }, mode, ahead)),
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
    // A clock move is animated, to make the move visible.
    const target = nowMs();
    const gap = target - (shownMs ?? target);
    shownMs = Math.abs(gap) > 1_500 && Math.abs(gap) < 1e12 && !still.matches ? shownMs + gap * 0.35 : target;
    setText(time, clockTime(shownMs, state.rate === 0));
    setText(day, date(shownMs));
    setText(zone, utcOffset(shownMs));
    const [word, meaning] = MODES[state.mode] ?? [`${state.rate} × real time`, `The clock runs ${state.rate} times as fast as the wall clock.`];
    setText(mode, word);
    mode.title = meaning;
    mode.dataset.kind = state.mode;
    const off = target - (state.wall_ms + (performance.now() - stateAt));
    setText(ahead, Math.abs(off) < 1_000 ? "same as the wall clock" : off > 0 ? `${duration(off)} ahead of the wall clock` : `${duration(-off)} behind the wall clock`);
    next.disabled = !state.next_due;
    const first = state.next_due;
    if (!first) {
      setText(due, "nothing is waiting");
      due.removeAttribute("href");
      return;
    }
    const left = first.instant_ms - target;
    const when = left > 0 ? `in ${duration(left)}` : "now";
    const where = first.levels.map(laneName).join(", ") || "a delivery delayed by a fault";
    const what = first.record ? ` · ${first.record.topic} ${visible(first.record.preview)}` : "";
    setText(due, `${when} · ${where}${what}`);
    due.href = first.record ? `#/messages/${encodeURIComponent(first.record.message_id)}` : `#/levels/${first.levels[0] || "time"}`;
  }

  let stateAt = performance.now();
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  listen((kind) => {
    if (kind === "state") stateAt = performance.now();
    draw();
  });
  setInterval(() => { if (!document.hidden) draw(); }, 100);
}
