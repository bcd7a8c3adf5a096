// Says in a sentence what happened to a message, from the fields of an event of the JSON API.

import { dayTime, duration } from "./format.js";
import { nth, t, term } from "./language.js";

// Events in which a message waits from `at_ms` to `until_ms` have texts of their own.
const keyOf = (event) => {
  if (event.kind === "taken" && event.times > 1) return "life.taken-again";
  return event.until_ms !== null && ["cancelled", "retried"].includes(event.kind) ? `life.${event.kind}-until` : `life.${event.kind}`;
};

export const eventText = (event) => t(keyOf(event), {
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
