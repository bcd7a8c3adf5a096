// Clients: who is connected, by which door, in which language and version, and what they subscribe to.

import { get } from "./api.js";
import { empty, h, table } from "./dom.js";
import { count, visible } from "./format.js";
import { follow } from "./follow.js";

export function showClients(view, place) {
  const list = h("div", {});
  const doors = h("p", { class: "dim" });
  view.append(h("h1", {}, "Clients"), doors, list);
  get("/v1/info").then((info) => {
    const open = Object.entries(info.doors).filter(([, door]) => door).map(([name, door]) => `${name} ${door.address.replace("http://", "")}`);
    doors.textContent = `Open: ${open.join(" · ")}`;
  }).catch(() => {});
  follow(place, () => get("/v1/clients"), ({ clients }) => list.replaceChildren(clients.length
    ? table("Connected clients", ["Client", "Door", "Address", "Language", "Version", "Produces for", "Consumes"], clients.map((one) => [
      visible(one.client_id), one.door, h("span", { class: "mono" }, visible(one.address)), visible(one.language), visible(one.version),
      one.producer_groups.map(visible).join(", "),
      one.consumer_groups.map((group) => h("div", {}, h("a", { href: `#/groups/${encodeURIComponent(group.group)}` }, visible(group.group)), ` ${group.message_model.toLowerCase()}`, group.lag ? `, lag ${count(group.lag)}` : "", h("br"), h("small", {}, group.subscriptions.map((each) => `${visible(each.topic)}: ${visible(each.expression)}`).join(" · "))))]))
    : empty("No client is connected", "Clients of RocketMQ are listed with their first heartbeat. Those that speak HTTP make requests and are gone.")));
}
