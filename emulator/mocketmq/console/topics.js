// The view of topics: search, create, change, empty and delete them; and a page for each one.

import { get, path, post, put, query, remove } from "./api.js";
import { button, cut, cutLink, empty, field, h, select, table } from "./dom.js";
import { dateTime, visible } from "./format.js";
import { follow, orMissing } from "./follow.js";
import { count, list, t, term } from "./language.js";
import { messageTable, readMessages } from "./messagetable.js";
import { confirmed, doing, notice } from "./notice.js";
import { searched } from "./searched.js";

const SHOWN = 20;
const GROUPS = 50;
const PERMISSIONS = ["rw", "r", "w", "rwi"].map((perm) => [perm, term("perm", perm)]);

const stored = (topic) => topic.queues.reduce((sum, queue) => sum + queue.max_offset - queue.min_offset, topic.lite_messages);
const queuesOf = (topic) => (topic.read_queues === topic.write_queues ? count(topic.read_queues) : t("topics.queues", { read: topic.read_queues, write: topic.write_queues }));
const permissionOf = (topic) => term("perm", topic.perm);

const sendLink = (topic, kind) => h("a", { class: `button ${kind}`, href: `#/send?topic=${encodeURIComponent(topic.name)}` }, t("room.send"));

const emptyButton = (topic, kind, done) => button(t("topics.empty"), doing(async () => {
  if (!await confirmed(t("topics.empty-ask", { topic: visible(topic.name) }), t("topics.empty-means", { count: stored(topic) }), t("topics.empty-yes"))) return;
  await post("/v1/reset", { topic: topic.name });
  notice(t("topics.emptied", { topic: topic.name }));
  await done();
}), { class: `danger ${kind}`, "aria-label": t("topics.empty-label", { topic: topic.name }) });

const deleteButton = (topic, kind, done) => button(t("topics.delete"), doing(async () => {
  if (!await confirmed(t("topics.delete-ask", { topic: visible(topic.name) }), t("topics.delete-means"), t("topics.delete-yes"))) return;
  const gone = await remove(path`/v1/topics/${topic.name}`);
  notice(gone.cancelled ? t("topics.deleted-pending", { topic: topic.name, count: gone.cancelled }) : t("topics.deleted", { topic: topic.name }));
  await done();
}), { class: `danger ${kind}`, "aria-label": t("topics.delete-label", { topic: topic.name }) });

export function showTopics(view, place) {
  if (place.rest.length) return showTopic(view, place);
  const withSystem = h("input", { type: "checkbox", onchange: () => topics.reload() });
  const name = h("input", { required: true, autocomplete: "off", maxlength: "127" });
  const queues = h("input", { type: "number", min: "1", max: "1024", placeholder: "4" });
  const perm = select([["", t("topics.usual-permission")], ...PERMISSIONS], "");
  const make = h("button", { type: "submit" }, t("topics.make"));
  const run = doing(async () => {
    // An existing topic keeps what is not given.
    const many = queues.value ? { read_queues: Number(queues.value), write_queues: Number(queues.value) } : {};
    const topic = await put(path`/v1/topics/${name.value.trim()}`, { ...many, ...(perm.value ? { perm: perm.value } : {}) });
    notice(t("topics.made", { topic: topic.name, count: Math.max(topic.read_queues, topic.write_queues) }));
    name.value = queues.value = perm.value = "";
    await topics.reload();
  });

  function draw({ topics: shown }, search) {
    if (!shown.length) return [search ? empty(t("topics.not-found"), t("topics.not-found-means")) : empty(t("topics.none"), t("topics.none-means")), 0];
    return [table(t("room.topics"), [t("column.name"), [t("column.queues"), "number"], t("column.permission"), t("column.type"), [t("column.messages"), "number"], ["", "actions"]], shown.map((one) => [
      cutLink(one.name, `#/topics/${encodeURIComponent(one.name)}`), queuesOf(one), permissionOf(one), term("type", one.type), count(stored(one)),
      one.system ? "" : h("div", { class: "row nowrap" }, sendLink(one, "small"), emptyButton(one, "small", topics.reload), deleteButton(one, "small", topics.reload)),
    ])), shown.length];
  }

  const topics = searched(place, "topics", (page) => get(`/v1/topics${query({ ...page, user: !withSystem.checked })}`), draw);
  view.append(h("h1", {}, t("room.topics")),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field(t("column.name"), name), field(t("column.queues"), queues), field(t("column.permission"), perm), make),
    topics.search, h("label", { class: "row" }, withSystem, t("topics.system")), topics.list);
}

