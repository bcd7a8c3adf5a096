// Names that the broker lists: topics and groups, searched and shown page by page, and suggested for inputs.

import { get, query } from "./api.js";
import { button, field, h, setText } from "./dom.js";
import { follow } from "./follow.js";
import { t } from "./language.js";

const PAGE = 100;
const SUGGESTED = 50;
const PAUSE_MS = 200;

// Calls `act` once nothing was typed for a moment.
function onTyping(input, act) {
  let timer = null;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(act, PAUSE_MS);
  });
}

// `read(fields)` fetches a page, `draw(answer)` makes its table from it; `kind` is "topics" or "groups". Returns the elements, and a function to read again.
export function searched(place, kind, read, draw) {
  const before = []; // the last name of each page before
  const input = h("input", { type: "search", autocomplete: "off", maxlength: "255", value: place.query.get("search") ?? "" });
  const list = h("div", {});
  const where = h("p", { class: "dim" });
  const back = button(t("page.previous"), () => { before.pop(); reload(); }, { class: "plain", hidden: true });
  const more = button(t("page.next"), () => { before.push(next); reload(); }, { class: "plain", hidden: true });
  let next = null;
  const reload = follow(place, () => read({ search: input.value.trim(), after: before.at(-1), max: PAGE }), (answer) => {
    const [table, shown] = draw(answer, input.value.trim());
    list.replaceChildren(table);
    next = answer.next_after;
    const first = before.length * PAGE;
    setText(where, shown ? t(shown < answer.count ? `${kind}.range` : `${kind}.all`, { first: first + 1, last: first + shown, count: answer.count }) : "");
    back.hidden = !before.length;
    more.hidden = next === null;
  });
  onTyping(input, () => { before.length = 0; reload(); });
  return { search: h("div", { class: "row searched" }, field(t("topics.search"), input), where, back, more), list, reload };
}

// Suggests topics that contain what is typed into the input.
export function suggestTopics(input) {
  const names = h("datalist", { id: input.getAttribute("list") });
  async function fill() {
    const { topics } = await get(`/v1/topics${query({ user: true, search: input.value.trim(), max: SUGGESTED })}`).catch(() => ({ topics: [] }));
    names.replaceChildren(...topics.map((one) => h("option", { value: one.name })));
  }
  onTyping(input, fill);
  fill();
  return names;
}
