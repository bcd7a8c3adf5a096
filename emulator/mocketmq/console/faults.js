// The view of injected faults: add rules, switch them, see them fire.

import { get, path, post, remove } from "./api.js";
import { button, cut, empty, field, h, select, table } from "./dom.js";
import { count, visible } from "./format.js";
import { follow } from "./follow.js";
import { doing, notice } from "./notice.js";

const ERRORS = ["SYSTEM_BUSY", "FLUSH_DISK_TIMEOUT", "SLAVE_NOT_AVAILABLE", "SERVICE_NOT_AVAILABLE", "NO_PERMISSION", "TOPIC_NOT_EXIST", "SUBSCRIPTION_GROUP_NOT_EXIST"];

// What each kind does, and its fields besides where and when.
const KINDS = {
  refuse: ["refuse requests", ["error"]], late: ["answer late", ["by", "stage"]], never: ["never answer", ["stage"]], twice: ["answer twice", []], close: ["close the connection", ["stage"]],
  "read-only": ["be read-only", []], "disk-full": ["have a full disk", []], "deliver-late": ["deliver late", ["by"]], "deliver-shuffled": ["deliver out of order", ["by"]],
  hold: ["hold due messages", []], throttle: ["limit deliveries per second", ["per_second"]], "deliver-again": ["deliver again", ["times", "by"]],
};
const DELIVERIES = new Set(["deliver-late", "deliver-shuffled", "hold", "throttle", "deliver-again"]);
const WITHOUT_PLACE = new Set(["read-only", "disk-full"]);
const COUNTS = new Set(["state", "matched", "fired", "held", "name"]);
const off = new Map(); // rules that were switched off here, by name

export function showFaults(view, place) {
  const kind = select(Object.entries(KINDS).map(([name, [text]]) => [name, text]), "refuse", { onchange: () => choose() });
  const inputs = {
    error: select(ERRORS.map((one) => [one, one]), ERRORS[0]),
    by: h("input", { value: "2s", placeholder: "2s or uniform(1s, 5s)" }),
    stage: select([["", "after the operation"], ["before", "before the operation"]], ""),
    per_second: h("input", { type: "number", min: "1", value: "100" }),
    times: h("input", { type: "number", min: "1", value: "1" }),
    operation: select([["", "any"], ...["send", "receive", "ack", "give-back", "extend", "end-transaction"].map((one) => [one, one])], ""),
    door: select([["", "any"], ...["remoting", "grpc", "http", "aliyun"].map((one) => [one, one])], ""),
    topic: h("input", { placeholder: "any, such as bill*" }),
    group: h("input", { placeholder: "any" }),
    level: h("input", { type: "number", min: "1", placeholder: "any" }),
    next: h("input", { type: "number", min: "1", placeholder: "all" }),
    probability: h("input", { type: "number", min: "0", max: "1", step: "any", placeholder: "1" }),
    lasts: h("input", { placeholder: "until it is removed" }),
  };
  const labels = { error: "Error", by: "By how long", stage: "When in the request", per_second: "Per second", times: "Times", operation: "Operation", door: "Door", topic: "Topic", group: "Group", level: "Level", next: "Only the next", probability: "Probability", lasts: "Lasts" };
  const fields = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, field(labels[name], input)]));
  const submit = h("button", { type: "submit" }, "Add the rule");
  const shown = () => new Set([...KINDS[kind.value][1], ...(DELIVERIES.has(kind.value) ? ["topic", "level"] : WITHOUT_PLACE.has(kind.value) ? ["topic"] : ["operation", "door", "topic", "group"]), "next", "probability", "lasts"]);

  function choose() {
    const wanted = shown();
    for (const [name, one] of Object.entries(fields)) one.hidden = !wanted.has(name);
  }

  const run = doing(async () => {
    const rule = { do: kind.value };
    for (const name of shown()) {
      const value = inputs[name].value.trim();
      if (value) rule[name] = inputs[name].type === "number" ? Number(value) : value;
    }
    const made = await post("/v1/faults", rule);
    notice(`The fault ${made.name} is active.`);
    await reload();
  });
  const list = h("div", {});
  view.append(h("h1", {}, "Faults"),
    h("form", { class: "form card", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } },
      h("div", { class: "fields" }, field("Make the broker", kind), Object.values(fields)), h("div", { class: "row" }, submit)),
    h("h2", {}, "Rules"), list);
  choose();

  const said = (fault) => Object.entries(fault).filter(([name]) => !COUNTS.has(name) && name !== "do").map(([name, value]) => h("span", { class: "tag" }, `${name} ${visible(Array.isArray(value) ? value.join(", ") : String(value))}`));
  const ruleOf = (fault) => Object.fromEntries(Object.entries(fault).filter(([name]) => name === "name" || !COUNTS.has(name)));

  async function switchOn(fault) {
    if (!off.delete(fault.name)) await remove(path`/v1/faults/${fault.name}`);
    await post("/v1/faults", ruleOf(fault));
    notice(`The fault ${fault.name} is active again.`);
    await reload();
  }

  async function end(fault, keeps) {
    const ended = off.has(fault.name) ? fault : await remove(path`/v1/faults/${fault.name}`);
    off.delete(fault.name);
    if (keeps) off.set(fault.name, { ...ended, state: "off" });
    notice(keeps ? `The fault ${fault.name} is off.` : `The fault ${fault.name} is removed.`);
    await reload();
  }

  const reload = follow(place, () => get("/v1/faults"), ({ faults }) => {
    for (const one of faults) off.delete(one.name);
    const all = [...faults, ...off.values()];
    list.replaceChildren(all.length ? table("Faults", ["Name", "What", ["Where and when", "wrap"], "State", ["Matched", "number"], ["Fired", "number"], ["Holds", "number"], ["", "actions"]], all.map((one) => [
      cut(one.name), KINDS[one.do]?.[0] ?? one.do, said(one), h("span", { class: `kind ${one.state}` }, one.state), count(one.matched), h("span", { class: one.fired ? "bad" : "" }, count(one.fired)), count(one.held ?? 0),
      h("div", { class: "row nowrap" },
        one.state === "active" || one.state === "waiting" ? button("Switch off", doing(() => end(one, true)), { class: "small", "aria-label": `Switch off ${one.name}` }) : button("Switch on", doing(() => switchOn(one)), { class: "small", "aria-label": `Switch on ${one.name}` }),
        button("Remove", doing(() => end(one, false)), { class: "small danger", "aria-label": `Remove ${one.name}` }))]))
      : empty("No injected faults", "Add a rule above: it takes effect at once, and its counts appear here as it fires."));
  });
}
