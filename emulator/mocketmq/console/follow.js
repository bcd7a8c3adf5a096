// Keeps a view as new as the broker: reads again after something was stored, at most once in a second and a half.

import { live } from "./live.js";
import { doing } from "./notice.js";

const PAUSE_MS = 1_500;

// `read` fetches, `draw` shows what it got; returns a function that does both at once.
export function follow(place, read, draw) {
  let commits = live.state?.commits; // what is read from now on is as new as this
  let drawn = "";
  let timer = null;
  let isOver = false;

  async function reload() {
    const answer = await read();
    const text = JSON.stringify(answer);
    if (isOver) return;
    drawn = text;
    draw(answer);
  }

  const lookAgain = () => { timer ??= setTimeout(look, PAUSE_MS); };

  async function look() {
    timer = null;
    if (document.hidden) return lookAgain();
    try {
      const answer = await read();
      const text = JSON.stringify(answer);
      if (isOver || text === drawn) return;
      if (document.activeElement?.closest?.("main table")) return lookAgain(); // nothing moves under the finger
      drawn = text;
      draw(answer);
    } catch { /* the frame says when the broker is away */ }
  }

  place.listen((kind) => {
    if (kind !== "state" || live.state.commits === commits) return;
    commits = live.state.commits;
    lookAgain();
  });
  place.onLeave(() => { isOver = true; clearTimeout(timer); });
  doing(reload)();
  return reload;
}
