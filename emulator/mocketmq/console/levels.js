// The view of delay levels: a lane for each, one for start-deliver times, and the pending messages of one lane.

import { get, path, post, query, remove } from "./api.js";
import { button, cut, cutLink, empty, h, marks, replace, setText, spoken, table } from "./dom.js";
import { count, dateTime, dayTime, duration, lateness, plural, visible } from "./format.js";
import { Lane } from "./lane.js";
import { live, nowMs } from "./live.js";
import { confirmed, doing, notice } from "./notice.js";
import { firstSteps, isNew } from "./welcome.js";

const PAGE = 100;
const MOST = 1_000; // of start-deliver times, which are listed by due time
const still = matchMedia("(prefers-reduced-motion: reduce)");

export function showLevels(view, place) {
  if (place.rest.length) return showLane(view, place);
  const cards = h("div", { class: "figures" });
  const list = h("ol", { class: "lanes", "aria-label": "Delay levels and start-deliver times" });
  const first = h("div", {});
  view.append(h("h1", {}, "Levels"), cards, first, h("div", { class: "lanes-head", "aria-hidden": "true" },
    h("span", {}, "Level"), h("span", {}, "Waiting"), h("span", { class: "axis" }, h("i", {}, "just sent"), h("i", {}, "due")), h("span", {}, "Next due"), h("span", {}, "Delivered", h("small", {}, " / min")), h("span", {}, "Overdue")), list);
  const rows = new Map();

  function row(lane) {
    const key = lane.level ?? 0;
    if (!rows.has(key)) {
      // The link is named by what it shows, with words between the figures that only a screen reader says.
      const parts = { count: h("span", {}), messages: spoken(""), due: h("span", {}), dueWord: spoken(""), delivered: h("span", {}), deliveredWord: spoken(""), late: h("span", {}), held: h("small", {}), canvas: h("canvas", { class: "track", "aria-hidden": "true" }) };
      parts.overdue = h("span", { class: "overdue" }, spoken("overdue: "), parts.late, parts.held);
      parts.link = h("a", { href: `#/levels/${key || "time"}` },
        h("span", { class: "name" }, key ? [spoken("Level "), h("b", {}, `${key}`), ` ${lane.delay}`] : h("b", { class: "wide" }, "Start-deliver times")),
        h("span", { class: "waiting" }, parts.count, parts.messages), parts.canvas, h("span", { class: "next" }, parts.dueWord, parts.due), h("span", { class: "minute" }, parts.delivered, parts.deliveredWord), parts.overdue);
      parts.item = h("li", {}, parts.link);
      parts.lane = new Lane(parts.canvas);
      rows.set(key, parts);
      list.append(parts.item);
    }
    return rows.get(key);
  }

  function write() {
    const state = live.state;
    if (!state) return;
    const now = nowMs();
    const known = new Set(state.lanes.map((lane) => lane.level ?? 0));
    for (const [key, parts] of rows) if (!known.has(key)) { parts.item.remove(); rows.delete(key); }
    for (const lane of state.lanes) {
      const parts = row(lane);
      setText(parts.count, lane.pending ? count(lane.pending) : "–");
      setText(parts.messages, lane.pending === 1 ? " message waiting" : lane.pending ? " messages waiting" : " no message waiting");
      const left = lane.next_due_ms === null ? null : lane.next_due_ms - now;
      setText(parts.dueWord, left === null ? "" : "next due ");
      setText(parts.due, left === null ? "" : left > 0 ? `in ${duration(left)}` : "now");
      setText(parts.delivered, lane.delivered ? count(lane.delivered) : "");
      setText(parts.deliveredWord, lane.delivered ? " delivered in the last minute" : "");
      const late = lane.oldest_overdue_ms === null ? 0 : now - lane.oldest_overdue_ms;
      const overdue = late > 0 ? overdueIn(lane, now) : 0;
      parts.overdue.hidden = !overdue;
      setText(parts.late, overdue ? `${count(overdue)}, up to ${duration(late)}` : "");
      setText(parts.held, heldBy(lane));
      parts.held.title = heldBy(lane);
      parts.item.classList.toggle("none", !lane.pending);
      parts.item.classList.toggle("idle", !lane.pending && !lane.delivered);
    }
    if (isNew() !== first.hasChildNodes()) first.replaceChildren(...(isNew() ? [firstSteps()] : []));
    const all = state.lateness.in_all;
    cards.replaceChildren(
      figure(count(state.pending), "waiting"), figure(state.stored_per_s.toLocaleString("en"), "stored per second"),
      figure(state.delivered_per_s.toLocaleString("en"), "delivered per second"), figure(all.count ? lateness(all.p99_us) : "–", "p99 lateness", all.count && all.p99_us > 100_000));
  }

  // A lane spans its level's delay, or the time until the last start-deliver time.
  let spanOfTimed = 60_000;
  let drawn = 0;
  let frame = 0;
  function draw(time) {
    frame = requestAnimationFrame(draw);
    if (!live.state || time - drawn < (still.matches ? 1_000 : live.state.rate === 0 && !slides() ? 400 : 66)) return;
    drawn = time;
    const now = slide();
    for (const lane of live.state.lanes) {
      const parts = rows.get(lane.level ?? 0);
      if (!parts || (!lane.pending && parts.wasEmpty && parts.canvas.clientWidth === parts.lane.width)) continue;
      parts.wasEmpty = !lane.pending;
      if (!lane.level && lane.curve.length) spanOfTimed = Math.max((lane.curve.at(-1)[0] - now) * 1.05, 60_000);
      parts.lane.draw(lane.curve, lane.delay_ms ?? spanOfTimed, now);
    }
  }

  // A move of the clock is animated: everything slides to the right.
  let shown = null;
  const slides = () => shown !== null && Math.abs(nowMs() - shown) > 50;
  function slide() {
    const target = nowMs();
    if (shown === null || still.matches || Math.abs(target - shown) < 300) shown = target;
    else shown += (target - shown) * 0.3;
    return shown;
  }

  place.listen((kind) => { if (kind === "state") write(); });
  const timer = setInterval(() => { if (!document.hidden) write(); }, 500);
  const recolour = () => { for (const parts of rows.values()) { parts.lane.width = 0; parts.wasEmpty = false; } };
  addEventListener("theme", recolour);
  place.onLeave(() => { clearInterval(timer); cancelAnimationFrame(frame); removeEventListener("theme", recolour); });
  write();
  frame = requestAnimationFrame(draw);
}

