// First steps for a new broker: addresses for clients, and a command that sends a message.

import { curlToken, get } from "./api.js";
import { button, h } from "./dom.js";
import { parts, t } from "./language.js";
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
    info.doors.namesrv && ["welcome.namesrv", reached(info.doors.namesrv)],
    info.doors.grpc && ["welcome.grpc", reached(info.doors.grpc)],
    ["welcome.http", location.origin],
  ].filter(Boolean).map(([key, address]) => h("li", {}, parts(key, { address: h("code", {}, address) }))))).catch(() => {});
  return h("section", { class: "card welcome", "aria-labelledby": "welcome-title" },
    h("h2", { id: "welcome-title" }, t("welcome.title")),
    h("p", {}, t("welcome.point")), doors,
    h("p", {}, t("welcome.shell")),
    h("div", { class: "row" }, h("code", {}, line),
      button(t("frame.copy"), doing(async () => { await navigator.clipboard.writeText(line); notice(t("frame.copied-command")); }), { class: "small", "aria-label": t("frame.copy-command") })),
    h("div", { class: "row" }, h("a", { class: "button main", href: "#/send?level=3&topic=orders" }, t("welcome.send")), h("a", { href: "/docs" }, t("welcome.api"))));
}
