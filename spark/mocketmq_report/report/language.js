// Show the page in English, as it is written, or in Chinese: the catalogue has a Chinese text for each English one. In a text,
// {1} is a part that is translated for itself, {#1} a figure, {=1} a name, which stays as it is, {_1} a name without spaces, and
// {&1} a list of names. A text is translated whole or not at all: one with a part that is in no catalogue stays in English.
// In both languages dates and numbers are written as in the browser's own variety of it, such as en-GB. Instants are UTC.

const KEPT = "mocketmq language";
const TAGS = { en: "en", zh: "zh-CN" };
const AS_IT_IS = "code, bdi, script, style, [translate=no]";
const FIELD = /\{([=#&_]?)(\d)\}/g;
const UNITS = { "µs": "微秒", ms: "毫秒", s: "秒", m: "分", h: "小时", d: "天" };
const PARTS_LIKE = { "#": "\\S*\\d\\S*|–", _: "\\S+" };
const AMOUNT = /([\d.,]+)(µs|ms|[smhd])/g;
const HAN = /[\u3400-\u9fff（）]/;
const LETTERED = /\d{4}-\d\d-\d\dT[\d:.]+Z|[\d.,]+x|p[\d.]+/g; // instants, multiples and percentiles
const VALUE = /(\d{4}-\d\d-\d\dT[\d:.]+Z)|(?<![\p{L}\d.,])(\d+(?:,\d{3})*)(\.\d+)?(?![.,]?\d)/gu; // an instant, or a number

const catalogue = JSON.parse(document.getElementById("chinese").textContent);
const literal = (text) => text.replace(FIELD, "").length;
// The most specific first: those with the most letters of their own. Each is tried with the shortest and the longest parts.
const patterns = Object.entries(catalogue).filter(([english]) => english.includes("{"))
  .sort(([one], [other]) => literal(other) - literal(one))
  .map(([english, chinese]) => {
    const kinds = [...english.matchAll(FIELD)].map(([, kind]) => kind);
    const own = english.split(/\{[=#&_]?\d\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const like = (any) => own.reduce((all, part, index) => `${all}(${PARTS_LIKE[kinds[index - 1]] ?? any})${part}`);
    return [[".+?", ".+"].map((any) => new RegExp(`^${like(any)}$`, "s")), kinds, english, chinese];
  });
const plain = Object.entries(catalogue).filter(([english]) => !english.includes("{"));
const known = { en: new Map(plain.map(([english]) => [english, english])), zh: new Map(plain) };

function dateFormat(...fields) {
  const options = { day: { day: "numeric", month: "short" }, year: { year: "numeric" },
    time: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }, second: { second: "2-digit" },
    ms: { fractionalSecondDigits: 3, timeZoneName: "short" } };
  return new Intl.DateTimeFormat(locale, Object.assign({ timeZone: "UTC" }, ...fields.map((field) => options[field])));
}

// Epoch milliseconds.
function instant(ms) {
  return Math.abs(ms) <= 864e13 ? dateFormat("day", "year", "time", "second", "ms").format(ms) : `${ms} ms`;
}

// A tick of a time axis: its date at midnight, else its time.
function tick(ms) {
  if (ms % 86400e3 === 0) return dateFormat("day").format(ms);
  return dateFormat("time", ...ms % 60e3 ? ["second"] : []).format(ms);
}

// The instants and numbers of a text, with as many decimals as are written, and with groups of digits if it has some.
function localized(text) {
  return text.replace(VALUE, (_, at, whole, decimals = ".") => {
    if (at) return instant(Date.parse(at));
    const digits = decimals.length - 1;
    const options = { useGrouping: whole.includes(","), minimumFractionDigits: digits, maximumFractionDigits: digits };
    return new Intl.NumberFormat(locale, options).format(whole.replaceAll(",", "") + decimals);
  });
}

// A figure, or whatever else has no letters. In Chinese, durations are written as the console writes them: 7m37s is 7 分 37 秒.
function figure(text) {
  if (/^[^\p{L}\d]*([\d.,]+(µs|ms|[smhd]))+$/u.test(text)) {
    if (language === "en") return localized(text);
    return text.replace(AMOUNT, (_, number, unit) => `${localized(number)} ${UNITS[unit]} `).trimEnd();
  }
  if (/^[\d.,]+\/s$/.test(text)) return localized(language === "en" ? text : text.replace("s", "秒"));
  return /\p{L}/u.test(text.replace(LETTERED, "")) ? undefined : localized(text);
}

function names(text) {
  return language === "en" ? text : text.replace(/ and ([\d,]+) more$/, " 等，另有 $1 个").replace(/, | and /g, "、");
}

// A list of which every item is understood; its end may be the number of the others.
function list(text) {
  if (language === "en") {
    const parts = text.split(/(; |, | and )/);
    if (parts.length === 1) return undefined;
    const all = parts.map((part, index) => (index % 2 ? part : understood(part)));
    return all.includes(undefined) ? undefined : all.join("");
  }
  const [, named, more] = /^(.+?)(?: and ([\d,]+) more)?$/s.exec(text);
  for (const [separator, sign] of [["; ", "；"], [/, | and /, "、"]]) {
    const items = named.split(separator);
    if (items.length === 1 && !more) continue;
    const all = items.map(understood);
    if (!all.includes(undefined)) return filled(more ? "{1} 等，另有 {2} 个" : "{1}", [all.join(sign), more]);
  }
  return undefined;
}

// Between two Chinese characters there is no space.
function filled(text, parts) {
  const all = text.split(/\{[=#&_]?(\d)\}/).map((own, index) => (index % 2 ? parts[(Number(own) || 10) - 1] : own));
  return all.reduce((before, after) => (HAN.test(before.trimEnd().slice(-1)) && HAN.test(after.trimStart()[0]) ? before.trimEnd() + after.trimStart() : before + after));
}

function like(text) {
  for (const [expressions, kinds, ...texts] of patterns) {
    for (const expression of expressions) {
      const match = expression.exec(text);
      if (!match) break;
      const parts = kinds.map((kind, index) => ({ "=": String, _: String, "&": names }[kind] ?? understood)(match[index + 1]));
      if (!parts.includes(undefined)) return filled(texts[language === "zh" ? 1 : 0], parts);
    }
  }
  return undefined;
}

// The text in the page's language; undefined if any part of it is unknown.
function understood(text) {
  const texts = known[language];
  if (!texts.has(text)) texts.set(text, figure(text) ?? list(text) ?? like(text));
  return texts.get(text);
}

const primary = (tag) => tag.toLowerCase().split("-")[0];

function chosen() {
  let kept = null;
  try {
    kept = localStorage.getItem(KEPT);
  } catch { /* a page in a sandbox has no storage: the browser's language */ }
  return [kept ?? "", ...navigator.languages].map(primary).find((tag) => Object.hasOwn(TAGS, tag)) ?? "en";
}

let language, locale;

function use(name) {
  language = name;
  locale = navigator.languages.find((tag) => primary(tag) === name) ?? TAGS[name];
}

use(chosen());
const t = (text) => (language === "zh" || /\d/.test(text) ? understood(text) ?? text : text);

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
    use(language === "zh" ? "en" : "zh");
    try {
      localStorage.setItem(KEPT, language);
    } catch { /* for this visit, then */ }
    show();
  };
  show();
}
