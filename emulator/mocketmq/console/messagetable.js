// A row for each message: what became of it, where it was sent, what it holds.

import { get, query } from "./api.js";
import { cut, h, marks, table, topicLink } from "./dom.js";
import { bytes, dateTime, dayTime, lateness, visible } from "./format.js";
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
export const STATES = [
  ["never taken", "never taken"], ["in flight", "in flight"], ["to be redelivered", "to be redelivered"], ["to be retried", "to be retried"],
  ["acknowledged", "acknowledged"], ["pending", "pending (delayed)"], ["delivered", "delivered after a delay"], ["dead", "dead"], ["cancelled", "cancelled"],
  ["prepared", "prepared (half message)"], ["rolled back", "rolled back"], ["abandoned", "abandoned"],
];

// The most telling word for the state of a message: what consumers did, else what the broker does with it.
export const stateOf = (one) => one.consumption ?? one.state;

export const stateChip = (word) => h("span", { class: `state ${word.replaceAll(" ", "-")}` }, word);

function about(one) {
  if (one.state === "dead") return `at ${one.group}`;
  if (one.consumption === "to be retried" && one.group) return `by ${one.group}${one.due_ms ? `, ${dayTime(one.due_ms, nowMs())}` : ""}`;
  if (one.state === "pending") return one.due_ms ? `until ${dayTime(one.due_ms, nowMs())}` : "";
  const at = one.groups.filter((each) => each.state !== "not taken");
  if (!at.length) return "";
  const first = at.find((each) => each.state === one.consumption) ?? at[0];
  return `${first.state === one.consumption ? "" : `${first.state} `}by ${first.group}${at.length > 1 ? ` and ${at.length - 1} more` : ""}`;
}

// Every group's state, for the title.
const whole = (one) => one.groups.map((each) => `${each.group}: ${each.state}${each.times > 1 ? `, taken ${each.times} times` : ""}${each.until_ms ? `, until ${dayTime(each.until_ms, nowMs())}` : ""}`).join("\n");

export function messageTable(label, messages) {
  return table(label, ["Time", "State", "Topic", "Keys and tag", "Body", ["Size", "number"], ["Late", "number"]], messages.map((one) => [
    h("span", { class: "mono", title: dateTime(one.store_ms) }, dayTime(one.store_ms, nowMs(), true)),
    h("span", { class: "state-cell", title: visible(whole(one)) }, stateChip(stateOf(one)), about(one) ? cut(about(one), { class: "dim", title: null }) : null),
    topicLink(one),
    marks(one),
    h("a", { class: "clip", href: `#/messages/${encodeURIComponent(one.message_id)}` }, visible(one.preview)),
    bytes(one.size),
    one.lateness_us === null ? "" : h("span", { class: one.lateness_us > 1_000_000 ? "bad" : "" }, lateness(one.lateness_us)),
  ]));
}