function liteTopics(name, lites, all) {
  if (!lites.length) return empty(t("topics.lite-none"), t("topics.lite-none-means"));
  const rows = lites.map((lite) => [cut(lite.name), count(lite.max_offset - lite.min_offset), dateTime(lite.last_ms), lite.expires_ms === null ? t("topics.never") : dateTime(lite.expires_ms), count(lite.clients.length), list(lite.groups)]);
  return h("div", {}, table(t("topics.lite-table", { topic: visible(name) }), [t("column.name"), [t("column.messages"), "number"], [t("topics.lite-newest"), "named"], [t("topics.lite-expires"), "named"], [t("topics.lite-subscribers"), "number"], [t("topics.lite-behind"), "named"]], rows),
    all > lites.length ? h("p", { class: "dim" }, t("topics.lite-first", { number: lites.length })) : "");
}

function showTopic(view, place) {
  const name = place.rest[0];
  const body = h("div", {});
  const actions = h("div", { class: "row nowrap" });
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/topics" }, t("room.topics")), " / ", visible(name)),
    h("div", { class: "row" }, h("h1", {}, visible(name)), h("span", { class: "spring" }), actions), body);

  async function read() {
    const [topic, newest, { groups, next_after: more }] = await Promise.all([
      get(path`/v1/topics/${name}`), readMessages({ topic: name, max: SHOWN }), get(`/v1/groups${query({ topic: name, max: GROUPS })}`),
    ]);
    const lites = topic.lite_topics ? (await get(path`/v1/topics/${name}/lite-topics` + query({ max: SHOWN }))).lite_topics : [];
    return { topic, messages: newest.messages, isAll: newest.next_before === null, groups, more, lites };
  }

  const reload = follow(place, orMissing(read), ({ missing, topic, messages, isAll, groups, more, lites }) => {
    if (missing) return body.replaceChildren(empty(t("topics.missing"), t("topics.missing-means")));
    actions.replaceChildren(...(topic.system ? [] : [sendLink(topic, ""), emptyButton(topic, "", () => reload()), deleteButton(topic, "", () => { location.hash = "#/topics"; })]));
    body.replaceChildren(
      h("div", { class: "figures" }, [[count(stored(topic)), t("topics.messages")], [queuesOf(topic), t("topics.queue-count", { count: Math.max(topic.read_queues, topic.write_queues) })], [permissionOf(topic), t("topics.permission")], [term("type", topic.type), t("topics.type")]].map(([value, label]) => h("div", { class: "figure" }, h("b", {}, value), h("span", {}, label)))),
      h("h2", {}, t("topics.newest")),
      messages.length ? messageTable(t("topics.newest-table", { topic: visible(name) }), messages) : empty(t("messages.none"), t("topics.no-messages")),
      messages.length ? h("p", {}, h("a", { href: `#/messages${query({ topic: name })}` }, t(isAll ? "topics.search-these" : "topics.all-messages"))) : "",
      h("h2", {}, t("topics.groups")),
      groups.length ? table(t("topics.groups-table", { topic: visible(name) }), [t("column.name"), [t("column.lag"), "number"], [t("column.in-flight"), "number"]], groups.map((group) => {
        const here = group.queues.filter((queue) => queue.topic === name);
        const sum = (field_) => count(here.reduce((total, queue) => total + queue[field_], 0));
        return [cutLink(group.name, `#/groups/${encodeURIComponent(group.name)}`), sum("lag"), sum("in_flight")];
      })) : h("p", { class: "dim" }, t("topics.no-group")),
      more ? h("p", { class: "dim" }, t("topics.first-groups", { number: GROUPS })) : "",
      ...(topic.type === "lite" ? [h("h2", {}, t("topics.lite-title", { number: topic.lite_topics })), liteTopics(name, lites, topic.lite_topics)] : []),
      h("h2", {}, t("topics.queues-title")),
      table(t("topics.queues-table", { topic: visible(name) }), ["queue", "first-offset", "next-offset", "messages"].map((column) => [t(`column.${column}`), "number"]), topic.queues.map((queue) => [
        queue.queue_id, count(queue.min_offset), count(queue.max_offset), count(queue.max_offset - queue.min_offset)])));
  });
}
