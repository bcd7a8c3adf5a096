// Show the page in English, as it is written, or in Chinese: the catalogue has a Chinese text for each English one. In a text,
// {1} is a part that is translated for itself, and {=1} one that stays as it is, such as a name.

const KEPT = "mocketmq language";
const TAGS = { en: "en", zh: "zh-CN" };
const AS_IT_IS = "code, bdi, script, style, [translate=no]";

const catalogue = JSON.parse(document.getElementById("chinese").textContent);
const literal = (text) => text.replace(/\{=?\d\}/g, "");
const begin = (text) => text.search(/\{=?\d\}/);
// The most specific first: those that begin with the most letters of their own, then those that have the most.
const patterns = Object.entries(catalogue).filter(([english]) => english.includes("{"))
  .sort(([one], [other]) => begin(other) - begin(one) || literal(other).length - literal(one).length)
  .map(([english, chinese]) => {
    const parts = english.split(/\{=?\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return [new RegExp(`^${parts.join("(.+?)")}$`, "s"), chinese];
  });
const known = new Map(Object.entries(catalogue).filter(([english]) => !english.includes("{")));

function inChinese(text) {
  if (!/[A-Za-z]{2}/.test(text) || known.has(text)) return known.get(text) ?? text;
  let found = text;
  for (const [pattern, chinese] of patterns) {
    const match = pattern.exec(text);
    if (!match) continue;
    found = chinese.replace(/\{(=?)(\d)\}/g, (_, isName, number) => (isName ? match[Number(number) || 10] : inChinese(match[Number(number) || 10])));
    break;
  }
  known.set(text, found);
  return found;
}

function chosen() {
  let kept = null;
  try {
    kept = localStorage.getItem(KEPT);
  } catch { /* a page in a sandbox has no storage: the browser's language */ }
  const tags = [kept ?? "", ...navigator.languages].map((tag) => tag.toLowerCase().split("-")[0]);
  return tags.find((tag) => Object.hasOwn(TAGS, tag)) ?? "en";
}

let language = chosen();
const t = (text) => (language === "zh" ? inChinese(text) : text);

// The texts of the page as it was written, each with a function that writes another one in its place.
function* texts() {
  const all = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  while (all.nextNode()) {
    const one = all.currentNode;
    if ((one.parentElement ?? one).closest(AS_IT_IS)) continue;
    if (one.nodeType === Node.TEXT_NODE) {
      const [, before, text, after] = /^(\s*)(.*?)(\s*)$/s.exec(one.data);
      if (text) yield [text, (other) => { one.data = before + other + after; }];
    } else for (const name of ["aria-label", "data-of"]) {
      const text = one.getAttribute(name);
      if (text) yield [text, (other) => one.setAttribute(name, other)];
    }
  }
}

// Makes a button switch the language, and calls `redraw` after each change.
function speak(button, redraw) {
  const written = [...texts()];
  const show = () => {
    document.documentElement.lang = TAGS[language];
    for (const [text, write] of written) write(t(text));
    const other = language === "zh" ? "en" : "zh";
    button.textContent = other === "zh" ? "中文" : "English";
    button.lang = TAGS[other];
    button.hidden = false;
    redraw();
  };
  button.onclick = () => {
    language = language === "zh" ? "en" : "zh";
    try {
      localStorage.setItem(KEPT, language);
    } catch { /* for this visit, then */ }
    show();
  };
  show();
}
