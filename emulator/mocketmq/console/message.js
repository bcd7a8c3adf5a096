// One message whole: its life in time, its properties, its body.

import { get, path, post, remove } from "./api.js";
import { bodyView } from "./body.js";
import { asCurl, asJava, asPython } from "./code.js";
import { button, empty, h } from "./dom.js";
import { follow, orMissing } from "./follow.js";
import { clockTime, date, dateTime, dayTime, duration, lateness, plural, visible } from "./format.js";
import { nowMs } from "./live.js";
import { stateChip, stateOf } from "./messagetable.js";
import { doing, notice, sentence } from "./notice.js";

// What happened to a message, in order. `late` is how long after it could have happened, in microseconds.
function lifeOf(history) {
  const due = history.life.findLast((one) => one.kind === "due");
  const note = (one) => {
    if (one.kind === "delivered" && one.fault) return `Delayed by the fault ${one.fault}.`;
    if (one !== due || history.state !== "pending") return "";
    return one.at_ms > nowMs() ? "Still waiting." : "Overdue.";
  };
  return history.life.map((one) => ({
    at: one.at_ms,
    kind: one.kind === "visible" || (one === due && history.state === "pending") ? "waiting" : one.kind,
    title: sentence(inZone(one)),
    text: note(one),
    late: one.late_us,
  }));
}

// The broker writes instants in UTC, this page in the browser's zone.
const inZone = ({ text, at_ms: at, until_ms: until }) => (until === null ? text : text.replace(/ until [-0-9: ]+$/, ` until ${dayTime(until, at)}`));

function lifeLine(life) {
  let before = null;
  let day = null;
  return h("ol", { class: "life", "aria-label": "Life of the message" }, life.map((one) => {
    const gap = before === null ? "" : one.at === before ? "at once" : `+ ${duration(one.at - before)}`;
    const today = date(one.at);
    const newDay = today !== day;
    before = one.at;
    day = today;
    return h("li", { class: `stage ${one.kind}` },
      h("span", { class: "at mono", title: dateTime(one.at) }, newDay ? h("small", {}, today) : null, clockTime(one.at, true)),
      h("div", {}, h("b", {}, visible(one.title)), one.late === null ? null : h("span", { class: one.kind === "delivered" && one.late > 1_000_000 ? "late bad" : "late" }, one.kind === "delivered" ? (one.late <= 0 ? "on time" : `${lateness(one.late)} late`) : `after ${lateness(one.late)}`), one.text ? h("p", {}, visible(one.text)) : null),
      h("span", { class: "gap dim" }, gap));
  }));
}

export function showMessage(view, place) {
  const id = place.rest[0];
  const body = h("div", {});
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/messages" }, "Messages"), " / ", visible(id)), body);
  const load = follow(place, orMissing(() => get(path`/v1/messages/${id}`)), (history) => body.replaceChildren(...(history.missing ? unknown(id) : whole(history, () => load()))));
}

const unknown = (id) => [h("h1", {}, visible(id)), h("div", {}, empty("No such message", "The broker has no message with this id. It may have been removed by a reset, or because of its age."))];

function whole(history, load) {
  const record = history.records.at(-1);
  const first = history.records[0];
  const topic = first.real_topic ?? first.topic;
  const act = (label, request, where, done, kind = "") => button(label, doing(async () => { await request(where); notice(done); await load(); }), { class: kind });
  const copy = (label, text) => button(label, doing(async () => { await navigator.clipboard.writeText(text); notice(`${label.replace("Copy as ", "")} copied.`); }), { class: "plain" });
  const given = history.life.filter((one) => one.kind === "retried").length;
  const facts = [
    ["Message id", record.message_id], ["Topic", topic], ["Tag", record.tag], ["Keys", record.keys.join(" ")], ["Priority", record.priority === null ? null : String(record.priority)], ["Lite topic", record.lite_topic], ["Trace", record.trace_id], ["State", [history.state, history.consumption].filter(Boolean).join(", ")],
    record.lite_topic === null ? ["Queue", `${record.queue_id}, offset ${record.queue_offset}`] : ["Offset", String(record.queue_offset)], ["Offset message id", record.offset_message_id],
    ["Born", `${dateTime(record.born_ms)} at ${record.born_host}`], ["Given back", given ? plural(given, "time") : null],
  ].filter(([, value]) => value);
  const names = Object.entries(record.properties);
  return [
    h("div", { class: "row" }, h("h1", {}, topic), stateChip(stateOf(history)), h("span", { class: "spring" }),
      history.state === "pending" ? [act("Deliver now", post, path`/v1/delayed/${record.message_id}/deliver`, "Delivered."), act("Cancel", remove, path`/v1/delayed/${record.message_id}`, "Cancelled.", "danger")] : null,
      h("a", { class: "button", href: `#/send?again=${encodeURIComponent(record.message_id)}` }, "Send again")),
    h("div", { class: "halves" },
      h("section", { "aria-labelledby": "life-title" }, h("h2", { id: "life-title" }, "Life"), lifeLine(lifeOf(history))),
      h("section", { "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, "Message"),
        h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))])),
        h("h2", {}, "Properties"),
        names.length ? h("dl", { class: "facts" }, names.map(([name, value]) => [h("dt", { class: "mono" }, visible(name)), h("dd", { class: "mono" }, visible(value))])) : h("p", { class: "dim" }, "None."))),
    h("h2", {}, "Body"), bodyView(record),
    h("div", { class: "row" }, copy("Copy as curl", asCurl(topic, record)), copy("Copy as Python", asPython(topic, record)), copy("Copy as Java", asJava(topic, record))),
  ];
}
