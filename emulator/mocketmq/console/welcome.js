// First steps for a new broker: addresses for clients, and a command that sends a message.

import { curlToken, get } from "./api.js";
import { button, h } from "./dom.js";
import { live } from "./live.js";
import { doing, notice } from "./notice.js";

const command = () => `curl -s${curlToken()} ${location.origin}/v1/topics/orders/messages -d '{"body": "hello", "delay_level": 3}'`;

// Whether nothing was ever sent to this broker, as far as this page knows.
export const isNew = () => live.state !== null && !live.state.pending && !live.hasArrivals;

// The address by which clients on this machine reach a port: the broker's own may be 0.0.0.0.
const reached = (door) => `${location.hostname}:${door.port}`;

export function firstSteps() {
  const line = command();
  const doors = h("ul", { class: "doors" });
  get("/v1/info").then((info) => doors.replaceChildren(...[
    info.doors.namesrv && ["RocketMQ clients: name server ", reached(info.doors.namesrv)],
    info.doors.grpc && ["RocketMQ clients for gRPC: endpoint ", reached(info.doors.grpc)],
    ["Aliyun’s HTTP clients, and the JSON API: ", location.origin],
  ].filter(Boolean).map(([text, address]) => h("li", {}, text, h("code", {}, address))))).catch(() => {});
  return h("section", { class: "card welcome", "aria-labelledby": "welcome-title" },
    h("h2", { id: "welcome-title" }, "No messages yet"),
    h("p", {}, "Point a client at this broker; topics and groups are created on first use."), doors,
    h("p", {}, "Or send a message from a shell, and watch it move to its due time in ten seconds:"),
    h("div", { class: "row" }, h("code", {}, line),
      button("Copy", doing(async () => { await navigator.clipboard.writeText(line); notice("The command is copied."); }), { class: "small", "aria-label": "Copy the command" })),
    h("div", { class: "row" }, h("a", { class: "button main", href: "#/send?level=3&topic=orders" }, "Send one here"), h("a", { href: "/docs" }, "The API")));
}
