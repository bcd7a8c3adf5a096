// The view to send a message, once or many times, or a copy of an earlier one.

import { get, path, post } from "./api.js";
import { fieldsOf } from "./code.js";
import { button, field, h, select } from "./dom.js";
import { localInput } from "./format.js";
import { t } from "./language.js";
import { live, nowMs } from "./live.js";
import { doing, notice } from "./notice.js";
import { suggestTopics } from "./searched.js";

const BATCH = 500;

export function showSend(view, place) {
  const topic = h("input", { list: "send-topics", required: true, value: place.query.get("topic") ?? "", autocomplete: "off" });
  const body = h("textarea", { required: true, spellcheck: "false" });
  const isBytes = h("input", { type: "checkbox" });
  const tag = h("input", { autocomplete: "off" });
  const keys = h("input", { autocomplete: "off" });
  const priority = h("input", { type: "number", min: "0", step: "1", placeholder: t("send.none") });
  const properties = h("div", { class: "form" });
  const when = select(["now", "level", "after", "at"].map((one) => [one, t(`send.${one}`)]), "now", { onchange: () => choose() });
  const level = select([["1", "1"]], "1");
  const after = h("input", { type: "number", min: "0", step: "any", value: "60" });
  const at = h("input", { type: "datetime-local", step: "1" });
  const times = h("input", { type: "number", min: "1", max: "100000", value: "1" });
  const delays = { level: field(t("send.delay-level"), level), after: field(t("send.seconds"), after), at: field(t("send.time"), at, t("send.broker-clock")) };

  function choose() {
    for (const [name, one] of Object.entries(delays)) one.hidden = when.value !== name;
    if (when.value === "at" && !at.value) at.value = localInput(nowMs() + 60_000);
  }

  function property(name = "", value = "") {
    const row = h("div", { class: "row property" }, h("input", { "aria-label": t("send.property-name"), placeholder: t("send.name"), value: name }), h("input", { "aria-label": t("send.property-value"), placeholder: t("send.value"), value }), button(t("send.remove"), () => row.remove(), { class: "small" }));
    properties.append(row);
    return row;
  }

  function message() {
    const fields = isBytes.checked ? { body_base64: body.value.trim() } : { body: body.value };
    if (tag.value.trim()) fields.tag = tag.value.trim();
    if (keys.value.trim()) fields.keys = keys.value.trim().split(/\s+/);
    if (priority.value) fields.priority = Number(priority.value);
    const given = [...properties.children].map((row) => [...row.querySelectorAll("input")].map((input) => input.value)).filter(([name]) => name);
    if (given.length) fields.properties = Object.fromEntries(given);
    if (when.value === "level") fields.delay_level = Number(level.value);
    if (when.value === "after") fields.delay_ms = Math.round(Number(after.value) * 1_000);
    // An instant is on the broker's clock; it is converted to a delay, whatever the wall clock shows.
    if (when.value === "at") fields.delay_ms = Math.max(Math.round(new Date(at.value).getTime() - nowMs()), 0);
    return fields;
  }

  async function send() {
    const where = topic.value.trim();
    const count = Math.max(Number(times.value) || 1, 1);
    const one = message();
    if (count === 1) {
      const sent = await post(path`/v1/topics/${where}/messages`, one);
      notice(t("send.sent", { topic: where }), { link: [t("send.show"), `#/messages/${encodeURIComponent(sent.message_id)}`] });
      return;
    }
    for (let left = count; left > 0; left -= BATCH) {
      await post(path`/v1/topics/${where}/messages/batch`, { messages: Array(Math.min(left, BATCH)).fill(one) });
    }
    notice(t("send.sent-many", { count, topic: where }), { link: [t("send.show-many"), `#/messages?topic=${encodeURIComponent(where)}`] });
  }

  const run = doing(send);
  const submit = h("button", { type: "submit" }, t("room.send"));
  const form = h("form", { class: "form card", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } },
    h("div", { class: "fields" }, field(t("column.topic"), topic), field(t("message.tag"), tag), field(t("message.keys"), keys, t("send.keys-note")), field(t("message.priority"), priority, t("send.priority-note"))),
    field(t("column.body"), body), h("label", { class: "row" }, isBytes, t("send.base64")),
    h("div", { class: "fields" }, field(t("send.deliver"), when), Object.values(delays), field(t("send.times"), times)),
    h("fieldset", {}, h("legend", {}, t("message.properties")), properties, button(t("send.add-property"), () => property().querySelector("input").focus(), { class: "plain small" })),
    h("div", { class: "row" }, submit), suggestTopics(topic));
  view.append(h("h1", {}, t(place.query.has("again") ? "message.send-again" : "room.send")), form);

  const drawLevels = () => {
    if (!live.state || level.options.length > 1) return;
    const wanted = level.dataset.wanted ?? "1";
    level.replaceChildren(...live.state.lanes.filter((lane) => lane.level).map((lane) => h("option", { value: lane.level }, t("send.level-option", lane))));
    level.value = wanted;
  };
  if (place.query.has("level")) {
    when.value = "level";
    level.dataset.wanted = place.query.get("level");
  }
  if (place.query.has("at")) when.value = "at";
  place.listen(drawLevels);
  drawLevels();
  choose();
  if (place.query.has("again")) doing(async () => {
    const history = await get(path`/v1/messages/${place.query.get("again")}`);
    const first = history.records[0];
    const fields = fieldsOf(first);
    // A dead letter goes back to its original topic.
    topic.value = first.properties.RETRY_TOPIC ?? first.real_topic ?? first.topic;
    body.value = fields.body ?? fields.body_base64;
    isBytes.checked = fields.body === undefined;
    tag.value = fields.tag ?? "";
    keys.value = (fields.keys ?? []).join(" ");
    priority.value = fields.priority ?? "";
    for (const [name, value] of Object.entries(fields.properties ?? {})) property(name, value);
    if (fields.delay_level) {
      when.value = "level";
      level.dataset.wanted = String(fields.delay_level);
      level.value = level.dataset.wanted;
      choose();
    }
  })();
}
