// Messages: what arrives, live, and what a search finds. One of them opens into its whole life.

import { ApiError, get, path, query } from "./api.js";
import { button, empty, field, h, select, setText, table } from "./dom.js";
import { bytes, clockTime, count, dateTime, lateness, plural, visible } from "./format.js";
import { live } from "./live.js";
import { showMessage } from "./message.js";
import { doing } from "./notice.js";
import { firstSteps, isNew } from "./welcome.js";

const SHOWN = 100;

export function showMessages(view, place) {
  if (place.rest.length) return showMessage(view, place);
  const asked = place.query;
  const fields = {
    text: h("input", { type: "search", value: asked.get("text") ?? "", placeholder: "text or message id" }),
    topic: h("input", { value: asked.get("topic") ?? "", list: "topics" }),
    key: h("input", { value: asked.get("key") ?? "" }),
    tag: h("input", { value: asked.get("tag") ?? "" }),
  };
  const names = h("datalist", { id: "topics" });
  get("/v1/topics").then((answer) => names.append(...answer.topics.filter((one) => !one.system).map((one) => h("option", { value: one.name })))).catch(() => {});
  const form = h("form", { class: "search", role: "search", onsubmit: (event) => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(fields).map(([name, input]) => [name, input.value.trim()]));
    const wanted = query(given);
    if (location.hash === `#/messages${wanted}`) run();
    location.hash = `#/messages${wanted}`;
  } },
  field("Text or id", fields.text), field("Topic", fields.topic), field("Key", fields.key), field("Tag", fields.tag),
  h("button", { type: "submit" }, "Search"), names);
  const wanted = Object.fromEntries(["topic", "key", "tag", "text"].map((name) => [name, asked.get(name)]).filter(([, value]) => value));
  const after = asked.get("after");
  const isSearch = Object.keys(wanted).length > 0 || after !== null;
  const head = h("div", { class: "row" });
  const list = h("div", {});
  view.append(h("h1", {}, "Messages"), form, head, list);
  let run = () => {};
  if (asked.has("search")) fields.text.focus();
  if (!isSearch) return watch(place, head, list);

  const what = h("p", { class: "dim" }, "Searching…");
  head.append(what, h("span", { class: "spring" }), h("a", { class: "button plain", href: "#/messages" }, "Show what arrives"));
  const more = button("Search further back", doing(() => load(true)), { class: "plain", hidden: true });
  view.append(more);
  let found = [];
  let before = null;
  async function load(isMore) {
    // An id of one record is not in its properties: the history knows it.
    if (!isMore && wanted.text && Object.keys(wanted).length === 1 && /^[0-9A-Fa-f]{32}$/.test(wanted.text)) {
      try {
        const one = await get(path`/v1/messages/${wanted.text}`);
        location.replace(`#/messages/${encodeURIComponent(one.message_id)}`);
        return;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
      }
    }
    const answer = await get(`/v1/records${query({ ...wanted, after, before: isMore ? before : null, max: SHOWN })}`);
    const kept = asked.has("delivered") ? answer.records.filter((one) => one.kind === "delivered") : answer.records;
    found = isMore ? [...found, ...kept] : kept;
    before = answer.next_before;
    more.hidden = before === null;
    const terms = Object.entries(wanted).map(([name, value]) => `${name} “${visible(value)}”`).join(", ");
    setText(what, asked.has("delivered") ? `The move delivered ${plural(found.length, "message")}${before === null ? "" : " and more"}.` : `${plural(found.length, "record")} with ${terms || "anything"}, newest first.`);
    list.replaceChildren(found.length ? records("Records found", found) : empty("Nothing found", before === null ? "No stored record fits. Each field has to hold; text is looked for as it is written." : "Nothing among the newest records. Older ones may fit."));
  }
  run = doing(() => load(false));
  run();
}

function watch(place, head, list) {
  let isPaused = false;
  let kind = "all";
  const pause = button("Pause", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Go on" : "Pause";
    draw();
  }, { class: "plain" });
  const only = select([["all", "everything"], ["in", "what is sent"], ["out", "deliveries"], ["bad", "retries and dead letters"]], kind, { "aria-label": "Show", onchange: () => { kind = only.value; drawn = null; draw(); } });
  const what = h("p", { class: "dim live" });
  head.append(what, h("span", { class: "spring" }), only, pause);
  const kinds = { in: ["sent", "parked", "committed", "prepared"], out: ["delivered", "forced"], bad: ["retried", "dead", "cancelled"] };
  let drawn = null;
  function draw() {
    const rate = live.state?.stored_per_s ?? 0;
    setText(what, isPaused ? "Paused." : `Live${rate ? `: ${rate.toLocaleString("en")} a second` : ""}${live.missed ? `; ${count(live.missed)} went by unseen` : ""}.`);
    if (isPaused || drawn === live.arrivals) return;
    if (list.contains(document.activeElement) && document.activeElement.tagName === "A") return; // nothing moves under the finger
    drawn = live.arrivals;
    const shown = drawn.filter((one) => kind === "all" || kinds[kind].includes(one.kind)).slice(0, SHOWN);
    list.replaceChildren(shown.length ? records("What arrives", shown) : isNew() ? firstSteps() : empty("Nothing of this kind yet", "Whatever is sent or delivered is listed here as it happens.", h("a", { class: "button", href: "#/send" }, "Send one")));
  }
  place.listen(draw);
  draw();
}

export function records(label, found) {
  return table(label, ["Time", "What", "Topic", "Keys and tag", "Body", ["Size", "number"], ["Late", "number"]], found.map((one) => [
    h("span", { class: "mono", title: dateTime(one.store_ms) }, clockTime(one.store_ms, true)),
    h("span", { class: `kind ${one.kind}` }, one.kind, one.level ? h("small", {}, ` level ${one.level}`) : null),
    visible(one.topic),
    [one.keys.map((key) => h("span", { class: "tag key" }, visible(key))), one.tag ? h("span", { class: "tag" }, visible(one.tag)) : null],
    h("a", { class: "clip", href: `#/messages/${encodeURIComponent(one.message_id)}` }, visible(one.preview)),
    bytes(one.size),
    one.lateness_us === null ? "" : h("span", { class: one.lateness_us > 1_000_000 ? "bad" : "" }, lateness(one.lateness_us)),
  ]));
}
