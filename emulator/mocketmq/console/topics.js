// Topics: their queues and permissions; make, change, empty and delete them.

import { get, path, post, put, remove } from "./api.js";
import { button, empty, field, h, select, table } from "./dom.js";
import { count, plural, visible } from "./format.js";
import { follow } from "./follow.js";
import { confirmed, doing, notice } from "./notice.js";

const stored = (topic) => topic.queues.reduce((sum, queue) => sum + queue.max_offset - queue.min_offset, 0);
const PERMISSIONS = { rw: "read and write", r: "read only", w: "write only", rwi: "read, write, inherit" };

export function showTopics(view, place) {
  const list = h("div", {});
  const withSystem = h("input", { type: "checkbox", onchange: () => reload() });
  const name = h("input", { required: true, autocomplete: "off", maxlength: "127" });
  const queues = h("input", { type: "number", min: "1", max: "1024", value: "4", required: true });
  const perm = select(Object.entries(PERMISSIONS), "rw");
  const make = h("button", { type: "submit" }, "Make or change");
  const run = doing(async () => {
    const many = Number(queues.value);
    await put(path`/v1/topics/${name.value.trim()}`, { read_queues: many, write_queues: many, perm: perm.value });
    notice(`The topic ${name.value.trim()} has ${plural(many, "queue")}.`);
    name.value = "";
    await reload();
  });
  view.append(h("h1", {}, "Topics"),
    h("form", { class: "make", onsubmit: (event) => { event.preventDefault(); run({ currentTarget: make }); } }, field("Name", name), field("Queues", queues), field("Permission", perm), make),
    h("label", { class: "row" }, withSystem, "Show the system's own topics, retries and dead letters"), list);

  function draw({ topics }) {
    const shown = topics.filter((one) => withSystem.checked || (!one.system && !one.name.startsWith("%")));
    if (!shown.length) {
      list.replaceChildren(empty("No topics yet", "They are made when a client first sends to them, or by the form above."));
      return;
    }
    list.replaceChildren(table("Topics", ["Name", ["Queues", "number"], "Permission", "Type", ["Messages", "number"], ["", "actions"]], shown.map((one) => [
      h("a", { href: `#/messages?topic=${encodeURIComponent(one.name)}` }, visible(one.name)),
      one.read_queues === one.write_queues ? count(one.read_queues) : `${one.read_queues} read, ${one.write_queues} write`,
      PERMISSIONS[one.perm] ?? one.perm,
      one.type,
      h("span", { title: one.queues.map((queue) => `queue ${queue.queue_id}: ${queue.min_offset} to ${queue.max_offset}`).join("\n") }, count(stored(one))),
      one.system ? "" : h("div", { class: "row nowrap" },
        h("a", { class: "button small", href: `#/send?topic=${encodeURIComponent(one.name)}` }, "Send"),
        button("Empty", doing(async () => {
          if (!await confirmed(`Empty ${one.name}?`, `Its ${plural(stored(one), "message")} are removed, and those that wait for it. The topic stays.`, "Empty it")) return;
          await post("/v1/reset", { topic: one.name });
          notice(`${one.name} is empty.`);
          await reload();
        }), { class: "small danger", "aria-label": `Empty ${one.name}` }),
        button("Delete", doing(async () => {
          if (!await confirmed(`Delete ${one.name}?`, "Its messages, retries, dead letters and all groups' offsets in it go with it.", "Delete it")) return;
          const gone = await remove(path`/v1/topics/${one.name}`);
          notice(`${one.name} is deleted${gone.cancelled ? `; ${plural(gone.cancelled, "pending message")} cancelled` : ""}.`);
          await reload();
        }), { class: "small danger", "aria-label": `Delete ${one.name}` })),
    ])));
  }

  const reload = follow(place, () => get("/v1/topics"), draw);
}
