// One message whole: its life in time, its properties, its body.

import { get, path, post, remove } from "./api.js";
import { bodyView } from "./body.js";
import { asCurl, asJava, asPython } from "./code.js";
import { button, h } from "./dom.js";
import { follow } from "./follow.js";
import { clockTime, date, dateTime, duration, lateness, plural, visible } from "./format.js";
import { nowMs } from "./live.js";
import { doing, notice } from "./notice.js";

const DOORS = { remoting: "RocketMQ’s remoting", grpc: "gRPC", http: "the JSON API", aliyun: "Aliyun’s HTTP" };
const ms = (us) => us / 1_000;

// What happened to a message, in order. `late` is how long after it could have happened.
export function lifeOf(history) {
  const life = [];
  const add = (at, kind, title, text = "", late = null) => { if (at !== null && at !== undefined) life.push({ at, kind, title, text, late }); };
  const first = history.records[0];
  add(first.born_ms, "born", "Made by its producer", `at ${first.born_host}${first.door ? `, sent through ${DOORS[first.door] ?? first.door}` : ""}`);
  const deliveries = new Map(history.deliveries.map((one) => [one.delivered_offset, one]));
  const isParked = new Map();
  for (const record of history.records) {
    const group = /^%(RETRY|DLQ)%(.*)$/.exec(record.real_topic ?? record.topic);
    const delivery = deliveries.get(record.log_offset);
    if (record.due_ms !== null) {
      isParked.set(record.log_offset, record);
      const what = group ? `Given back by ${group[2]}, parked again` : "Stored and parked";
      add(record.store_ms, group ? "retried" : "parked", what, `for ${duration(record.due_ms - record.store_ms)}, until ${clockTime(record.due_ms, true)}`);
    } else if (delivery) {
      if (!isParked.has(delivery.parked_offset)) add(ms(delivery.stored_us), "parked", "Stored and parked", `until ${clockTime(ms(delivery.due_us), true)}`);
      add(ms(delivery.due_us), "due", "Due");
      const late = delivery.delivered_us - delivery.due_us;
      add(ms(delivery.delivered_us), delivery.forced ? "forced" : "delivered", delivery.forced ? "Delivered by hand, before it was due" : `Delivered to ${group ? record.topic : `${record.topic}, queue ${record.queue_id}`}`, delivery.fault ? `put off by the fault ${delivery.fault}` : "", delivery.forced ? null : late);
      if (delivery.pulled_us !== null) add(ms(delivery.pulled_us), "taken", `First taken by ${delivery.pulled_by}`, "", delivery.pulled_us - delivery.delivered_us);
      if (delivery.acked_us !== null) add(ms(delivery.acked_us), "acknowledged", "First acknowledged", "", delivery.acked_us - (delivery.pulled_us ?? delivery.delivered_us));
    } else if (group?.[1] === "DLQ") add(record.store_ms, "dead", `Dead: ${group[2]} gave it back too often`, "It is a dead letter now.");
    else add(record.store_ms, "stored", `Stored in ${record.topic}, queue ${record.queue_id}`);
  }
  const ledgered = new Set(history.deliveries.filter((one) => one.pulled_us !== null).map((one) => one.delivered_offset));
  for (const receipt of history.receipts) {
    if (!ledgered.has(receipt.log_offset)) add(receipt.first_taken_us && ms(receipt.first_taken_us), "taken", `Taken by ${receipt.group}`);
    if (receipt.times > 1 && receipt.last_taken_us !== receipt.first_taken_us) add(receipt.last_taken_us && ms(receipt.last_taken_us), "taken", `Taken by ${receipt.group} again`, `${receipt.times} times so far`);
    if (receipt.outcome === "acked" && !(deliveries.get(receipt.log_offset)?.acked_us)) add(receipt.settled_us && ms(receipt.settled_us), "acknowledged", `Acknowledged by ${receipt.group}`);
    if (receipt.outcome === null && receipt.times) add(ms(receipt.visible_us), "waiting", `In flight at ${receipt.group} until then`);
  }
  for (const one of history.interventions) if (one.kind === "cancelled") add(ms(one.at_us), "cancelled", "Cancelled", "It will never be delivered.");
  for (const one of history.faults) add(ms(one.at_us), "fault", `Struck by the fault ${one.fault}`, one.door ? `${one.do} at ${one.door}, ${one.operation}` : `${one.do}: its delivery`);
  const newest = history.records.at(-1);
  if (history.state === "pending") add(newest.due_ms, "waiting", newest.due_ms > nowMs() ? "Due then" : "Due then, and overdue", "It waits.");
  const order = ["born", "stored", "parked", "due", "fault", "forced", "delivered", "taken", "acknowledged", "retried", "cancelled", "dead", "waiting"];
  return life.sort((a, b) => a.at - b.at || order.indexOf(a.kind) - order.indexOf(b.kind));
}

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
  const load = follow(place, () => get(path`/v1/messages/${id}`), (history) => body.replaceChildren(...whole(history, () => load())));
}

function whole(history, load) {
  const record = history.records.at(-1);
  const first = history.records[0];
  const topic = first.real_topic ?? first.topic;
  const act = (label, request, where, done, kind = "") => button(label, doing(async () => { await request(where); notice(done); await load(); }), { class: kind });
  const copy = (label, text) => button(label, doing(async () => { await navigator.clipboard.writeText(text); notice(`${label.replace("Copy as ", "")} copied.`); }), { class: "plain" });
  const facts = [
    ["Message id", record.message_id], ["Topic", topic], ["Tag", record.tag], ["Keys", record.keys.join(" ")], ["State", history.state],
    ["Queue", `${record.queue_id}, offset ${record.queue_offset}`], ["Offset message id", record.offset_message_id],
    ["Made", `${dateTime(record.born_ms)} at ${record.born_host}`], ["Given back", record.reconsume_times ? plural(record.reconsume_times, "time") : null],
  ].filter(([, value]) => value);
  const names = Object.entries(record.properties);
  return [
    h("div", { class: "row" }, h("h1", {}, topic), h("span", { class: `state ${history.state}` }, history.state), h("span", { class: "spring" }),
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
