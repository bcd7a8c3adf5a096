// Instants, durations and sizes in words. Instants are those of the broker's clock, shown in the browser's zone.

const two = (number) => String(number).padStart(2, "0");

export function clockTime(ms, withMs = false) {
  const at = new Date(ms);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withMs ? `${time}.${String(at.getMilliseconds()).padStart(3, "0")}` : time;
}

export function date(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

// The time of day, with the date if that is not the day of now.
export const dayTime = (ms, now, withMs = false) => `${date(ms) === date(now) ? "" : `${date(ms)} `}${clockTime(ms, withMs)}`;

// The browser's time zone at an instant: UTC, or UTC+02:00.
export function utcOffset(ms) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return minutes ? `UTC${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}` : "UTC";
}

export const dateTime = (ms) => `${date(ms)} ${clockTime(ms)}`;

// The format of inputs of type datetime-local.
export const localInput = (ms) => `${date(ms)}T${clockTime(ms)}`;

const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "m"], [1_000, "s"]];

// 2 h 14 m, 3.2 s, 850 ms: two units at most.
export function duration(ms) {
  const sign = ms < 0 ? "−" : "";
  let rest = Math.abs(ms);
  if (rest < 1_000) return `${sign}${Math.round(rest)} ms`;
  if (rest < 10_000) return `${sign}${(Math.floor(rest / 100) / 10).toFixed(1)} s`;
  rest = Math.floor(rest / 1_000) * 1_000;
  const parts = [];
  for (const [size, unit] of UNITS) {
    if (rest >= size) {
      parts.push(`${Math.floor(rest / size)} ${unit}`);
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
  if (size < 1_000) return `${sign}${size} µs`;
  if (size < 1_000_000) return `${sign}${(size / 1_000).toFixed(size < 10_000 ? 2 : 1)} ms`;
  return duration(us / 1_000);
}

export function bytes(size) {
  if (size < 1_024) return `${size} B`;
  return size < 1_048_576 ? `${(size / 1_024).toFixed(1)} KiB` : `${(size / 1_048_576).toFixed(2)} MiB`;
}

export const count = (number) => number.toLocaleString("en");
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
export const laneName = (level) => (level ? `level ${level}` : "start-deliver time");

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
