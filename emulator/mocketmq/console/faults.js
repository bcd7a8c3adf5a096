// The view of injected faults: add rules, switch them, see them fire.

import { get, path, post, remove } from "./api.js";
import { showBrokers } from "./brokers.js";
import { button, cut, empty, field, h, select, table } from "./dom.js";
import { visible } from "./format.js";
import { follow } from "./follow.js";
import { count, t, term } from "./language.js";
import { doing, notice } from "./notice.js";

const ERRORS = ["SYSTEM_BUSY", "FLUSH_DISK_TIMEOUT", "SLAVE_NOT_AVAILABLE", "SERVICE_NOT_AVAILABLE", "NO_PERMISSION", "TOPIC_NOT_EXIST", "SUBSCRIPTION_GROUP_NOT_EXIST"];

// The fields of each kind, besides where and when.
const KINDS = {
  refuse: ["error"], late: ["by", "stage"], never: ["stage"], twice: [], close: ["stage"], "read-only": [], "disk-full": [],
  "deliver-late": ["by"], "deliver-shuffled": ["by"], hold: [], throttle: ["per_second"], "deliver-again": ["times", "by"],
};
const DELIVERIES = new Set(["deliver-late", "deliver-shuffled", "hold", "throttle", "deliver-again"]);
const WITHOUT_PLACE = new Set(["read-only", "disk-full"]);
const COUNTS = new Set(["state", "matched", "fired", "held", "name"]);

// Rules that were switched off here, by name; kept by the tab, so that they outlast a change of language.
const OFF = "mocketmq faults off";
const off = new Map(JSON.parse(sessionStorage.getItem(OFF) ?? "[]"));
const keepOff = () => sessionStorage.setItem(OFF, JSON.stringify([...off]));

export function showFaults(view, place) {
  const kind = select(Object.keys(KINDS).map((name) => [name, term("fault", name)]), "refuse", { onchange: () => choose() });
  const inputs = {
    error: select(ERRORS.map((one) => [one, one]), ERRORS[0]),
    by: h("input", { value: "2s", placeholder: t("faults.by-hint") }),
    stage: select([["", t("stage.after")], ["before", t("stage.before")]], ""),
    per_second: h("input", { type: "number", min: "1", value: "100" }),
    times: h("input", { type: "number", min: "1", value: "1" }),
    operation: select([["", t("faults.any")], ...["send", "receive", "ack", "give-back", "extend", "end-transaction"].map((one) => [one, term("operation", one)])], ""),
    door: select([["", t("faults.any")], ...["remoting", "grpc", "http", "aliyun"].map((one) => [one, term("door", one)])], ""),
    broker: select([["", t("faults.any")]], ""),
    topic: h("input", { placeholder: t("faults.any-topic") }),
    group: h("input", { placeholder: t("faults.any") }),
    level: h("input", { type: "number", min: "1", placeholder: t("faults.any") }),
    next: h("input", { type: "number", min: "1", placeholder: t("faults.all") }),
    probability: h("input", { type: "number", min: "0", max: "1", step: "any", placeholder: "1" }),
    lasts: h("input", { placeholder: t("faults.until-removed") }),
  };
  const fields = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, field(t(`fault-field.${name}`), input)]));
  const submit = h("button", { type: "submit" }, t("faults.add"));
  const shown = () => new Set([...KINDS[kind.value], ...(DELIVERIES.has(kind.value) ? ["topic", "level"] : WITHOUT_PLACE.has(kind.value) ? ["topic"] : ["operation", "door", "topic", "group"]), "broker", "next", "probability", "lasts"]);

  function choose() {
    const wanted = shown();
    for (const [name, one] of Object.entries(fields)) one.hidden = !wanted.has(name);
    if (inputs.broker.length === 1) fields.broker.hidden = true; // there is only one broker
  }

  const run = doing(async () => {
    const rule = { do: kind.value };
    for (const name of shown()) {
      const value = inputs[name].value.trim();
      if (value) rule[name] = inputs[name].type === "number" ? Number(value) : value;
    }
    const made = await post("/v1/faults", rule);
    notice(t("faults.active", { fault: made.name }));
    await reload();
  });
  const list = h("div", {});
  view.append(h("h1", {}, t("room.faults")),
    h("form", { class: "form card", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } },
      h("div", { class: "fields" }, field(t("faults.make"), kind), Object.values(fields)), h("div", { class: "row" }, submit)),
    h("h2", {}, t("faults.rules")), list);
  choose();
  view.append(showBrokers(place, (brokers) => {
    if (inputs.broker.length > 1) return;
    inputs.broker.append(...brokers.map(({ name }) => h("option", { value: name }, name)));
    choose();
  }));

  const said = (fault) => Object.entries(fault).filter(([name]) => !COUNTS.has(name) && name !== "do").map(([name, value]) => h("span", { class: "tag" }, `${term("rule", name)} ${visible(Array.isArray(value) ? value.join(", ") : term(name, value))}`));
  const ruleOf = (fault) => Object.fromEntries(Object.entries(fault).filter(([name]) => name === "name" || !COUNTS.has(name)));

  async function switchOn(fault) {
    if (!off.delete(fault.name)) await remove(path`/v1/faults/${fault.name}`);
    await post("/v1/faults", ruleOf(fault));
    notice(t("faults.active-again", { fault: fault.name }));
    await reload();
  }

  async function end(fault, keeps) {
    const ended = off.has(fault.name) ? fault : await remove(path`/v1/faults/${fault.name}`);
    off.delete(fault.name);
    if (keeps) off.set(fault.name, { ...ended, state: "off" });
    notice(t(keeps ? "faults.off" : "faults.removed", { fault: fault.name }));
    await reload();
  }

  const reload = follow(place, () => get("/v1/faults"), ({ faults }) => {
    for (const one of faults) off.delete(one.name);
    keepOff();
    const all = [...faults, ...off.values()];
    list.replaceChildren(all.length ? table(t("faults.table"), [t("column.name"), t("faults.what"), [t("faults.where"), "wrap"], t("column.state"), [t("faults.matched"), "number"], [t("faults.fired"), "number"], [t("faults.holds"), "number"], ["", "actions"]], all.map((one) => [
      cut(one.name), term("fault", one.do), said(one), h("span", { class: `kind ${one.state}` }, term("fault-state", one.state)), count(one.matched), h("span", { class: one.fired ? "bad" : "" }, count(one.fired)), count(one.held ?? 0),
      h("div", { class: "row nowrap" },
        one.state === "active" || one.state === "waiting" ? button(t("faults.switch-off"), doing(() => end(one, true)), { class: "small", "aria-label": t("faults.switch-off-label", { fault: one.name }) }) : button(t("faults.switch-on"), doing(() => switchOn(one)), { class: "small", "aria-label": t("faults.switch-on-label", { fault: one.name }) }),
        button(t("faults.remove"), doing(() => end(one, false)), { class: "small danger", "aria-label": t("faults.remove-label", { fault: one.name }) }))]))
      : empty(t("faults.none"), t("faults.none-means")));
  });
}
