// The view to send a message, once or many times, or a copy of an earlier one.

import { get, path, post } from "./api.js";
import { fieldsOf } from "./code.js";
import { button, field, h, select } from "./dom.js";
import { localInput, plural } from "./format.js";
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
  const priority = h("input", { type: "number", min: "0", step: "1", placeholder: "none" });
  const properties = h("div", { class: "form" });
  const when = select([["now", "at once"], ["level", "by a delay level"], ["after", "after some time"], ["at", "at a time"]], "now", { onchange: () => choose() });
  const level = select([["1", "1"]], "1");
  const after = h("input", { type: "number", min: "0", step: "any", value: "60" });
  const at = h("input", { type: "datetime-local", step: "1" });
  const times = h("input", { type: "number", min: "1", max: "100000", value: "1" });
  const delays = { level: field("Delay level", level), after: field("Seconds", after), at: field("Time", at, "by the broker's clock") };

  function choose() {
    for (const [name, one] of Object.entries(delays)) one.hidden = when.value !== name;
    if (when.value === "at" && !at.value) at.value = localInput(nowMs() + 60_000);
  }

  function property(name = "", value = "") {
    const row = h("div", { class: "row property" }, h("input", { "aria-label": "Name of the property", placeholder: "name", value: name }), h("input", { "aria-label": "Value of the property", placeholder: "value", value }), button("Remove", () => row.remove(), { class: "small" }));
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
      notice(`Sent to ${where}.`, { link: ["Show the message", `#/messages/${encodeURIComponent(sent.message_id)}`] });
      return;
    }
    for (let left = count; left > 0; left -= BATCH) {
      await post(path`/v1/topics/${where}/messages/batch`, { messages: Array(Math.min(left, BATCH)).fill(one) });
    }
    notice(`Sent ${plural(count, "message")} to ${where}.`, { link: ["Show messages", `#/messages?topic=${encodeURIComponent(where)}`] });
  }

  const run = doing(send);
  const submit = h("button", { type: "submit" }, "Send");
  const form = h("form", { class: "form card", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: submit }); } },
    h("div", { class: "fields" }, field("Topic", topic), field("Tag", tag), field("Keys", keys, "separated by spaces"), field("Priority", priority, "0 is the lowest")),
    field("Body", body), h("label", { class: "row" }, isBytes, "The body is base64, for bytes that are not text"),
    h("div", { class: "fields" }, field("Deliver", when), Object.values(delays), field("How many times", times)),
    h("fieldset", {}, h("legend", {}, "Properties"), properties, button("Add a property", () => property().querySelector("input").focus(), { class: "plain small" })),
    h("div", { class: "row" }, submit), suggestTopics(topic));
  view.append(h("h1", {}, place.query.has("again") ? "Send again" : "Send"), form);

  const drawLevels = () => {
    if (!live.state || level.options.length > 1) return;
    const wanted = level.dataset.wanted ?? "1";
    level.replaceChildren(...live.state.lanes.filter((lane) => lane.level).map((lane) => h("option", { value: lane.level }, `${lane.level}: ${lane.delay}`)));
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
