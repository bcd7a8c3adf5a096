// The words of the page. en.json and zh.json have every text by its key; this file chooses one of them: the language that the
// user chose here, else the first of the browser's languages that there is a catalogue for. In a text, {name} is a field. A
// text with plural forms is chosen by its field `count`.

const TAGS = { en: "en", zh: "zh-CN" };
const KEPT = "mocketmq language";
const primary = (tag) => tag.toLowerCase().split("-")[0];

function chosen() {
  let kept = null;
  try {
    kept = localStorage.getItem(KEPT);
  } catch { /* no storage: the browser's language */ }
  return [kept ?? "", ...navigator.languages].map(primary).find((one) => Object.hasOwn(TAGS, one)) ?? "en";
}

export const language = chosen();
document.documentElement.lang = TAGS[language];

// For dates and numbers: the browser's own variety of the language, such as en-GB.
export const locale = navigator.languages.find((tag) => primary(tag) === language) ?? TAGS[language];

// The language to switch to.
const other = language === "zh" ? "en" : "zh";

// Makes a button switch, which has the name of the other language in that language.
export function makeSwitch(button) {
  button.textContent = t("frame.other-language");
  button.lang = TAGS[other];
  button.addEventListener("click", () => {
    try {
      localStorage.setItem(KEPT, other);
    } catch { /* without storage the browser's language stays */ }
    location.reload();
  });
}

const words = await (await fetch(`/console/${language}.json`)).json();
const numbers = new Intl.NumberFormat(locale);
const plurals = new Intl.PluralRules(locale);
const ordinals = new Intl.PluralRules(locale, { type: "ordinal" });

export const count = (number) => numbers.format(number);

// The text with its fields, as a list: fields may be elements.
export function parts(key, fields = {}) {
  const found = Object.hasOwn(words, key) ? words[key] : undefined;
  const text = typeof found === "object" ? (found[plurals.select(fields.count)] ?? found.other) : found;
  if (text === undefined) {
    console.error(`The catalogue ${language} has no text ${key}`);
    return [key];
  }
  return text.split(/\{(\w+)\}/).map((one, index) => {
    if (index % 2 === 0) return one;
    const value = fields[one];
    if (value === undefined) console.error(`The text ${key} needs the field ${one}`);
    return typeof value === "number" ? count(value) : value;
  });
}

export const t = (key, fields) => parts(key, fields).join("");

// The word for a code of the API, such as a state; the code itself if a newer broker has codes that the catalogue has not.
export const term = (family, code) => (Object.hasOwn(words, `${family}.${code}`) ? t(`${family}.${code}`) : String(code));

export const list = (names) => names.join(t("frame.list"));

// 1st, 2nd, 3rd, 4th.
export const nth = (number) => t(`nth.${ordinals.select(number)}`, { number });
