// The view of connected clients: protocol, language, version and subscriptions.

import { get } from "./api.js";
import { cut, cutLink, empty, h, table } from "./dom.js";
import { visible } from "./format.js";
import { follow } from "./follow.js";
import { t, term } from "./language.js";

// The open ports, by kind or broker: those of all brokers and name servers of a cluster, not only of the first.
function ports({ brokers = {}, name_servers: servers = [], ...doors }) {
  const others = Object.entries(brokers).slice(1).flatMap(([name, each]) => Object.values(each).map((door) => [name, door]));
  return [...Object.entries(doors), ...servers.slice(1).map((door) => ["namesrv", door]), ...others].filter(([, door]) => door);
}

export function showClients(view, place) {
  const list = h("div", {});
  const doors = h("dl", { class: "facts" });
  view.append(h("h1", {}, t("room.clients")), list, h("h2", {}, t("clients.ports")), doors);
  get("/v1/info").then((info) => doors.replaceChildren(...ports(info.doors).flatMap(([name, door]) => [
    h("dt", { class: "mono" }, door.address.replace("http://", "")), h("dd", {}, term("port", name))]))).catch(() => {});
  follow(place, () => get("/v1/clients"), ({ clients }) => list.replaceChildren(clients.length
    ? table(t("clients.table"), ["client", "protocol", "address", "language", "version", "produces", "consumes"].map((name) => t(`clients.${name}`)), clients.map((one) => [
      cut(one.client_id), term("door", one.door), h("span", { class: "mono" }, visible(one.address)), visible(one.language), visible(one.version),
      cut(one.producer_groups.join(", ")),
      one.consumer_groups.map((group) => h("div", {}, cutLink(group.group, `#/groups/${encodeURIComponent(group.group)}`), ` ${term("model", group.message_model.toLowerCase())}`, group.lag ? t("clients.lag", { lag: group.lag }) : "", h("br"), cut(group.subscriptions.map((each) => t("clients.subscription", each)).join(" · "), { class: "small" })))]))
    : empty(t("clients.none"), t("clients.none-means"))));
}
