// Consumer groups: lag, what is in flight, members, retries and dead letters; reset offsets, make and delete.

import { get, path, post, put, query, remove } from "./api.js";
import { button, empty, field, h, select, table } from "./dom.js";
import { count, localInput, plural, visible } from "./format.js";
import { follow } from "./follow.js";
import { nowMs } from "./live.js";
import { records } from "./messages.js";
import { confirmed, doing, notice } from "./notice.js";

const isDeadTopic = (queue) => queue.topic.startsWith("%DLQ%");

async function read() {
  const [{ groups }, { topics }, { clients }] = await Promise.all([get("/v1/groups"), get("/v1/topics"), get("/v1/clients")]);
  const sizes = new Map(topics.map((topic) => [topic.name, topic.queues.reduce((sum, queue) => sum + queue.max_offset - queue.min_offset, 0)]));
  return groups.map((group) => ({
    ...group,
    retries: sizes.get(`%RETRY%${group.name}`) ?? 0,
    dead: sizes.get(`%DLQ%${group.name}`) ?? 0,
    members: clients.filter((one) => one.consumer_groups.some((each) => each.group === group.name)).map((one) => one.client_id),
  }));
}

export function showGroups(view, place) {
  if (place.rest.length) return showGroup(view, place);
  const list = h("div", {});
  const name = h("input", { required: true, autocomplete: "off", maxlength: "255" });
  const retries = h("input", { type: "number", min: "0", max: "1000", value: "16", required: true });
  const make = h("button", { type: "submit" }, "Make or change");
  const run = doing(async () => {
    await put(path`/v1/groups/${name.value.trim()}`, { max_retries: Number(retries.value) });
    notice(`The group ${name.value.trim()} gives up after ${plural(Number(retries.value), "retry").replace("retrys", "retries")}.`);
    name.value = "";
    await reload();
  });
  view.append(h("h1", {}, "Groups"),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field("Name", name), field("Most retries", retries), make), list);
  const reload = follow(place, read, (groups) => list.replaceChildren(groups.length
    ? table("Consumer groups", ["Name", ["Lag", "number"], ["In flight", "number"], ["Members", "number"], ["Retries", "number"], ["Dead letters", "number"], ["Most retries", "number"]], groups.map((one) => [
      h("a", { href: `#/groups/${encodeURIComponent(one.name)}` }, visible(one.name)), count(one.lag), count(one.in_flight), count(one.members.length), count(one.retries),
      h("span", { class: one.dead ? "bad" : "" }, count(one.dead)), count(one.max_retries)]))
    : empty("No groups yet", "A group is there once one of its consumers has connected or received, or when you make one.")));
}

function showGroup(view, place) {
  const name = place.rest[0];
  const body = h("div", {});
  const reset = h("div", {});
  const dead = h("div", {});
  view.append(h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups"), " / ", visible(name)),
    h("div", { class: "row" }, h("h1", {}, visible(name)), h("span", { class: "spring" }), button("Delete", doing(async () => {
      if (!await confirmed(`Delete ${name}?`, "Its committed offsets go with it. Retries and dead letters stay in their topics.", "Delete it")) return;
      await remove(path`/v1/groups/${name}`);
      notice(`The group ${name} is deleted.`);
      location.hash = "#/groups";
    }), { class: "danger" })), body, reset, dead);

  async function readOne() {
    const [group, letters] = await Promise.all([
      read().then((groups) => groups.find((one) => one.name === name) ?? get(path`/v1/groups/${name}`)),
      get(`/v1/records${query({ topic: `%DLQ%${name}`, max: 50 })}`),
    ]);
    return { group, letters: letters.records };
  }

  let resettable = ""; // the form stays as long as its topics do, with what was chosen in it
  const reload = follow(place, readOne, ({ group, letters }) => {
    const queues = group.queues.filter((queue) => !isDeadTopic(queue));
    const topics = [...new Set(queues.map((queue) => queue.topic))];
    body.replaceChildren(
      h("div", { class: "figures" }, [["lag", group.lag], ["in flight", group.in_flight], ["retries", group.retries ?? 0], ["dead letters", group.dead ?? 0]].map(([label, value]) => h("div", { class: label === "dead letters" && value ? "figure bad" : "figure" }, h("b", {}, count(value)), h("span", {}, label)))),
      h("p", { class: "dim" }, group.members?.length ? `Members: ${group.members.map(visible).join(", ")}.` : "No member is connected. Consumers over HTTP come and go with each request."),
      queues.length ? table(`Queues of ${name}`, ["Topic", ["Queue", "number"], ["Committed", "number"], ["End", "number"], ["Lag", "number"], ["In flight", "number"]], queues.map((queue) => [
        visible(queue.topic), queue.queue_id, count(queue.committed_offset), count(queue.max_offset), count(queue.lag), count(queue.in_flight)])) : empty("Nothing consumed yet", "The group's queues are listed once it has received from a topic."));
    if (topics.join() !== resettable) {
      resettable = topics.join();
      reset.replaceChildren(topics.length ? resetForm(name, topics, () => reload()) : "");
    }
    dead.replaceChildren(letters.length ? h("section", {}, h("h2", {}, "Dead letters"), h("p", { class: "dim" }, "Open one to send it again to where it came from."), records("Dead letters", letters)) : "");
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
    notice(`${name} begins again at ${to.options[to.selectedIndex].text} of ${topic.value}: lag ${count(group.lag)}.`);
    await done();
  });
  return h("form", { class: "make reset", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } }, field("Let it begin again in", topic), field("at", to), time, submit);
}
