// The live state of the broker: its last status, the newest record, and whether it is reachable.

import { AwayError, stream } from "./api.js";

const LOG_OFFSETS = 2 ** 50; // numbers of messages outside of the store are above
const listeners = new Set();
let last = null;
let received = 0;
let hasState;

export const live = { state: null, newest: -1, hasArrivals: false, isAway: false, retryIn: 0 };

// Settled once the first state is known, and with it the broker's time.
export const known = new Promise((done) => { hasState = done; });

// `listener(kind)` is called with "state", "arrivals", "away" and "back"; returns a function that unsubscribes.
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(kind) {
  for (const listener of [...listeners]) listener(kind);
}

// The broker's time now: the last reported time plus the time since then.
export function nowMs() {
  if (!live.state) return Date.now();
  return live.state.now_ms + (performance.now() - received) * live.state.rate;
}

// The last event was a clock move: the clock is there before the next event reports it.
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
    hasState();
  } else {
    live.hasArrivals = true;
    live.newest = Math.max(live.newest, ...data.records.map((one) => one.log_offset).filter((one) => one < LOG_OFFSETS));
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
