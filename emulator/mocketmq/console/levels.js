// The view of delay levels: a lane for each, one for start-deliver times, and the pending messages of one lane.

import { get, path, post, query, remove } from "./api.js";
import { button, cut, cutLink, empty, h, marks, replace, setText, spoken, table } from "./dom.js";
import { dateTime, dayTime, duration, lateness, visible } from "./format.js";
import { Lane } from "./lane.js";
import { count, list as listed, parts as textParts, t } from "./language.js";
import { live, nowMs } from "./live.js";
import { confirmed, doing, notice } from "./notice.js";
import { firstSteps, isNew } from "./welcome.js";

const PAGE = 100;
const MOST = 1_000; // of start-deliver times, which are listed by due time
const still = matchMedia("(prefers-reduced-motion: reduce)");

export function showLevels(view, place) {
  if (place.rest.length) return showLane(view, place);
  const cards = h("div", { class: "figures" });
  const list = h("ol", { class: "lanes", "aria-label": t("levels.list") });
  const first = h("div", {});
  view.append(h("h1", {}, t("room.levels")), cards, first, h("div", { class: "lanes-head", "aria-hidden": "true" },
    h("span", {}, t("levels.level")), h("span", {}, t("levels.waiting")), h("span", { class: "axis" }, h("i", {}, t("levels.sent")), h("i", {}, t("levels.due"))), h("span", {}, t("levels.next")), h("span", {}, t("levels.delivered"), h("small", {}, t("levels.minute"))), h("span", {}, t("levels.overdue"))), list);
  const rows = new Map();

  function row(lane) {
    const key = lane.level ?? 0;
    if (!rows.has(key)) {
      // The link is named by what it shows, with words between the figures that only a screen reader says.
      const parts = { count: h("span", {}), messages: spoken(""), due: h("span", {}), dueWord: spoken(""), delivered: h("span", {}), deliveredWord: spoken(""), late: h("span", {}), held: h("small", {}), canvas: h("canvas", { class: "track", "aria-hidden": "true" }) };
      parts.overdue = h("span", { class: "overdue", "data-phone": t("levels.overdue-phone") }, spoken(t("levels.overdue-spoken")), parts.late, parts.held);
      parts.link = h("a", { href: `#/levels/${key || "time"}` },
        h("span", { class: "name" }, key ? [spoken(t("levels.level-spoken")), h("b", {}, `${key}`), ` ${lane.delay}`] : h("b", { class: "wide" }, t("levels.timed"))),
        h("span", { class: "waiting", "data-phone": t("levels.waiting-phone") }, parts.count, parts.messages), parts.canvas, h("span", { class: "next" }, parts.dueWord, parts.due), h("span", { class: "minute" }, parts.delivered, parts.deliveredWord), parts.overdue);
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
      setText(parts.count, lane.pending ? count(lane.pending) : t("frame.none"));
      setText(parts.messages, lane.pending ? t("levels.waiting-spoken", { count: lane.pending }) : t("levels.none-spoken"));
      const left = lane.next_due_ms === null ? null : lane.next_due_ms - now;
      setText(parts.dueWord, left === null ? "" : t("levels.next-spoken"));
      setText(parts.due, left === null ? "" : left > 0 ? t("clock.in", { time: duration(left) }) : t("clock.now"));
      setText(parts.delivered, lane.delivered ? count(lane.delivered) : "");
      setText(parts.deliveredWord, lane.delivered ? t("levels.minute-spoken") : "");
      const late = lane.oldest_overdue_ms === null ? 0 : now - lane.oldest_overdue_ms;
      const overdue = late > 0 ? overdueIn(lane, now) : 0;
      parts.overdue.hidden = !overdue;
      setText(parts.late, overdue ? t("levels.late", { overdue, late: duration(late) }) : "");
      setText(parts.held, heldBy(lane));
      parts.held.title = heldBy(lane);
      parts.item.classList.toggle("none", !lane.pending);
      parts.item.classList.toggle("idle", !lane.pending && !lane.delivered);
    }
    if (isNew() !== first.hasChildNodes()) first.replaceChildren(...(isNew() ? [firstSteps()] : []));
    const all = state.lateness.in_all;
    cards.replaceChildren(
      figure(count(state.pending), t("levels.figure-waiting")), figure(count(state.stored_per_s), t("levels.figure-stored")),
      figure(count(state.delivered_per_s), t("levels.figure-delivered")), figure(all.count ? lateness(all.p99_us) : t("frame.none"), t("levels.figure-p99"), all.count && all.p99_us > 100_000));
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

const heldBy = (lane) => (lane.held.length ? t("levels.held", { faults: listed(lane.held.map((one) => visible(one.fault))) }) : "");

const figure = (value, label, isBad) => h("div", { class: isBad ? "figure bad" : "figure" }, h("b", {}, value), h("span", {}, label));

function showLane(view, place) {
  const level = place.rest[0] === "time" ? 0 : Number(place.rest[0]);
  const which = level ? { level } : { timed: true };
  const heading = level ? t("lane.title", { level }) : t("levels.timed");
  const about = h("p", { class: "dim" });
  const list = h("div", {});
  const more = button(t("lane.more"), doing(() => load(true)), { hidden: true, class: "plain" });
    const all = (kind, act, properties = {}) => button(t(`lane.${kind}`), doing(async () => {
    const lane = live.state?.lanes.find((one) => (one.level ?? 0) === level);
    if (!await confirmed(t(`lane.${kind}-ask`), t(`lane.${kind}-means`, { count: lane?.pending ?? 0 }), t(`lane.${kind}`))) return;
    notice(await act());
    await load();
  }), properties);
  view.append(
    h("p", { class: "crumbs" }, h("a", { href: "#/levels" }, t("room.levels")), " / ", heading),
    h("div", { class: "row" }, h("h1", {}, heading), h("span", { class: "spring" }), h("div", { class: "row nowrap" },
      all("deliver-all", async () => t("lane.delivered-all", { count: (await post("/v1/deliveries", which)).delivered })),
      all("cancel-all", async () => t("lane.cancelled-all", { count: (await remove(`/v1/delayed${query(which)}`)).cancelled }), { class: "danger" }))),
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
    if (lane) setText(about, t("lane.about", {
      count: lane.pending,
      delay: lane.delay ? t("lane.each-waits", { delay: lane.delay }) : "",
      overdue: lane.oldest_overdue_ms === null ? "" : t("lane.overdue", { overdue: overdueIn(lane, nowMs()) }),
      held: lane.held.length ? t("lane.held", { faults: listed(lane.held.map((one) => t("lane.held-by", { number: one.count, fault: visible(one.fault) }))) }) : "",
      listed: !level && found.length < lane.pending ? t("lane.listed", { number: found.length }) : "",
    }));
    const text = found.map((one) => `${one.log_offset} ${one.due_ms} ${one.fault}`).join();
    if (text === drawn) return;
    drawn = text;
    if (!found.length) {
      replace(list, empty(t("lane.empty"), level ? t("lane.empty-level", { level }) : t("lane.empty-timed"), h("a", { class: "button", href: `#/send${level ? `?level=${level}` : "?at"}` }, t("lane.send-one"))));
      return;
    }
    replace(list, table(t("lane.table", { lane: heading }), [t("lane.due"), t("lane.in"), t("column.topic"), t("column.marks"), t("column.body"), ["", "actions"]], found.map((one) => [
      h("span", { class: "mono", title: dateTime(one.due_ms) }, dayTime(one.due_ms, nowMs(), true)),
      [countdown(h("span", { class: "mono", "data-due": one.due_ms })), one.fault ? h("small", {}, textParts("lane.held-one", { fault: cutLink(one.fault, "#/faults") })) : null],
      cut(one.real_topic ?? one.topic),
      marks(one),
      h("a", { class: "clip", href: `#/messages/${encodeURIComponent(one.message_id)}` }, visible((one.body ?? t("body.no-preview")).slice(0, 120))),
      h("div", { class: "row nowrap" },
        button(t("lane.deliver"), doing(() => act(post, path`/v1/delayed/${one.message_id}/deliver`, "lane.delivered", one)), { class: "small", "data-key": `deliver ${one.log_offset}` }),
        button(t("lane.cancel"), doing(() => act(remove, path`/v1/delayed/${one.message_id}`, "lane.cancelled", one)), { class: "small danger", "data-key": `cancel ${one.log_offset}` })),
    ])));
  }

  async function act(request, where, done, one) {
    await request(where);
    notice(t(done, { topic: one.real_topic ?? one.topic, id: one.message_id }), { link: [t("lane.show"), `#/messages/${encodeURIComponent(one.message_id)}`] });
    await load();
  }

  function countdown(cell) {
    const left = Number(cell.dataset.due) - nowMs();
    cell.classList.toggle("bad", left < 0);
    setText(cell, left > 0 ? duration(left) : left < 0 ? t("lane.late", { late: duration(-left) }) : t("clock.now"));
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

