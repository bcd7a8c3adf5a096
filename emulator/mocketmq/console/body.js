// Shows a body as text, as foldable JSON, or as bytes. The page only inserts it as text, never as markup.

import { button, h } from "./dom.js";
import { bytes, visible } from "./format.js";
import { count, t } from "./language.js";

const TEXT_AT_ONCE = 100_000;
const BYTES_AT_ONCE = 4_096;
const MEMBERS_AT_ONCE = 200;

export function bytesOf(record) {
  if (record.body !== null) return new TextEncoder().encode(record.body);
  return Uint8Array.from(atob(record.body_base64 ?? ""), (one) => one.charCodeAt(0));
}

// Long bodies are shown in parts, so that 4 MiB do not freeze the page.
function parts(length, step, part, element) {
  let shown = 0;
  const more = button("", () => show(), { class: "plain" });
  function show() {
    const end = Math.min(shown + step, length);
    element.append(part(shown, end));
    shown = end;
    more.hidden = shown >= length;
    more.textContent = t("body.more", { size: bytes(length - shown) });
  }
  show();
  return [element, more];
}

function asText(text) {
  return parts(text.length, TEXT_AT_ONCE, (start, end) => visible(text.slice(start, end)), h("pre", { tabindex: "0", "aria-label": t("body.text-label") }));
}

function asHex(content) {
  const row = (start) => {
    const some = [...content.subarray(start, start + 16)];
    const hex = some.map((one) => one.toString(16).padStart(2, "0")).join(" ");
    const text = some.map((one) => (one >= 0x20 && one < 0x7f ? String.fromCharCode(one) : "·")).join("");
    return `${start.toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}\n`;
  };
  return parts(content.length, BYTES_AT_ONCE, (start, end) => {
    let lines = "";
    for (let at = start; at < end; at += 16) lines += row(at);
    return lines;
  }, h("pre", { class: "bytes", tabindex: "0", "aria-label": t("body.bytes-label") }));
}

function node(name, value, depth) {
  const label = name === null ? [] : [h("span", { class: "name" }, visible(String(name))), ": "];
  if (value === null || typeof value !== "object") return h("div", { class: "leaf" }, label, h("span", { class: typeof value }, visible(JSON.stringify(value))));
  const members = Object.entries(value);
  const isList = Array.isArray(value);
  const inside = h("div", { class: "inside" });
  const folder = h("details", { open: depth < 2 && members.length <= 20 }, h("summary", {}, label, isList ? `[${count(members.length)}]` : `{${count(members.length)}}`), inside);
  // Built when it is opened, because a document of 4 MiB has too many members for a page.
  const unfold = () => {
    if (!folder.open || inside.hasChildNodes()) return;
    inside.append(...members.slice(0, MEMBERS_AT_ONCE).map(([one, each]) => node(one, each, depth + 1)));
    if (members.length > MEMBERS_AT_ONCE) inside.append(h("p", { class: "dim" }, t("body.members", { number: members.length - MEMBERS_AT_ONCE })));
  };
  folder.addEventListener("toggle", unfold);
  unfold();
  return folder;
}

export function bodyView(record) {
  const content = bytesOf(record);
  const forms = [];
  if (record.body !== null) {
    try {
      const value = JSON.parse(record.body);
      if (value !== null && typeof value === "object") forms.push([t("body.json"), () => [h("div", { class: "json", tabindex: "0", role: "group", "aria-label": t("body.json-label") }, node(null, value, 0))]]);
    } catch { /* text, then */ }
    forms.push([t("body.text"), () => asText(record.body)]);
  }
  forms.push([t("body.hex"), () => asHex(content)]);
  const place = h("div", { class: "body" });
  const note = record.compression ? t("body.compressed", { compression: record.compression }) : t(record.body === null ? "body.not-utf8" : "body.utf8");
  const tabs = forms.map(([name, form], index) => button(name, () => {
    place.replaceChildren(...form());
    tabs.forEach((tab, other) => tab.setAttribute("aria-pressed", String(other === index)));
  }, { class: "tab", "aria-pressed": "false" }));
  tabs[0].click();
  return h("div", {}, h("div", { class: "row" }, h("div", { class: "tabs", role: "group", "aria-label": t("body.show-as") }, tabs), h("span", { class: "dim" }, t("body.about", { size: bytes(content.length), note }))), place);
}
