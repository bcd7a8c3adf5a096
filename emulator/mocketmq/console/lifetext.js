// Says in a sentence what happened to a message, from the fields of an event of the JSON API, and lists such events.

import { h } from "./dom.js";
import { clockTime, date, dateTime, dayTime, duration, lateness, visible } from "./format.js";
import { nth, t, term } from "./language.js";

// Events in which a message waits from `at_ms` to `until_ms` have texts of their own.
const keyOf = (event) => {
  if (event.kind === "taken" && event.times > 1) return "life.taken-again";
  return event.until_ms !== null && ["cancelled", "retried"].includes(event.kind) ? `life.${event.kind}-until` : `life.${event.kind}`;
};

export const eventText = (event) => t(keyOf(event), {
  text: event.text,
  topic: event.topic,
  group: event.group,
  fault: event.fault,
  by: event.door ? t("life.by", { door: term("door", event.door) }) : "",
  lite: event.lite_topic === null ? "" : t("life.lite", { name: event.lite_topic }),
  priority: event.priority === null ? "" : t("life.priority", { priority: event.priority }),
  keeper: event.level !== null ? t("life.keeper-level", { level: event.level }) : event.scheme !== null ? t("life.keeper-scheme", { scheme: event.scheme }) : "",
  nth: nth(event.times ?? 1),
  wait: event.until_ms === null ? "" : duration(event.until_ms - event.at_ms),
  time: event.until_ms === null ? "" : dayTime(event.until_ms, event.at_ms),
  what: event.do === null ? "" : term("do", event.do),
  operation: event.operation === null ? "" : term("operation", event.operation),
});

function lateText({ kind, late }) {
  if (kind !== "delivered") return t("message.after", { time: lateness(late) });
  return late <= 0 ? t("message.on-time") : t("message.late", { time: lateness(late) });
}

// A list of what happened: instant, kind, title, text, lateness in microseconds or null, and elements for more.
export function lifeLine(label, life) {
  let before = null;
  let day = null;
  return h("ol", { class: "life", "aria-label": label }, life.map((one) => {
    const gap = before === null ? "" : one.at === before ? t("message.at-once") : t("message.gap", { time: duration(one.at - before) });
    const today = date(one.at);
    const newDay = today !== day;
    before = one.at;
    day = today;
    return h("li", { class: `stage ${one.kind}` },
      h("span", { class: "at mono", title: dateTime(one.at) }, newDay ? h("small", {}, today) : null, clockTime(one.at, true)),
      h("div", {}, h("b", {}, visible(one.title)), one.late === null ? null : h("span", { class: one.kind === "delivered" && one.late > 1_000_000 ? "late bad" : "late" }, lateText(one)), one.text ? h("p", {}, visible(one.text)) : null, one.more),
      h("span", { class: "gap dim" }, gap));
  }));
}
