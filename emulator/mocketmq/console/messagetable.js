// A row for each message: what became of it, where it was sent, what it holds.

import { get, query } from "./api.js";
import { cut, h, marks, table, topicLink } from "./dom.js";
import { bytes, dateTime, dayTime, lateness, preview, visible } from "./format.js";
import { t, term } from "./language.js";
import { nowMs } from "./live.js";

const TRIES = 10;

// A page of messages. Pages without a match, which end early because they took long, are skipped.
export async function readMessages(fields) {
  let page = await get(`/v1/message-states${query(fields)}`);
  for (let tries = 1; tries < TRIES && !page.messages.length && page.next_before; tries++) {
    page = await get(`/v1/message-states${query({ ...fields, before: page.next_before })}`);
  }
  return page;
}

// What a message may be searched by; docs/messages.md has the words.
const SEARCHED = ["never taken", "in flight", "to be redelivered", "to be retried", "acknowledged", "pending", "delivered", "dead", "cancelled", "lost", "prepared", "rolled back", "abandoned"];
const EXPLAINED = { pending: t("search.pending"), delivered: t("search.delivered"), prepared: t("search.prepared") };
export const STATES = SEARCHED.map((state) => [state, EXPLAINED[state] ?? term("state", state)]);

// The most telling word for the state of a message: what consumers did, else what the broker does with it.
export const stateOf = (one) => one.consumption ?? one.state;

export const stateChip = (word) => h("span", { class: `state ${word.replaceAll(" ", "-")}` }, term("state", word));

function about(one) {
  if (one.state === "dead") return t("about.at", { group: one.group });
  if (one.consumption === "to be retried" && one.group) return one.due_ms ? t("about.by-until", { group: one.group, time: dayTime(one.due_ms, nowMs()) }) : t("about.by", { group: one.group });
  if (one.state === "pending") return one.due_ms ? t("about.until", { time: dayTime(one.due_ms, nowMs()) }) : "";
  const at = one.groups.filter((each) => each.state !== "not taken");
  if (!at.length) return "";
  const first = at.find((each) => each.state === one.consumption) ?? at[0];
  const here = first.state === one.consumption ? t("about.by", { group: first.group }) : t("about.state-by", { state: term("state", first.state), group: first.group });
  return at.length > 1 ? t("about.more", { about: here, count: at.length - 1 }) : here;
}

// Every group's state, for the title.
const whole = (one) => one.groups.map((each) => t("about.group", {
  group: each.group,
  state: term("state", each.state),
  times: each.times > 1 ? t("about.times", { times: each.times }) : "",
  until: each.until_ms ? t("about.group-until", { time: dayTime(each.until_ms, nowMs()) }) : "",
})).join("\n");

export function messageTable(label, messages) {
  return table(label, [t("column.time"), t("column.state"), t("column.topic"), t("column.marks"), t("column.body"), [t("column.size"), "number"], [t("column.late"), "number"]], messages.map((one) => [
    h("span", { class: "mono", title: dateTime(one.store_ms) }, dayTime(one.store_ms, nowMs(), true)),
    h("span", { class: "state-cell", title: visible(whole(one)) }, stateChip(stateOf(one)), about(one) ? cut(about(one), { class: "dim", title: null }) : null),
    topicLink(one),
    marks(one),
    h("a", { class: "clip", href: `#/messages/${encodeURIComponent(one.message_id)}` }, preview(one.preview)),
    bytes(one.size),
    one.lateness_us === null ? "" : h("span", { class: one.lateness_us > 1_000_000 ? "bad" : "" }, lateness(one.lateness_us)),
  ]));
}
