// The view of topics: search, create, change, empty and delete them; and a page for each one.

import { get, path, post, put, query, remove } from "./api.js";
import { button, cut, cutLink, empty, field, h, select, table } from "./dom.js";
import { count, dateTime, plural, visible } from "./format.js";
import { follow, orMissing } from "./follow.js";
import { messageTable, readMessages } from "./messagetable.js";
import { confirmed, doing, notice } from "./notice.js";
import { searched } from "./searched.js";

const SHOWN = 20;
const GROUPS = 50;
const PERMISSIONS = { rw: "read and write", r: "read only", w: "write only", rwi: "read, write, inherit" };

const stored = (topic) => topic.queues.reduce((sum, queue) => sum + queue.max_offset - queue.min_offset, topic.lite_messages);
const queuesOf = (topic) => (topic.read_queues === topic.write_queues ? count(topic.read_queues) : `${topic.read_queues} read, ${topic.write_queues} write`);
const permissionOf = (topic) => PERMISSIONS[topic.perm] ?? topic.perm;

const sendLink = (topic, kind) => h("a", { class: `button ${kind}`, href: `#/send?topic=${encodeURIComponent(topic.name)}` }, "Send");

const emptyButton = (topic, kind, done) => button("Empty", doing(async () => {
  if (!await confirmed(`Empty ${visible(topic.name)}?`, `Its ${plural(stored(topic), "message")} and its pending messages are removed. The topic stays.`, "Empty it")) return;
  await post("/v1/reset", { topic: topic.name });
  notice(`${topic.name} is empty.`);
  await done();
}), { class: `danger ${kind}`, "aria-label": `Empty ${topic.name}` });

const deleteButton = (topic, kind, done) => button("Delete", doing(async () => {
  if (!await confirmed(`Delete ${visible(topic.name)}?`, "Its messages, retries, dead letters and all groups' offsets are deleted, too.", "Delete it")) return;
  const gone = await remove(path`/v1/topics/${topic.name}`);
  notice(`${topic.name} is deleted${gone.cancelled ? `; ${plural(gone.cancelled, "pending message")} cancelled` : ""}.`);
  await done();
}), { class: `danger ${kind}`, "aria-label": `Delete ${topic.name}` });

export function showTopics(view, place) {
  if (place.rest.length) return showTopic(view, place);
  const withSystem = h("input", { type: "checkbox", onchange: () => topics.reload() });
  const name = h("input", { required: true, autocomplete: "off", maxlength: "127" });
  const queues = h("input", { type: "number", min: "1", max: "1024", value: "4", required: true });
  const perm = select(Object.entries(PERMISSIONS), "rw");
  const make = h("button", { type: "submit" }, "Create or change");
  const run = doing(async () => {
    const many = Number(queues.value);
    await put(path`/v1/topics/${name.value.trim()}`, { read_queues: many, write_queues: many, perm: perm.value });
    notice(`The topic ${name.value.trim()} has ${plural(many, "queue")}.`);
    name.value = "";
    await topics.reload();
  });

  function draw({ topics: shown }, search) {
    if (!shown.length) return [search ? empty("No topic found", "No name contains this text.") : empty("No topics yet", "Topics are created when a client first sends to them, or by the form above."), 0];
    return [table("Topics", ["Name", ["Queues", "number"], "Permission", "Type", ["Messages", "number"], ["", "actions"]], shown.map((one) => [
      cutLink(one.name, `#/topics/${encodeURIComponent(one.name)}`), queuesOf(one), permissionOf(one), one.type, count(stored(one)),
      one.system ? "" : h("div", { class: "row nowrap" }, sendLink(one, "small"), emptyButton(one, "small", topics.reload), deleteButton(one, "small", topics.reload)),
    ])), shown.length];
  }

  const topics = searched(place, "topic", (page) => get(`/v1/topics${query({ ...page, user: !withSystem.checked })}`), draw);
  view.append(h("h1", {}, "Topics"),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field("Name", name), field("Queues", queues), field("Permission", perm), make),
    topics.search, h("label", { class: "row" }, withSystem, "Show the system's own topics, retries and dead letters"), topics.list);
}

