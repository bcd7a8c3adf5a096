// The view of messages: one row for each, newest first and live, searched by state and content; each opens into its life.

import { get, path, query } from "./api.js";
import { button, empty, field, h, select, setText } from "./dom.js";
import { plural, visible } from "./format.js";
import { follow } from "./follow.js";
import { live } from "./live.js";
import { showMessage } from "./message.js";
import { messageTable, readMessages, STATES } from "./messagetable.js";
import { sentence } from "./notice.js";
import { suggestTopics } from "./searched.js";
import { firstSteps, isNew } from "./welcome.js";

const SHOWN = 100;
const NAMES = ["state", "text", "topic", "key", "tag"];

export function showMessages(view, place) {
  if (place.rest.length) return showMessage(view, place);
  const asked = Object.fromEntries([...NAMES, "after", "before"].map((name) => [name, place.query.get(name)]).filter(([, value]) => value));
  const { before, ...wanted } = asked;
  const isSearch = Object.keys(wanted).length > 0;
  const head = h("div", { class: "row" });
  const list = h("div", {});
  const pages = h("div", { class: "row" });
  const form = searchForm(place, asked, () => reload());
  view.append(h("h1", {}, "Messages"), form, head, list, pages);

  let isPaused = false;
  const what = h("p", { class: "dim live" }, isSearch ? "Searching…" : "");
  const pause = button("Pause", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Resume" : "Pause";
    if (isPaused) say();
    else reload();
  }, { class: "plain", hidden: Boolean(before) });
  const all = h("a", { class: "button plain", href: "#/messages", hidden: !isSearch }, "Show all messages");
  head.append(what, h("span", { class: "spring" }), all, pause);

  let answer = null;
  function say() {
    if (!answer) return;
    if (answer.error) return setText(what, `The search was refused: ${answer.error}`);
    const found = answer.messages.length;
    const more = answer.next_before && found ? " and more" : "";
    const rate = live.state?.stored_per_s ?? 0;
    const terms = NAMES.filter((name) => wanted[name]).map((name) => `${name} “${visible(wanted[name])}”`).join(", ");
    setText(what, isPaused ? "Paused."
      : wanted.after ? `The clock move delivered ${plural(found, "message")}${more}.`
        : isSearch ? `${plural(found, "message")}${more} with ${terms}, newest first.`
          : before ? "Older messages." : `Newest first${rate ? `; ${rate.toLocaleString("en")} ${rate === 1 ? "record" : "records"} stored per second` : ""}.`);
  }

  async function read() {
    try {
      const id = isMessageId(wanted) ? await get(path`/v1/messages/${wanted.text}`).catch(() => null) : null;
      if (id) return { id: id.message_id };
      return await readMessages({ ...asked, max: SHOWN });
    } catch (error) {
      return { error: sentence(error.message) };
    }
  }

  function draw(found) {
    answer = found;
    if (answer.id) return location.replace(`#/messages/${encodeURIComponent(answer.id)}`);
    say();
    what.classList.toggle("bad", Boolean(answer.error));
    const { messages = [], next_before: next } = answer;
    list.replaceChildren(messages.length ? messageTable("Messages", messages) : answer.error ? "" : nothing(isSearch, next));
    pages.replaceChildren(...[
      before ? h("a", { class: "button plain", href: `#/messages${query(wanted)}` }, "Newest messages") : null,
      next ? h("a", { class: "button plain", href: `#/messages${query({ ...wanted, before: next })}` }, messages.length ? "Older messages" : "Search further back") : null,
    ].filter(Boolean));
  }

  const reload = follow(place, read, draw, () => isPaused);
  place.listen((kind) => { if (kind === "state" && !isSearch) say(); });
}

// The offset id of a record is not in its properties, so the history is asked for it.
const isMessageId = (wanted) => Object.keys(wanted).length === 1 && /^[0-9A-Fa-f]{32}$/.test(wanted.text ?? "");

function nothing(isSearch, next) {
  if (!isSearch && isNew()) return firstSteps();
  if (next) return empty("Nothing found so far", "No match among the newest messages; older ones may match.");
  if (isSearch) return empty("Nothing found", "No message matches all fields. Text is matched literally.");
  return empty("No messages", "Messages appear here when they are sent.", h("a", { class: "button", href: "#/send" }, "Send one"));
}

function searchForm(place, asked, again) {
  const text = h("input", { type: "search", value: asked.text ?? "", placeholder: "text or message id", maxlength: "255" });
  const state = select([["", "any"], ...STATES], asked.state ?? "", { onchange: () => search() });
  const inputs = {
    state, text,
    topic: h("input", { value: asked.topic ?? "", list: "topics", maxlength: "255" }),
    key: h("input", { value: asked.key ?? "", maxlength: "255" }),
    tag: h("input", { value: asked.tag ?? "", maxlength: "255" }),
  };
  function search() {
    const address = `#/messages${query(Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()])))}`;
    if (location.hash === address) again();
    location.hash = address;
  }
  if (place.query.has("search")) setTimeout(() => text.focus());
  return h("form", { class: "search", role: "search", onsubmit: (event) => { event.preventDefault(); search(); } },
    field("Text or id", text), field("State", state), field("Topic", inputs.topic), field("Key", inputs.key), field("Tag", inputs.tag),
    h("button", { type: "submit" }, "Search"), suggestTopics(inputs.topic));
}
