// The frame of the page: views by address, theme, language, keys, token, and reconnecting to the broker.

import { onTokenNeeded } from "./api.js";
import { showClients } from "./clients.js";
import { h } from "./dom.js";
import { showFaults } from "./faults.js";
import { showGroups } from "./groups.js";
import { makeSwitch, t } from "./language.js";
import { showLateness } from "./lateness.js";
import { showLevels } from "./levels.js";
import { listen, live, watch } from "./live.js";
import { showMessages } from "./messages.js";
import { askForToken, tell } from "./notice.js";
import { showSend } from "./send.js";
import { showStory, storyBanner } from "./story.js";
import { pressed, timeBar } from "./timebar.js";
import { showTopics } from "./topics.js";

// The views, in the order of the navigation. The catalogue has their titles.
const ROOMS = [
  { name: "story", show: showStory },
  { name: "levels", show: showLevels },
  { name: "messages", show: showMessages },
  { name: "send", show: showSend },
  { name: "topics", show: showTopics },
  { name: "groups", show: showGroups },
  { name: "clients", show: showClients },
  { name: "faults", show: showFaults },
  { name: "lateness", show: showLateness },
];

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

const named = (name) => ROOMS.find((one) => one.name === name);

const usesLevels = (state) => state.lanes.some((lane) => lane.pending || lane.delivered);

// Without a view in the address, or with an unknown one: the levels if they are in use, else the newest messages.
function choose() {
  if (live.state) return location.replace(usesLevels(live.state) ? "#/levels" : "#/messages");
  view.replaceChildren(h("p", { class: "dim" }, t("frame.waiting")));
  const end = listen((kind) => {
    if (kind !== "state") return;
    end();
    if (!named(address().room)) choose();
  });
}

function show() {
  const { room, rest, query } = address();
  const found = named(room);
  if (!found) return choose();
  leave();
  view.replaceChildren();
  view.dataset.room = found.name;
  const ends = [];
  leave = () => ends.forEach((end) => end());
  const place = { query, rest, onLeave: (end) => ends.push(end), listen: (listener) => ends.push(listen(listener)) };
  found.show(view, place);
  document.title = t("frame.title", { view: t(`room.${found.name}`) });
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
    button.setAttribute("aria-label", isDark ? t("frame.light") : t("frame.dark"));
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

const KEYS = ["1", "2", "3", "4", "5", "n", "t", "/", "s", "l", "?"];

function help() {
  tell(t("keys.title"), h("dl", { class: "keys" }, KEYS.map((key) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, t(`key.${key}`))])));
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
    banner.textContent = t(live.state ? "frame.away" : "frame.away-yet");
    banner.hidden = false;
  } else if (kind === "back") {
    banner.hidden = true;
    show();
  } else if (!live.isAway) banner.hidden = true;
  document.body.classList.toggle("away", live.isAway);
}

links.append(...ROOMS.map((room) => h("a", { href: `#/${room.name}`, "data-room": room.name }, t(`room.${room.name}`))));
links.setAttribute("aria-label", t("frame.views"));
storyBanner(document.getElementById("pack"), links.querySelector("[data-room=story]"));
theme();
makeSwitch(document.getElementById("language"));
timeBar(document.getElementById("time"));
onTokenNeeded(askForToken);
listen(away);
addEventListener("hashchange", show);
addEventListener("keydown", onKey);
const keys = document.getElementById("keys");
keys.setAttribute("aria-label", t("frame.shortcuts"));
keys.title = t("frame.shortcuts-key");
keys.addEventListener("click", help);
const skip = document.querySelector(".skip");
skip.textContent = t("frame.skip");
skip.addEventListener("click", (event) => { event.preventDefault(); view.focus(); });
show();
watch();
