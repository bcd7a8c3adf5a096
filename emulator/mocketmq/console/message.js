// One message whole: its life in time, its properties, its body.

import { get, path, post, remove } from "./api.js";
import { bodyView } from "./body.js";
import { asCurl, asJava, asPython } from "./code.js";
import { button, empty, h } from "./dom.js";
import { follow, orMissing } from "./follow.js";
import { dateTime, visible } from "./format.js";
import { eventText, lifeLine } from "./lifetext.js";
import { list, t, term } from "./language.js";
import { nowMs } from "./live.js";
import { stateChip, stateOf } from "./messagetable.js";
import { doing, notice } from "./notice.js";

// What happened to a message, in order. `late` is how long after it could have happened, in microseconds.
function lifeOf(history) {
  const due = history.life.findLast((one) => one.kind === "due");
  const note = (one) => {
    if (one.kind === "delivered" && one.fault) return t("message.delayed-by", { fault: one.fault });
    if (one !== due || history.state !== "pending") return "";
    return t(one.at_ms > nowMs() ? "message.still-waiting" : "message.overdue");
  };
  return history.life.map((one) => ({
    at: one.at_ms,
    kind: one.kind === "visible" || (one === due && history.state === "pending") ? "waiting" : one.kind,
    title: eventText(one),
    text: note(one),
    late: one.late_us,
  }));
}

export function showMessage(view, place) {
  const id = place.rest[0];
  const body = h("div", {});
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/messages" }, t("room.messages")), " / ", visible(id)), body);
  const load = follow(place, orMissing(() => get(path`/v1/messages/${id}`)), (history) => body.replaceChildren(...(history.missing ? unknown(id) : whole(history, () => load()))));
}

const unknown = (id) => [h("h1", {}, visible(id)), h("div", {}, empty(t("message.none"), t("message.none-means")))];

function whole(history, load) {
  const record = history.records.at(-1);
  const first = history.records[0];
  const topic = first.real_topic ?? first.topic;
  const act = (label, request, where, done, kind = "") => button(label, doing(async () => { await request(where); notice(done); await load(); }), { class: kind });
  const copy = (language, text) => button(t("message.copy", { language }), doing(async () => { await navigator.clipboard.writeText(text); notice(t("message.copied", { language })); }), { class: "plain" });
  const given = history.life.filter((one) => one.kind === "retried").length;
  const facts = [
    ["message.id", record.message_id], ["column.topic", topic], ["message.tag", record.tag], ["message.keys", record.keys.join(" ")], ["message.priority", record.priority === null ? null : String(record.priority)],
    ["message.lite-topic", record.lite_topic], ["message.trace", record.trace_id], ["column.state", list([history.state, history.consumption].filter(Boolean).map((state) => term("state", state)))],
    record.lite_topic === null ? ["column.queue", t("message.queue-offset", { queue: record.queue_id, offset: String(record.queue_offset) })] : ["message.offset", String(record.queue_offset)], ["message.offset-id", record.offset_message_id],
    ["message.born", t("message.born-at", { time: dateTime(record.born_ms), host: record.born_host })], ["message.given-back", given ? t("message.times", { count: given }) : null],
  ].filter(([, value]) => value);
  const names = Object.entries(record.properties);
  return [
    h("div", { class: "row" }, h("h1", {}, topic), stateChip(stateOf(history)), h("span", { class: "spring" }),
      history.state === "pending" ? [act(t("lane.deliver"), post, path`/v1/delayed/${record.message_id}/deliver`, t("message.delivered")), act(t("lane.cancel"), remove, path`/v1/delayed/${record.message_id}`, t("message.cancelled"), "danger")] : null,
      h("a", { class: "button", href: `#/send?again=${encodeURIComponent(record.message_id)}` }, t("message.send-again"))),
    h("div", { class: "halves" },
      h("section", { "aria-labelledby": "life-title" }, h("h2", { id: "life-title" }, t("message.life")), lifeLine(t("message.life-list"), lifeOf(history))),
      h("section", { "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, t("message.message")),
        h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, t(name)), h("dd", {}, visible(String(value)))])),
        h("h2", {}, t("message.properties")),
        names.length ? h("dl", { class: "facts" }, names.map(([name, value]) => [h("dt", { class: "mono" }, visible(name)), h("dd", { class: "mono" }, visible(value))])) : h("p", { class: "dim" }, t("message.no-properties")))),
    h("h2", {}, t("column.body")), bodyView(record),
    h("div", { class: "row" }, copy("curl", asCurl(topic, record)), copy("Python", asPython(topic, record)), copy("Java", asJava(topic, record))),
  ];
}