function liteTopics(name, lites, all) {
  if (!lites.length) return empty("No lite topics", "A first message makes a lite topic.");
  const rows = lites.map((lite) => [cut(lite.name), count(lite.max_offset - lite.min_offset), dateTime(lite.last_ms), lite.expires_ms === null ? "never" : dateTime(lite.expires_ms), count(lite.clients.length), lite.groups.join(", ")]);
  return h("div", {}, table(`Lite topics of ${visible(name)}`, ["Name", ["Messages", "number"], ["Newest message", "named"], ["Expires", "named"], ["Subscribers", "number"], ["Groups behind", "named"]], rows),
    all > lites.length ? h("p", { class: "dim" }, `The first ${lites.length} by name.`) : "");
}

function showTopic(view, place) {
  const name = place.rest[0];
  const body = h("div", {});
  const actions = h("div", { class: "row nowrap" });
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/topics" }, "Topics"), " / ", visible(name)),
    h("div", { class: "row" }, h("h1", {}, visible(name)), h("span", { class: "spring" }), actions), body);

  async function read() {
    const [topic, newest, { groups, next_after: more }] = await Promise.all([
      get(path`/v1/topics/${name}`), readMessages({ topic: name, max: SHOWN }), get(`/v1/groups${query({ topic: name, max: GROUPS })}`),
    ]);
    const lites = topic.lite_topics ? (await get(path`/v1/topics/${name}/lite-topics` + query({ max: SHOWN }))).lite_topics : [];
    return { topic, messages: newest.messages, isAll: newest.next_before === null, groups, more, lites };
  }

  const reload = follow(place, orMissing(read), ({ missing, topic, messages, isAll, groups, more, lites }) => {
    if (missing) return body.replaceChildren(empty("No such topic", "The broker has no topic of this name."));
    actions.replaceChildren(...(topic.system ? [] : [sendLink(topic, ""), emptyButton(topic, "", () => reload()), deleteButton(topic, "", () => { location.hash = "#/topics"; })]));
    body.replaceChildren(
      h("div", { class: "figures" }, [[count(stored(topic)), "messages"], [queuesOf(topic), topic.read_queues === 1 && topic.write_queues === 1 ? "queue" : "queues"], [permissionOf(topic), "permission"], [topic.type, "message type for gRPC clients"]].map(([value, label]) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label)))),
      h("h2", {}, "Newest messages"),
      messages.length ? messageTable(`Newest messages of ${visible(name)}`, messages) : empty("No messages", "Messages are listed here once they are sent."),
      messages.length ? h("p", {}, h("a", { href: `#/messages${query({ topic: name })}` }, isAll ? "Search these messages" : "All messages of this topic")) : "",
      h("h2", {}, "Consumer groups"),
      groups.length ? table(`Consumer groups of ${visible(name)}`, ["Name", ["Lag", "number"], ["In flight", "number"]], groups.map((group) => {
        const here = group.queues.filter((queue) => queue.topic === name);
        const sum = (field_) => count(here.reduce((total, queue) => total + queue[field_], 0));
        return [cutLink(group.name, `#/groups/${encodeURIComponent(group.name)}`), sum("lag"), sum("in_flight")];
      })) : h("p", { class: "dim" }, "No group has consumed this topic."),
      more ? h("p", { class: "dim" }, `The first ${GROUPS} groups.`) : "",
      ...(topic.type === "lite" ? [h("h2", {}, `Lite topics: ${count(topic.lite_topics)}`), liteTopics(name, lites, topic.lite_topics)] : []),
      h("h2", {}, "Queues"),
      table(`Queues of ${visible(name)}`, [["Queue", "number"], ["First offset", "number"], ["Next offset", "number"], ["Messages", "number"]], topic.queues.map((queue) => [
        queue.queue_id, count(queue.min_offset), count(queue.max_offset), count(queue.max_offset - queue.min_offset)])));
  });
}
