// What the broker does now: the last state, the newest arrivals, and whether the broker is there.

import { AwayError, stream } from "./api.js";

const KEPT = 200;
const listeners = new Set();
let last = null;
let received = 0;

export const live = { state: null, arrivals: [], missed: 0, isAway: false, retryIn: 0 };

// `listener(kind)` hears of "state", "arrivals", "away" and "back"; returns what ends that.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(kind) {
  for (const listener of [...listeners]) listener(kind);
}

// The broker's time now: its last word, and how long ago that was.
export function nowMs() {
  if (!live.state) return Date.now();
  return live.state.now_ms + (performance.now() - received) * live.state.rate;
}

// What the broker said last was a move: the clock is there before the next event says so.
export function moved(toMs) {
  if (!live.state) return;
  live.state = { ...live.state, now_ms: Math.max(toMs, nowMs()) };
  received = performance.now();
  tell("state");
}

function hear(kind, data, id) {
  last = id;
  if (kind === "state") {
    live.state = data;
    received = performance.now();
  } else {
    live.arrivals = [...data.records, ...live.arrivals].slice(0, KEPT);
    live.missed += data.missed;
    live.news = data.records;
  }
  if (live.isAway) {
    live.isAway = false;
    tell("back");
  }
  tell(kind);
}

export async function watch() {
  let pause = 500;
  for (;;) {
    const began = performance.now();
    try {
      await stream(last, undefined, hear);
    } catch (error) {
      if (!(error instanceof AwayError) && !(error instanceof TypeError)) live.reason = error.message;
    }
    if (performance.now() - began > 5_000) pause = 500;
    live.isAway = true;
    live.retryIn = pause;
    tell("away");
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 1.6, 5_000);
  }
}
