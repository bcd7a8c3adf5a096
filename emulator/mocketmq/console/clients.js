// The view of connected clients: protocol, language, version and subscriptions.

import { get } from "./api.js";
import { cut, cutLink, empty, h, table } from "./dom.js";
import { count, visible } from "./format.js";
import { follow } from "./follow.js";

// What the ports are for, by their names in `GET /v1/info`.
const DOORS = {
  namesrv: "name server", broker: "broker (RocketMQ's TCP protocol)", vip: "broker, second port that older Java clients use (VIP channel)",
  grpc: "gRPC (RocketMQ 5 clients)", http: "JSON API, console, Aliyun's HTTP protocol", aliyun: "Aliyun's HTTP protocol",
};

export function showClients(view, place) {
  const list = h("div", {});
  const doors = h("dl", { class: "facts" });
  view.append(h("h1", {}, "Clients"), list, h("h2", {}, "Open ports"), doors);
  get("/v1/info").then((info) => doors.replaceChildren(...Object.entries(info.doors).filter(([, door]) => door).flatMap(([name, door]) => [
    h("dt", { class: "mono" }, door.address.replace("http://", "")), h("dd", {}, DOORS[name] ?? name)]))).catch(() => {});
  follow(place, () => get("/v1/clients"), ({ clients }) => list.replaceChildren(clients.length
    ? table("Connected clients", ["Client", "Protocol", "Address", "Language", "Version", "Produces for", "Consumes"], clients.map((one) => [
      cut(one.client_id), one.door, h("span", { class: "mono" }, visible(one.address)), visible(one.language), visible(one.version),
      cut(one.producer_groups.join(", ")),
      one.consumer_groups.map((group) => h("div", {}, cutLink(group.group, `#/groups/${encodeURIComponent(group.group)}`), ` ${group.message_model.toLowerCase()}`, group.lag ? `, lag ${count(group.lag)}` : "", h("br"), cut(group.subscriptions.map((each) => `${each.topic}: ${each.expression}`).join(" · "), { class: "small" })))]))
    : empty("No client is connected", "RocketMQ clients are listed after their first heartbeat. HTTP clients are not listed: they keep no connection open.")));
}
