// The frame of the page: views by address, theme, keys, token, and reconnecting to the broker.

import { onTokenNeeded } from "./api.js";
import { h } from "./dom.js";
import { listen, live, watch } from "./live.js";
import { askForToken, tell } from "./notice.js";
import { pressed, timeBar } from "./timebar.js";
import { ROOMS } from "./rooms.js";

const view = document.getElementById("view");
const links = document.getElementById("rooms");
let leave = () => {};
let shown = "";

// #/messages/ID?topic=orders → the view, the rest of the path, and the query.
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [room, ...rest] = path.split("/").map(decodeURIComponent);
  return { room, rest, query: new URLSearchParams(query) };
}

const usesLevels = (state) => state.lanes.some((lane) => lane.pending || lane.delivered);

// Without a view in the address: the levels if they are in use, else the newest messages.
function choose() {
  if (live.state) return location.replace(usesLevels(live.state) ? "#/levels" : "#/messages");
  view.replaceChildren(h("p", { class: "dim" }, "Waiting for the broker…"));
  const end = listen((kind) => {
    if (kind !== "state") return;
    end();
    if (!address().room) choose();
  });
}

function show() {
  const { room, rest, query } = address();
  if (!room) return choose();
  const found = ROOMS.find((one) => one.name === room) ?? ROOMS[0];
  leave();
  view.replaceChildren();
  view.dataset.room = found.name;
  const ends = [];
  leave = () => ends.forEach((end) => end());
  const place = { query, rest, onLeave: (end) => ends.push(end), listen: (listener) => ends.push(listen(listener)) };
  found.show(view, place);
  document.title = `${found.title} · mocketmq`;
  for (const link of links.children) {
    if (link.dataset.room === found.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  links.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const key = found.name + rest.join("/");
  if (shown && shown !== key) {
    view.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  shown = key;
}

function theme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("mocketmq theme");
  } catch { /* no storage: the system's choice */ }
  const draw = () => {
    if (chosen) document.documentElement.dataset.theme = chosen;
    const isDark = chosen ? chosen === "dark" : system.matches;
    button.textContent = isDark ? "☀" : "☾";
    button.setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
    button.title = button.getAttribute("aria-label");
    dispatchEvent(new Event("theme"));
  };
  button.addEventListener("click", () => {
    chosen = (chosen ?? (system.matches ? "dark" : "light")) === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("mocketmq theme", chosen);
    } catch { /* for this visit, then */ }
    draw();
  });
  system.addEventListener("change", draw);
  draw();
}

const KEYS = [
  ["1", "move the clock by 1 s"], ["2", "by 10 s"], ["3", "by 1 minute"], ["4", "by 30 minutes"], ["5", "by 2 hours"],
  ["n", "move to the next due message"], ["t", "move to a time"], ["/", "search messages"], ["s", "send a message"], ["l", "levels"], ["?", "show these keys"],
];

function help() {
  tell("Keys", h("dl", { class: "keys" }, KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])));
}

function onKey(event) {
  const isTyping = event.target.closest?.("input, textarea, select, dialog, [contenteditable]");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const go = { "/": "#/messages?search", s: "#/send", l: "#/levels" }[event.key];
  if (go) {
    location.hash = go;
    document.querySelector("main input[type=search]")?.focus();
  } else if (event.key === "?") help();
  else if (!pressed(event.key)) return;
  event.preventDefault();
}

function away(kind) {
  const banner = document.getElementById("away");
  if (kind === "away") {
    banner.textContent = live.state
      ? "The broker does not answer. Showing the last known state; reconnecting …"
      : "The broker does not answer yet; reconnecting …";
    banner.hidden = false;
  } else if (kind === "back") {
    banner.hidden = true;
    show();
  } else if (!live.isAway) banner.hidden = true;
  document.body.classList.toggle("away", live.isAway);
}

links.append(...ROOMS.map((room) => h("a", { href: `#/${room.name}`, "data-room": room.name }, room.title)));
theme();
timeBar(document.getElementById("time"));
onTokenNeeded(askForToken);
listen(away);
addEventListener("hashchange", show);
addEventListener("keydown", onKey);
document.getElementById("keys").addEventListener("click", help);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); view.focus(); });
show();
watch();
