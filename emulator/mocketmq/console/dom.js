// Creates elements. Data of a broker is inserted as text and never parsed as markup.

import { visible } from "./format.js";
import { t } from "./language.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

export const button = (label, onclick, properties = {}) => h("button", { type: "button", onclick, ...properties }, label);

// A label above its input.
export const field = (label, input, note) => h("label", { class: "field" }, h("span", {}, label), input, note ? h("small", {}, note) : null);

export function select(options, value, properties = {}) {
  const element = h("select", properties, options.map(([one, text]) => h("option", { value: one }, text)));
  element.value = value;
  return element;
}

// A table that scrolls on its own if it is too wide; `columns` are texts, or [text, class].
export function table(label, columns, rows) {
  const heads = columns.map((column) => (Array.isArray(column) ? column : [column, ""]));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {},
      h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text || h("span", { class: "hidden" }, t("frame.actions")))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, index) => h("td", { class: heads[index][1], "data-label": heads[index][0] }, cell)))))));
}

export const empty = (title, text, ...more) => h("div", { class: "empty" }, h("p", { class: "title" }, title), h("p", {}, text), ...more);

// A text that is cut where it is too long; the whole is its title.
export const cut = (text, properties = {}) => h("span", { ...properties, class: `cut ${properties.class ?? ""}`, title: visible(text) }, visible(text));

// A link with such a text.
export const cutLink = (text, href) => h("a", { class: "cut", href, title: visible(text) }, visible(text));

// A link to the topic of a message or a queue, with its lite topic.
export const topicLink = ({ topic, lite_topic }) => h("span", {}, cutLink(topic, `#/topics/${encodeURIComponent(topic)}`), lite_topic === null ? null : [" ", cut(lite_topic, { class: "tag" })]);

// The keys and the tag of a message.
export const marks = (one) => (one.keys.length || one.tag
  ? h("span", { class: "marks" }, one.keys.map((key) => cut(key, { class: "tag key" })), one.tag ? cut(one.tag, { class: "tag" }) : null) : "");

// Read by screen readers alone.
export const spoken = (text) => h("span", { class: "hidden" }, text);

const nameOf = (element) => element.dataset.key ?? element.getAttribute("aria-label") ?? element.getAttribute("href");

// Replaces the children; the focus stays on the same element, found by key, label or address, else on the view.
export function replace(place, child) {
  const held = place.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  place.replaceChildren(child);
  if (held === null) return;
  const again = [...place.querySelectorAll("a, button")].find((one) => nameOf(one) === held);
  (again ?? document.getElementById("view")).focus({ preventScroll: true });
}

// Sets a text only if it differs, to avoid needless layout.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
