// The view of messages: one row for each, newest first and live, searched by state and content; each opens into its life.

import { get, path, query } from "./api.js";
import { button, empty, field, h, select, setText } from "./dom.js";
import { visible } from "./format.js";
import { follow } from "./follow.js";
import { list as listed, parts, t, term } from "./language.js";
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
  view.append(h("h1", {}, t("room.messages")), form, head, list, pages);

  let isPaused = false;
  const what = h("p", { class: "dim live" }, isSearch ? t("search.searching") : "");
  const pause = button(t("search.pause"), () => {
    isPaused = !isPaused;
    pause.textContent = t(isPaused ? "search.resume" : "search.pause");
    if (isPaused) say();
    else reload();
  }, { class: "plain", hidden: Boolean(before) });
  const all = h("a", { class: "button plain", href: "#/messages", hidden: !isSearch }, t("search.all"));
  head.append(what, h("span", { class: "spring" }), all, pause);

  let answer = null;
  function say() {
    if (!answer) return;
    if (answer.error) return what.replaceChildren(...parts("search.refused", { error: h("span", { lang: "en" }, answer.error) }));
    const count = answer.messages.length;
    const more = answer.next_before && count ? t("search.more") : "";
    const rate = live.state?.stored_per_s ?? 0;
    const valueOf = (name) => (name === "state" ? term("state", wanted.state) : wanted[name]);
    const terms = listed(NAMES.filter((name) => wanted[name]).map((name) => t(`search.term-${name}`, { value: visible(valueOf(name)) })));
    setText(what, isPaused ? t("search.paused")
      : wanted.after ? t("search.moved", { count, more })
        : isSearch ? t("search.found", { count, more, terms })
          : before ? t("search.older-page") : rate ? t("search.newest-rate", { count: rate }) : t("search.newest-first"));
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
    list.replaceChildren(messages.length ? messageTable(t("room.messages"), messages) : answer.error ? "" : nothing(isSearch, next));
    pages.replaceChildren(...[
      before ? h("a", { class: "button plain", href: `#/messages${query(wanted)}` }, t("search.newest")) : null,
      next ? h("a", { class: "button plain", href: `#/messages${query({ ...wanted, before: next })}` }, t(messages.length ? "search.older" : "search.further")) : null,
    ].filter(Boolean));
  }

  const reload = follow(place, read, draw, () => isPaused);
  place.listen((kind) => { if (kind === "state" && !isSearch) say(); });
}

// The offset id of a record is not in its properties, so the history is asked for it.
const isMessageId = (wanted) => Object.keys(wanted).length === 1 && /^[0-9A-Fa-f]{32}$/.test(wanted.text ?? "");

function nothing(isSearch, next) {
  if (!isSearch && isNew()) return firstSteps();
  if (next) return empty(t("search.none-yet"), t("search.none-yet-means"));
  if (isSearch) return empty(t("search.none"), t("search.none-means"));
  return empty(t("messages.none"), t("messages.none-means"), h("a", { class: "button", href: "#/send" }, t("lane.send-one")));
}

function searchForm(place, asked, again) {
  const text = h("input", { type: "search", value: asked.text ?? "", placeholder: t("search.text-hint"), maxlength: "255" });
  const state = select([["", t("search.any")], ...STATES], asked.state ?? "", { onchange: () => search() });
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
    field(t("search.text"), text), field(t("column.state"), state), field(t("column.topic"), inputs.topic), field(t("search.key"), inputs.key), field(t("search.tag"), inputs.tag),
    h("button", { type: "submit" }, t("search.search")), suggestTopics(inputs.topic));
}
