// The time bar at the top: the broker's clock, the next due time, and buttons to move the clock.

import { post } from "./api.js";
import { button, field, h, setText } from "./dom.js";
import { clockTime, date, duration, laneName, localInput, preview, utcOffset } from "./format.js";
import { list, t } from "./language.js";
import { listen, live, moved, nowMs } from "./live.js";
import { doing, notice } from "./notice.js";

const STEPS = [["1s", "s", "1"], ["10s", "s", "2"], ["1m", "m", "3"], ["30m", "m", "4"], ["2h", "h", "5"]];
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const MODES = {
  manual: [t("clock.stopped"), t("clock.stopped-means")],
  real: [t("clock.real"), t("clock.real-means")],
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
  const text = answer.fired ? t("clock.moved", { by: duration(by), count: answer.fired }) : t("clock.moved-none", { by: duration(by) });
  notice(text, { link: answer.fired ? [t("clock.show-delivered"), `#/messages?after=${before}&state=delivered`] : undefined });
}

const run = (path, body) => doing(() => move(path, body));

export function timeBar(place) {
  const day = h("span", { class: "day" });
  const time = h("span", { class: "clock" });
  const zone = h("span", { class: "day zone", title: t("clock.zone", { zone: ZONE }) });
  const mode = h("span", { class: "chip" });
  const ahead = h("span", { class: "dim" });
  const due = h("a", { class: "due", href: "#/levels" });
  const steps = STEPS.map(([by, unit, key]) => {
    const act = run("/v1/clock/advance", { by });
    actions.set(key, act);
    const span = t(`unit.${unit}`, { number: parseInt(by, 10) });
    return button(t("clock.plus", { by: span }), act, { title: t("clock.move-by", { by: span, key }), "aria-keyshortcuts": key, "aria-label": t("clock.plus-label", { by: span }) });
  });
  const toNext = run("/v1/clock/next", {});
  actions.set("n", toNext);
  const next = button(t("clock.next"), toNext, { class: "main", title: t("clock.next-means"), "aria-keyshortcuts": "n" });
  const until = h("input", { type: "datetime-local", step: "1" });
  const form = h("form", { class: "to", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    const at = new Date(until.value).getTime();
    if (Number.isNaN(at)) return;
    run("/v1/clock/to", { instant_ms: at })(event);
    form.hidden = true;
    toTime.setAttribute("aria-expanded", "false");
    toTime.focus();
  } }, field(t("clock.move-to"), until), h("button", { type: "submit" }, t("clock.move")));
  const toggle = () => {
    form.hidden = !form.hidden;
    toTime.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) {
      until.value = localInput(nowMs() + 60_000);
      until.focus();
    }
  };
  const toTime = button(t("clock.to"), toggle, { title: t("clock.to-means"), "aria-keyshortcuts": "t", "aria-expanded": "false", "aria-label": t("clock.to-label") });
  actions.set("t", toggle);
  place.setAttribute("aria-label", t("clock.label"));
  place.append(
    h("div", { class: "now" }, h("div", {}, time, day, zone), h("div", { class: "about" }, mode, ahead)),
    h("div", { class: "next" }, h("span", { class: "label" }, t("clock.next-due")), due),
    h("div", { class: "move", role: "group", "aria-label": t("clock.move-group") }, steps, toTime, next, form),
  );

  let shownMs = null;
  function draw() {
    const state = live.state;
    if (!state) {
      setText(time, t("clock.unknown"));
      return;
    }
    // A clock move is animated, to make the move visible.
    const target = nowMs();
    const gap = target - (shownMs ?? target);
    shownMs = Math.abs(gap) > 1_500 && Math.abs(gap) < 1e12 && !still.matches ? shownMs + gap * 0.35 : target;
    setText(time, clockTime(shownMs, state.rate === 0));
    setText(day, date(shownMs));
    setText(zone, utcOffset(shownMs));
    const [word, meaning] = MODES[state.mode] ?? [t("clock.scaled", { rate: state.rate }), t("clock.scaled-means", { rate: state.rate })];
    setText(mode, word);
    mode.title = meaning;
    mode.dataset.kind = state.mode;
    const off = target - (state.wall_ms + (performance.now() - stateAt));
    setText(ahead, Math.abs(off) < 1_000 ? t("clock.same") : t(off > 0 ? "clock.ahead" : "clock.behind", { by: duration(Math.abs(off)) }));
    next.disabled = !state.next_due;
    const first = state.next_due;
    if (!first) {
      setText(due, t("clock.nothing"));
      due.removeAttribute("href");
      return;
    }
    const left = first.instant_ms - target;
    const fields = { when: left > 0 ? t("clock.in", { time: duration(left) }) : t("clock.now"), where: list(first.levels.map(laneName)) || t("clock.delayed") };
    const { record } = first;
    setText(due, record ? t("clock.due-message", { ...fields, topic: record.topic, preview: preview(record.preview) }) : t("clock.due", fields));
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
