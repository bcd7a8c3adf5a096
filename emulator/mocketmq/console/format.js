// Instants, durations and sizes in words. Instants are those of the broker's clock, shown in the browser's zone.

import { locale, t } from "./language.js";

const two = (number) => String(number).padStart(2, "0");

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DAY = { year: "numeric", month: "short", day: "numeric" };
const formats = (...fields) => [{}, { fractionalSecondDigits: 3 }].map((more) => new Intl.DateTimeFormat(locale, Object.assign({}, ...fields, more)));
const [time, timeWithMs] = formats(TIME);
const [instant, instantWithMs] = formats(DAY, TIME);
const day = new Intl.DateTimeFormat(locale, DAY);

export const clockTime = (ms, withMs = false) => (withMs ? timeWithMs : time).format(ms);
export const date = (ms) => day.format(ms);
export const dateTime = (ms) => instant.format(ms);

// The time of day, with the date if that is not the day of now.
export const dayTime = (ms, now, withMs = false) => (date(ms) === date(now) ? clockTime(ms, withMs) : (withMs ? instantWithMs : instant).format(ms));

// The browser's time zone at an instant: UTC, or UTC+02:00.
export function utcOffset(ms) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return minutes ? `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}` : "UTC";
}

// The format of inputs of type datetime-local, which is the same in every language.
export function localInput(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

const decimals = [0, 1, 2].map((digits) => new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
const inUnit = (unit, number, digits = 0) => t(`unit.${unit}`, { number: decimals[digits].format(number) });

const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "m"], [1_000, "s"]];

// 2 h 14 m, 3.2 s, 850 ms: two units at most.
export function duration(ms) {
  const sign = ms < 0 ? "−" : "";
  let rest = Math.abs(ms);
  if (rest < 1_000) return sign + inUnit("ms", Math.round(rest));
  if (rest < 10_000) return sign + inUnit("s", Math.floor(rest / 100) / 10, 1);
  rest = Math.floor(rest / 1_000) * 1_000;
  const parts = [];
  for (const [size, unit] of UNITS) {
    if (rest >= size) {
      parts.push(inUnit(unit, Math.floor(rest / size)));
      rest %= size;
    } else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return sign + parts.join(" ");
}

export function lateness(us) {
  if (us === null || us === undefined) return "";
  const size = Math.abs(us);
  const sign = us < 0 ? "−" : "";
  if (size < 1_000) return sign + inUnit("us", size);
  if (size < 1_000_000) return sign + inUnit("ms", size / 1_000, size < 10_000 ? 2 : 1);
  return duration(us / 1_000);
}

// A power of ten of microseconds, for the scale of a chart.
export const magnitude = (us) => (us < 1_000 ? inUnit("us", us) : us < 1_000_000 ? inUnit("ms", us / 1_000) : us < 10_000_000 ? inUnit("s", us / 1_000_000) : duration(us / 1_000));

export function bytes(size) {
  if (size < 1_024) return inUnit("B", size);
  return size < 1_048_576 ? inUnit("KiB", size / 1_024, 1) : inUnit("MiB", size / 1_048_576, 2);
}

export const laneName = (level) => (level ? t("lane.level", { level }) : t("lane.timed"));

// The beginning of a body, as the broker quotes it. What it writes instead of a compressed body is no quotation.
export const preview = (text) => (text === "(compressed)" ? t("body.compressed-preview") : visible(text));

// Control and direction characters are shown as symbols: they would hide or reverse their neighbours.
// eslint-disable-next-line no-control-regex
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
  return text.replace(UNSEEN, (one) => {
    const code = one.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code === 0x7f ? "\u2421" : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
