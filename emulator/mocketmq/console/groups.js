// The view of consumer groups: lag, messages in flight, members, retries, dead letters; reset, create, delete.

import { get, path, post, put, query, remove } from "./api.js";
import { button, cutLink, empty, field, h, select, table, topicLink } from "./dom.js";
import { dateTime, localInput, visible } from "./format.js";
import { follow, orMissing } from "./follow.js";
import { count, list, parts, t } from "./language.js";
import { nowMs } from "./live.js";
import { messageTable, readMessages } from "./messagetable.js";
import { confirmed, doing, notice } from "./notice.js";
import { searched } from "./searched.js";

const LETTERS = 50;
const MEMBERS = 50;

const isDeadTopic = (queue) => queue.topic.startsWith("%DLQ%");

export function showGroups(view, place) {
  if (place.rest.length) return showGroup(view, place);
  const name = h("input", { required: true, autocomplete: "off", maxlength: "255" });
  const retries = h("input", { type: "number", min: "0", max: "1000", placeholder: "16" });
  const make = h("button", { type: "submit" }, t("topics.make"));
  const run = doing(async () => {
    // An existing group keeps its retries unless they are given.
    const group = await put(path`/v1/groups/${name.value.trim()}`, retries.value ? { max_retries: Number(retries.value) } : {});
    notice(t("groups.made", { group: group.name, count: group.max_retries }));
    name.value = retries.value = "";
    await groups.reload();
  });

  function draw({ groups: shown }, search) {
    if (!shown.length) return [search ? empty(t("groups.not-found"), t("topics.not-found-means")) : empty(t("groups.none"), t("groups.none-means")), 0];
    return [table(t("groups.table"), [t("column.name"), ...["lag", "in-flight", "retrying", "dead", "members", "retries"].map((column) => [t(`column.${column}`), "number"])], shown.map((one) => [
      cutLink(one.name, `#/groups/${encodeURIComponent(one.name)}`), count(one.lag), count(one.in_flight), bad(one.retrying), bad(one.dead_letters), count(one.members.length), count(one.max_retries)])), shown.length];
  }

  const groups = searched(place, "groups", (page) => get(`/v1/groups${query(page)}`), draw);
  view.append(h("h1", {}, t("room.groups")),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field(t("column.name"), name), field(t("column.retries"), retries), make), groups.search, groups.list);
}

const bad = (number) => h("span", { class: number ? "bad" : "" }, count(number));

function membersOf({ members }) {
  const names = list(members.slice(0, MEMBERS).map(visible));
  if (members.length > MEMBERS) return t("groups.members-more", { names, number: members.length - MEMBERS });
  return members.length ? t("groups.members", { names }) : t("groups.no-members");
}

function showGroup(view, place) {
  const name = place.rest[0];
  const body = h("div", {});
  const reset = h("div", {});
  const dead = h("div", {});
  const erase = button(t("topics.delete"), doing(async () => {
    if (!await confirmed(t("groups.delete-ask", { group: visible(name) }), t("groups.delete-means"), t("topics.delete-yes"))) return;
    await remove(path`/v1/groups/${name}`);
    notice(t("groups.deleted", { group: name }));
    location.hash = "#/groups";
  }), { class: "danger" });
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, t("room.groups")), " / ", visible(name)),
    h("div", { class: "row" }, h("h1", {}, visible(name)), h("span", { class: "spring" }), erase), body, reset, dead);

  async function readOne() {
    const [group, letters] = await Promise.all([
      get(path`/v1/groups/${name}`), readMessages({ topic: `%DLQ%${name}`, max: LETTERS }),
    ]);
    return { group, letters: letters.messages };
  }

  let resettable = ""; // the form is kept, with its input, while its topics stay the same
  const reload = follow(place, orMissing(readOne), ({ missing, group, letters }) => {
    erase.hidden = Boolean(missing);
    if (missing) {
      reset.replaceChildren();
      dead.replaceChildren();
      return body.replaceChildren(empty(t("groups.missing"), t("groups.missing-means")));
    }
    const queues = group.queues.filter((queue) => !isDeadTopic(queue));
    const retried = `%RETRY%${name}`; // last, as its offsets are seldom reset
    const topics = [...new Set([...queues.map((queue) => queue.topic).filter((topic) => topic !== retried), ...queues.map((queue) => queue.topic)])];
    body.replaceChildren(
      h("div", { class: "figures" }, [["lag", group.lag], ["in-flight", group.in_flight], ["retrying", group.retrying], ["dead", group.dead_letters]].map(([label, value]) => h("div", { class: label === "dead" && value ? "figure bad" : "figure" }, h("b", {}, count(value)), h("span", {}, t(`groups.${label}`))))),
      group.lite_parent === null ? "" : h("p", {}, parts("groups.lite-parent", { topic: h("a", { href: `#/topics/${encodeURIComponent(group.lite_parent)}` }, visible(group.lite_parent)) })),
      h("p", { class: "dim" }, membersOf(group)),
      queues.length ? table(t("groups.queues-table", { group: visible(name) }), [t("column.topic"), ...["queue", "committed", "end", "lag", "in-flight", "retrying"].map((column) => [t(`column.${column}`), "number"])], queues.map((queue) => [
        topicLink(queue), queue.lite_topic === null ? queue.queue_id : "", count(queue.committed_offset), count(queue.max_offset), count(queue.lag), count(queue.in_flight), count(queue.retrying)])) : empty(t("groups.nothing"), t("groups.nothing-means")));
    if (topics.join() !== resettable) {
      resettable = topics.join();
      reset.replaceChildren(topics.length ? resetForm(name, topics, () => reload()) : "");
    }
    dead.replaceChildren(letters.length ? h("section", {}, h("h2", {}, t("groups.dead-title")), h("p", { class: "dim" }, t("groups.dead-means")), messageTable(t("groups.dead-title"), letters)) : "");
  });
}

function resetForm(name, topics, done) {
  const topic = select(topics.map((one) => [one, one]), topics[0]);
  const to = select(["start", "end", "time"].map((one) => [one, t(`groups.to-${one}`)]), "start", { onchange: () => { time.hidden = to.value !== "time"; } });
  const at = h("input", { type: "datetime-local", step: "1", value: localInput(nowMs()) });
  const time = field(t("column.time"), at);
  time.hidden = true;
  const submit = h("button", { type: "submit" }, t("groups.reset"));
  const run = doing(async () => {
    const where = to.value === "time" ? { instant_ms: new Date(at.value).getTime() } : { to: to.value };
    const group = await post(path`/v1/groups/${name}/reset`, { topic: topic.value, ...where });
    submit.blur();
    const from = where.to ? t(`groups.to-${where.to}`) : t("groups.from-time", { time: dateTime(where.instant_ms) });
    notice(t("groups.was-reset", { group: name, topic: topic.value, where: from, lag: group.lag }));
    await done();
  });
  return h("form", { class: "make reset", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } }, field(t("groups.reset-in"), topic), field(t("groups.to"), to), time, submit);
}
