// Keeps a view up to date: reads again after something was stored, the less often the longer that takes.

import { ApiError } from "./api.js";
import { known, live } from "./live.js";
import { doing } from "./notice.js";

const LEAST_PAUSE_MS = 1_000;
const MOST_PAUSE_MS = 4_000;
const SHARE = 20;

// `read` fetches data, `draw` shows it; returns a function that does both at once.
export function follow(place, read, draw, isPaused = () => false) {
  let commits = live.state?.commits; // what is read from now on is as new as this
  let drawn = "";
  let timer = null;
  let isOver = false;
  let isWanted = true; // an action of the user waits to see its result
  let mayReadAt = 0;
  let reads = 0;

  async function readAndDraw() {
    const began = performance.now();
    const number = ++reads;
    const answer = await read();
    const end = performance.now();
    mayReadAt = end + Math.min(Math.max((end - began) * SHARE, LEAST_PAUSE_MS), MOST_PAUSE_MS);
    await known; // views compare instants with the broker's time
    const text = JSON.stringify(answer);
    if (isOver || number !== reads || (!isWanted && (text === drawn || isUnderFinger()))) return;
    isWanted = false;
    drawn = text;
    draw(answer);
  }

  // Nothing moves under the finger.
  function isUnderFinger() {
    if (!document.activeElement?.closest?.("main table")) return false;
    lookAgain();
    return true;
  }

  const lookAgain = () => { timer ??= setTimeout(look, Math.max(mayReadAt - performance.now(), 0)); };

  async function look() {
    timer = null;
    if (isPaused()) return;
    if (document.hidden) {
      mayReadAt = performance.now() + LEAST_PAUSE_MS;
      return lookAgain();
    }
    try {
      await readAndDraw();
    } catch { /* the frame says when the broker is away */ }
  }

  place.listen((kind) => {
    if (kind !== "state" || live.state.commits === commits) return;
    commits = live.state.commits;
    lookAgain();
  });
  place.onLeave(() => { isOver = true; clearTimeout(timer); });
  const reload = () => {
    isWanted = true;
    return readAndDraw();
  };
  doing(reload)();
  return reload;
}

// Reads; what the broker does not know is `missing`.
export const orMissing = (read) => () => read().catch((error) => {
  if (error instanceof ApiError && error.status === 404) return { missing: true };
  throw error;
});