// The number of messages due by now; exact for messages held by a fault.
const overdueIn = (lane, now) => lane.curve.findLast(([due]) => due <= now)?.[1] ?? 1;

const heldBy = (lane) => (lane.held.length ? `held by ${lane.held.map((one) => visible(one.fault)).join(", ")}` : "");

const figure = (value, label, isBad) => h("div", { class: isBad ? "figure bad" : "figure" }, h("b", {}, value), h("span", {}, label));

function showLane(view, place) {
  const level = place.rest[0] === "time" ? 0 : Number(place.rest[0]);
  const which = level ? { level } : { timed: true };
  const heading = level ? `Level ${level}` : "Start-deliver times";
  const about = h("p", { class: "dim" });
  const list = h("div", {});
  const more = button("Show more", doing(() => load(true)), { hidden: true, class: "plain" });
  const all = (verb, text, act) => button(verb, doing(async () => {
    const lane = live.state?.lanes.find((one) => (one.level ?? 0) === level);
    if (!await confirmed(`${verb}?`, `${text} Waiting here now: ${plural(lane?.pending ?? 0, "message")}.`, verb)) return;
    notice(await act());
    await load();
  }), { class: verb.startsWith("Cancel") ? "danger" : "" });
  view.append(
    h("p", { class: "crumbs" }, h("a", { href: "#/levels" }, "Levels"), " / ", heading),
    h("div", { class: "row" }, h("h1", {}, heading), h("span", { class: "spring" }), h("div", { class: "row nowrap" },
      all("Deliver all now", "They become visible at once. The ledger marks the deliveries as forced.", async () => `Delivered ${plural((await post("/v1/deliveries", which)).delivered, "message")}.`),
      all("Cancel all", "They will never be delivered.", async () => `Cancelled ${plural((await remove(`/v1/delayed${query(which)}`)).cancelled, "message")}.`))),
    about, list, more);
  let found = [];
  let after = null;
  let seen = null;
  let drawn = null;

  async function load(isMore = false) {
    if (level) {
      const answer = await get(`/v1/delayed${query({ ...which, max: isMore ? PAGE : Math.max(found.length, PAGE), after: isMore ? after : null })}`);
      found = isMore ? [...found, ...answer.messages] : answer.messages;
      after = answer.next_after;
      more.hidden = after === null;
    } else {
      const max = Math.min(Math.ceil(Math.max(found.length, 1) / PAGE + (isMore ? 1 : 0)) * PAGE, MOST);
      found = (await get(`/v1/timed${query({ max })}`)).messages;
      more.hidden = found.length < max || max === MOST;
    }
    draw();
  }

  function draw() {
    const lane = live.state?.lanes.find((one) => (one.level ?? 0) === level);
    if (lane) setText(about, `${lane.delay ? `Each message waits ${lane.delay}. ` : ""}${plural(lane.pending, "message")} waiting${lane.oldest_overdue_ms === null ? "" : `, ${count(overdueIn(lane, nowMs()))} overdue`}${lane.held.length ? `: ${lane.held.map((one) => `${count(one.count)} held by the fault ${visible(one.fault)}`).join(", ")}` : ""}.${!level && found.length < lane.pending ? ` Listed are the ${count(found.length)} due first.` : ""}`);
    const text = found.map((one) => `${one.log_offset} ${one.due_ms} ${one.fault}`).join();
    if (text === drawn) return;
    drawn = text;
    if (!found.length) {
      replace(list, empty("Nothing is waiting here", level ? `A message sent with delay level ${level} is listed here until it is due.` : "A message sent with a start-deliver time is listed here until that time.", h("a", { class: "button", href: `#/send${level ? `?level=${level}` : "?at"}` }, "Send one")));
      return;
    }
    replace(list, table(`Messages waiting in ${heading}`, ["Due", "In", "Topic", "Keys and tag", "Body", ["", "actions"]], found.map((one) => [
      h("span", { class: "mono", title: dateTime(one.due_ms) }, dayTime(one.due_ms, nowMs(), true)),
      [countdown(h("span", { class: "mono", "data-due": one.due_ms })), one.fault ? h("small", {}, " held by ", cutLink(one.fault, "#/faults")) : null],
      cut(one.real_topic ?? one.topic),
      marks(one),
      h("a", { class: "clip", href: `#/messages/${encodeURIComponent(one.message_id)}` }, visible((one.body ?? "(bytes)").slice(0, 120))),
      h("div", { class: "row nowrap" },
        button("Deliver now", doing(() => act(post, path`/v1/delayed/${one.message_id}/deliver`, "Delivered", one)), { class: "small", "data-key": `deliver ${one.log_offset}` }),
        button("Cancel", doing(() => act(remove, path`/v1/delayed/${one.message_id}`, "Cancelled", one)), { class: "small danger", "data-key": `cancel ${one.log_offset}` })),
    ])));
  }

  async function act(request, where, done, one) {
    await request(where);
    notice(`${done} ${one.real_topic ?? ""} message ${one.message_id}.`, { link: ["Show it", `#/messages/${encodeURIComponent(one.message_id)}`] });
    await load();
  }

  function countdown(cell) {
    const left = Number(cell.dataset.due) - nowMs();
    cell.classList.toggle("bad", left < 0);
    setText(cell, left > 0 ? duration(left) : left < 0 ? `${duration(-left)} overdue` : "now");
    return cell;
  }
  const timer = setInterval(() => list.querySelectorAll("[data-due]").forEach(countdown), 500);
  place.onLeave(() => clearInterval(timer));
  const run = doing(() => load());
  place.listen((kind) => {
    const lane = kind === "state" && live.state.lanes.find((one) => (one.level ?? 0) === level);
    if (!lane) return;
    const stamp = `${lane.pending} ${lane.next_due_ms}`;
    if (stamp !== seen && found.length <= PAGE) run();
    else draw();
    seen = stamp;
  });
  run();
}

