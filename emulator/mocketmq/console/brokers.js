// The brokers of a cluster with their conditions, and buttons that change them; hidden for one without a slave.

import { get, path, post } from "./api.js";
import { button, field, h, table } from "./dom.js";
import { follow } from "./follow.js";
import { count, t, term } from "./language.js";
import { confirmed, doing, notice } from "./notice.js";

const DANGERS = new Set(["crash", "promote", "wipe"]);

// What may be done with a broker in its condition: the last parts of the API's paths.
function actions({ state, cut_off_from: sides, read_only: isReadOnly, slave_state: slave }) {
  const promotion = slave === "running" ? ["promote"] : [];
  if (state !== "running") return ["start", ...promotion, "wipe"];
  const cuts = ["clients", "name-servers"].filter((side) => !sides.includes(side)).map((side) => `cut-off-from-${side}`);
  return [...(slave === "down" ? ["start"] : []), "crash", "shutdown", ...promotion, ...cuts, ...(sides.length ? ["reconnect"] : []), isReadOnly ? "writable" : "read-only"];
}

const troubles = (broker) => [...broker.cut_off_from.map((side) => `cut-off-from-${side}`), ...(broker.read_only ? ["read-only"] : [])];

const slaveOf = (broker) => (broker.slave_state ? term("slave-state", broker.slave_state) : "–");

const healthOf = (broker) => (broker.state !== "running" ? "down" : troubles(broker).length ? "troubled" : "up");

// `onKnown(brokers)` is called with each state of a cluster's brokers.
export function showBrokers(place, onKnown) {
  const list = h("div", {});
  const loses = h("input", { type: "text", name: "loses", placeholder: t("brokers.as-set"), maxlength: 20 });
  const section = h("section", { hidden: true }, h("h2", {}, t("brokers.title")), list,
    h("div", { class: "lone" }, field(t("brokers.loses"), loses)));

  async function crash({ name }, does) {
    const { lost } = await post(path`/v1/brokers/${name}/crash`, loses.value.trim() ? { loses: loses.value.trim() } : {});
    notice(lost ? t("brokers.lost", { broker: name, count: lost }) : t("brokers.done", { action: does, broker: name }));
    await reload();
  }

  async function promote({ name }, does) {
    const { lost } = await post(path`/v1/brokers/${name}/promote`);
    notice(lost ? t("brokers.unreplicated", { broker: name, count: lost }) : t("brokers.done", { action: does, broker: name }));
    await reload();
  }

  async function act(broker, action) {
    const does = t(`broker-action.${action}`);
    if (action === "crash") return crash(broker, does);
    if (action === "promote") return promote(broker, does);
    if (action === "wipe" && !(await confirmed(t("brokers.confirm", { action: does, broker: broker.name }), t("brokers.wipe-means"), does))) return;
    await post(path`/v1/brokers/${broker.name}/${action}`);
    notice(t("brokers.done", { action: does, broker: broker.name }));
    await reload();
  }

  const buttons = (broker) => h("div", { class: "row" }, actions(broker).map((action) => button(t(`broker-action.${action}`), doing(() => act(broker, action)), {
    class: DANGERS.has(action) ? "small danger" : "small", "aria-label": t("brokers.label", { action: t(`broker-action.${action}`), broker: broker.name }) })));

  const reload = follow(place, () => get("/v1/brokers"), ({ brokers }) => {
    if (brokers.length === 1 && !brokers[0].slave_state) return;
    section.hidden = false;
    list.replaceChildren(table(t("brokers.table"), [t("column.name"), t("column.state"), t("brokers.slave"), t("brokers.routes"), [t("faults.holds"), "number"], ["", "actions"]], brokers.map((broker) => [
      h("span", { class: "mono" }, broker.name),
      h("span", { class: `kind ${healthOf(broker)}` }, [term("broker-state", broker.state), ...troubles(broker).map((one) => term("broker-trouble", one))].join(" · ")),
      broker.promoted ? `${slaveOf(broker)} · ${t("brokers.promoted")}` : slaveOf(broker),
      t(broker.in_routes ? "brokers.in-routes" : "brokers.not-in-routes"), count(broker.held), buttons(broker)])));
    onKnown(brokers);
  });
  return section;
}
