// Sends a delayed message, moves the clock, waits, and consumes, by the generated types alone.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const { GET, POST } = createClient<paths>({ baseUrl: process.argv[2]! });
const topic = { path: { topic: "orders" } };

const sent = await POST("/v1/topics/{topic}/messages", {
  params: topic,
  body: { body: '{"order": {"id": 7}}', delay: "30m", keys: ["7"] },
});
assert(sent.data, JSON.stringify(sent.error));
assert.equal(sent.data.due_ms! - sent.data.store_ms, 30 * 60_000);

const moved = await POST("/v1/clock/advance", { body: { by: "30m" } });
assert.equal(moved.data?.fired, 1);

const wanted: components["schemas"]["WaitIn"] = { delivered: 1, wait: "5s", json_path: { "$.order.id": 7 } };
const waited = await POST("/v1/topics/{topic}/wait", { params: topic, body: wanted });
assert(waited.data?.reached);
assert.equal(waited.data.messages[0]?.message_id, sent.data.message_id);

const group = { path: { group: "billing" } };
const received = await POST("/v1/groups/{group}/receive", { params: group, body: { topic: "orders" } });
const receipts = received.data!.messages.map((message) => message.receipt);
await POST("/v1/groups/{group}/ack", { params: group, body: { receipts } });
const leaks = await GET("/v1/leaks", { params: { query: { group: "billing" } } });
assert.equal(leaks.data?.count, 0);

const refused = await POST("/v1/clock/advance", { body: { by: "soon" } });
assert.equal(refused.error?.field, "by");

// @ts-expect-error - a stage is a number of messages
const wrong: components["schemas"]["WaitIn"] = { delivered: "one" };
assert.equal((await POST("/v1/topics/{topic}/wait", { params: topic, body: wrong })).response.status, 400);
console.log("done");
