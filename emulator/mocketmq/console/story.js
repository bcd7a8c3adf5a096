// The story of a failed test, from the pack that `mocketmq open` has opened: what failed, what led to it, what comes next.

import { get, post } from "./api.js";
import { button, h, marks } from "./dom.js";
import { dateTime, duration, visible } from "./format.js";
import { follow } from "./follow.js";
import { eventText, lifeLine } from "./lifetext.js";
import { t } from "./language.js";
import { listen, nowMs } from "./live.js";
import { doing } from "./notice.js";
import { pressed } from "./timebar.js";

const SHOWN = 100;
let asked = null;

// Resolves to the pack from which the broker was opened, else to null.
const openedPack = () => (asked ??= get("/v1/pack").then((answer) => answer.pack).catch(() => null));

// The line that says most about a failure: the first of pytest's error lines, else the first line.
function reason(failure) {
  const lines = failure.split("\n");
  const marked = lines.find((line) => /^E\s+\S/.test(line));
  return (marked?.slice(1) ?? lines.find((line) => line.trim()) ?? "").trim();
}

const title = (pack) => (pack.test ? t("story.failed", { test: visible(pack.test) }) : t("story.packed", { file: visible(pack.file) }));

// Everything that was read before is of another state then.
const goBack = doing(async () => {
  const { pack } = await get("/v1/pack");
  await post(`/v1/snapshots/${pack.snapshot}/restore`);
  location.reload();
});

const backButton = (kind) => button(t("story.back"), goBack, { class: kind, title: t("story.back-means") });

// Shows a line about the pack, and the link to the story, if the broker was opened from one.
export function storyBanner(place, link) {
  link.hidden = true;
  async function draw() {
    const pack = await openedPack();
    place.hidden = link.hidden = !pack;
    if (!pack) return;
    const why = reason(pack.failure);
    place.setAttribute("aria-label", t("story.banner"));
    place.replaceChildren(
      h("p", {}, h("b", {}, title(pack)), why ? h("span", { class: "why mono", lang: "en" }, visible(why)) : null),
      h("a", { href: "#/story" }, t("story.read")), backButton("small"));
  }
  draw();
  listen((kind) => {
    if (kind !== "back") return;
    asked = null;
    draw();
  });
}

// The end of an id tells messages apart; its beginning is the same for all of a client.
const ending = (id) => (id.length > 16 ? `…${id.slice(-8)}` : visible(id));

const happened = (event) => ({
  at: event.at_ms,
  kind: event.kind,
  title: eventText(event),
  text: "",
  late: null,
  more: event.message_id === null ? null : h("div", { class: "about" }, marks(event), h("a", { class: "mono", href: `#/messages/${encodeURIComponent(event.message_id)}`, title: event.message_id }, ending(event.message_id))),
});

const history = (label, events) => lifeLine(label, events.map(happened));

// The events since the pack was made. The broker reports earlier ones as well.
function newer(pack, events) {
  const earlier = new Set(pack.events.map((one) => JSON.stringify(one)));
  return events.filter((one) => one.at_ms >= pack.clock_ms && !earlier.has(JSON.stringify(one)));
}

export async function showStory(view, place) {
  const pack = await openedPack();
  if (view.dataset.room !== "story") return;
  view.append(h("h1", {}, pack ? title(pack) : t("room.story")));
  if (!pack) {
    view.append(h("p", {}, t("story.none")));
    return;
  }
  const facts = [
    ["story.file", pack.file], ["story.made", t("story.made-at", { time: dateTime(pack.packed_ms), version: pack.version })],
    ["story.clock", dateTime(pack.clock_ms)], ["story.levels", pack.settings.levels ?? ""], ["story.profile", pack.settings.profile ?? ""],
  ].filter(([, value]) => value);
  const since = h("p", { class: "dim live" });
  const next = h("div", {});
  const before = h("div", {});
  const step = (text, key, kind) => button(text, () => pressed(key), { class: kind, title: t(`key.${key}`) });
  view.append(
    pack.failure ? h("pre", { class: "failure", tabindex: "0", lang: "en", "aria-label": t("story.failure") }, visible(pack.failure.replace(/\r/g, "").trimEnd())) : h("p", { class: "dim" }, t("story.no-failure")),
    h("div", { class: "halves" },
      h("section", { "aria-labelledby": "next-title" }, h("h2", { id: "next-title" }, t("story.next")), since,
        h("div", { class: "row" }, step(t("clock.next"), "n", "main"), step(t("clock.plus", { by: t("unit.s", { number: 1 }) }), "1"), step(t("clock.plus", { by: t("unit.m", { number: 1 }) }), "3"), backButton("")),
        next),
      h("section", { "aria-labelledby": "pack-title" }, h("h2", { id: "pack-title" }, t("story.pack")),
        h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, t(name)), h("dd", {}, visible(value))])))),
    h("h2", {}, t("story.before")), before);

  const drawBefore = (events) => before.replaceChildren(
    events.length < pack.events.length ? button(t("story.all", { count: pack.events.length }), () => drawBefore(pack.events), { class: "plain small" }) : "",
    events.length ? history(t("story.before"), events) : h("p", { class: "dim" }, t("story.nothing-before")));
  drawBefore(pack.events.slice(-SHOWN));

  const say = () => {
    const by = nowMs() - pack.clock_ms;
    since.textContent = by > 0 ? t("story.since", { by: duration(by) }) : t("story.here");
  };
  follow(place, () => get("/v1/events?max=1000"), ({ events }) => {
    const found = newer(pack, events).slice(-SHOWN);
    next.replaceChildren(found.length ? history(t("story.next"), found) : h("p", { class: "dim" }, t("story.nothing-yet")));
    say();
  });
  place.listen((kind) => { if (kind === "state") say(); });
  say();
}
