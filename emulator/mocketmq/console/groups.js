// The view of consumer groups: lag, messages in flight, members, retries, dead letters; reset, create, delete.

import { get, path, post, put, query, remove } from "./api.js";
import { button, cutLink, empty, field, h, select, table, topicLink } from "./dom.js";
import { count, dateTime, localInput, plural, visible } from "./format.js";
import { follow, orMissing } from "./follow.js";
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
  const retries = h("input", { type: "number", min: "0", max: "1000", value: "16", required: true });
  const make = h("button", { type: "submit" }, "Create or change");
  const run = doing(async () => {
    await put(path`/v1/groups/${name.value.trim()}`, { max_retries: Number(retries.value) });
    notice(`The group ${name.value.trim()} allows ${plural(Number(retries.value), "retry").replace("retrys", "retries")}.`);
    name.value = "";
    await groups.reload();
  });

  function draw({ groups: shown }, search) {
    if (!shown.length) return [search ? empty("No group found", "No name contains this text.") : empty("No groups yet", "A group exists once one of its consumers has connected or received a message, or once you create it."), 0];
    return [table("Consumer groups", ["Name", ["Lag", "number"], ["In flight", "number"], ["Retrying", "number"], ["Dead letters", "number"], ["Members", "number"], ["Retries allowed", "number"]], shown.map((one) => [
      cutLink(one.name, `#/groups/${encodeURIComponent(one.name)}`), count(one.lag), count(one.in_flight), bad(one.retrying), bad(one.dead_letters), count(one.members.length), count(one.max_retries)])), shown.length];
  }

  const groups = searched(place, "group", (page) => get(`/v1/groups${query(page)}`), draw);
  view.append(h("h1", {}, "Groups"),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field("Name", name), field("Retries allowed", retries), make), groups.search, groups.list);
}

const bad = (number) => h("span", { class: number ? "bad" : "" }, count(number));

const membersOf = ({ members }) => (members.length
  ? `Members: ${members.slice(0, MEMBERS).map(visible).join(", ")}${members.length > MEMBERS ? ` and ${count(members.length - MEMBERS)} more` : ""}.`
  : "No member is connected. Consumers over HTTP come and go with each request.");

function showGroup(view, place) {
  const name = place.rest[0];
  const body = h("div", {});
  const reset = h("div", {});
  const dead = h("div", {});
  const erase = button("Delete", doing(async () => {
    if (!await confirmed(`Delete ${name}?`, "Its committed offsets go with it. Retries and dead letters stay in their topics.", "Delete it")) return;
    await remove(path`/v1/groups/${name}`);
    notice(`The group ${name} is deleted.`);
    location.hash = "#/groups";
  }), { class: "danger" });
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups"), " / ", visible(name)),
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
      return body.replaceChildren(empty("No such group", "The broker has no consumer group of this name."));
    }
    const queues = group.queues.filter((queue) => !isDeadTopic(queue));
    const retried = `%RETRY%${name}`; // last, as its offsets are seldom reset
    const topics = [...new Set([...queues.map((queue) => queue.topic).filter((topic) => topic !== retried), ...queues.map((queue) => queue.topic)])];
    body.replaceChildren(
      h("div", { class: "figures" }, [["lag", group.lag], ["in flight", group.in_flight], ["retrying", group.retrying], ["dead letters", group.dead_letters]].map(([label, value]) => h("div", { class: label === "dead letters" && value ? "figure bad" : "figure" }, h("b", {}, count(value)), h("span", {}, label)))),
      group.lite_parent === null ? "" : h("p", {}, "Consumes the lite topics of ", h("a", { href: `#/topics/${encodeURIComponent(group.lite_parent)}` }, visible(group.lite_parent)), "."),
      h("p", { class: "dim" }, membersOf(group)),
      queues.length ? table(`Queues of ${name}`, ["Topic", ["Queue", "number"], ["Committed", "number"], ["End", "number"], ["Lag", "number"], ["In flight", "number"], ["Retrying", "number"]], queues.map((queue) => [
        topicLink(queue), queue.lite_topic === null ? queue.queue_id : "", count(queue.committed_offset), count(queue.max_offset), count(queue.lag), count(queue.in_flight), count(queue.retrying)])) : empty("Nothing consumed yet", "The group's queues are listed once it has received from a topic."));
    if (topics.join() !== resettable) {
      resettable = topics.join();
      reset.replaceChildren(topics.length ? resetForm(name, topics, () => reload()) : "");
    }
    dead.replaceChildren(letters.length ? h("section", {}, h("h2", {}, "Dead letters"), h("p", { class: "dim" }, "Open one to send it to its original topic again."), messageTable("Dead letters", letters)) : "");
  });
}

function resetForm(name, topics, done) {
  const topic = select(topics.map((one) => [one, one]), topics[0]);
  const to = select([["start", "the start"], ["end", "the end"], ["time", "a time"]], "start", { onchange: () => { time.hidden = to.value !== "time"; } });
  const at = h("input", { type: "datetime-local", step: "1", value: localInput(nowMs()) });
  const time = field("Time", at);
  time.hidden = true;
  const submit = h("button", { type: "submit" }, "Reset offsets");
  const run = doing(async () => {
    const where = to.value === "time" ? { instant_ms: new Date(at.value).getTime() } : { to: to.value };
    const group = await post(path`/v1/groups/${name}/reset`, { topic: topic.value, ...where });
    submit.blur();
    notice(`${name} now reads ${topic.value} from ${where.to ? `the ${where.to}` : dateTime(where.instant_ms)}: lag ${count(group.lag)}.`);
    await done();
  });
  return h("form", { class: "make reset", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } }, field("Reset offsets in", topic), field("to", to), time, submit);
}
