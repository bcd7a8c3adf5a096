// Notices at the edge of the page, confirmations, and the dialog for the token.

import { button, field, h } from "./dom.js";
import { t } from "./language.js";

const place = document.getElementById("notices");
const STAYS_MS = 8_000;

// `link` is [text, address].
export function notice(text, { kind = "good", link, lang = null } = {}) {
  const element = h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, h("p", { lang }, text), link ? h("a", { href: link[1] }, link[0]) : null);
  element.append(button("×", () => element.remove(), { class: "quiet close", "aria-label": t("frame.close-message") }));
  place.append(element);
  while (place.children.length > 3) place.firstChild.remove();
  setTimeout(() => element.remove(), kind === "bad" ? STAYS_MS * 2 : STAYS_MS);
}

export const failed = (error) => notice(sentence(error.message), { kind: "bad", lang: error.isEnglish ? "en" : null });

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Runs the action of a button: disables the button meanwhile, and shows errors.
export function doing(act) {
  return async (event) => {
    const pressed = event?.currentTarget;
    if (pressed?.getAttribute?.("aria-busy")) return;
    pressed?.setAttribute?.("aria-busy", "true");
    try {
      await act(event);
    } catch (error) {
      failed(error);
    } finally {
      pressed?.removeAttribute?.("aria-busy");
    }
  };
}

function dialog(title, content, buttons) {
  const element = h("dialog", { "aria-labelledby": "dialog-title" }, h("h2", { id: "dialog-title" }, title), content, h("div", { class: "row end" }, buttons));
  document.body.append(element);
  element.addEventListener("close", () => element.remove());
  element.showModal();
  return element;
}

// Resolves to whether the user confirmed.
export function confirmed(title, text, yes) {
  return new Promise((done) => {
    const element = dialog(title, h("p", {}, text), [
      button(t("frame.keep"), () => element.close(), { class: "plain" }),
      button(yes, () => { element.returnValue = "yes"; element.close("yes"); }, { class: "danger" }),
    ]);
    element.addEventListener("close", () => done(element.returnValue === "yes"));
  });
}

export function tell(title, content) {
  const element = dialog(title, content, [button(t("frame.close"), () => element.close())]);
}

export function askForToken(wasWrong) {
  return new Promise((done) => {
    const input = h("input", { type: "password", autocomplete: "current-password", required: true, "aria-describedby": "token-note" });
    const form = h("form", { onsubmit: (event) => { event.preventDefault(); done(input.value.trim()); element.close(); } },
      field(t("token.token"), input),
      h("p", { id: "token-note", class: "dim" }, t(wasWrong ? "token.wrong" : "token.note")),
      h("div", { class: "row end" }, h("button", { type: "submit" }, t("token.open"))));
    const element = dialog(t("token.title"), form, []);
    element.addEventListener("cancel", (event) => event.preventDefault());
    input.focus();
  });
}
