// Writes commands and code that send a message again.

import { curlToken, hasToken, TOKEN_VARIABLE } from "./api.js";

// Properties set by the broker or by client libraries, which a sender does not give.
const OWN = new Set(["KEYS", "TAGS", "DELAY", "UNIQ_KEY", "WAIT", "REAL_TOPIC", "REAL_QID", "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "CORRECTION_FLAG",
  "MAX_RECONSUME_TIMES", "MQ2_FLAG", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "RETRY_TOPIC", "TIMER_OUT_MS", "TRANSFER_FLAG", "TIMER_DEL_UNIQKEY", "CHECK_IMMUNITY_TIME_IN_SECONDS",
  "TRANSACTION_CHECK_TIMES", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET", "__STARTDELIVERTIME", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS", "INNER_NUM", "CLUSTER", "BORN_HOST", "BORN_TIMESTAMP", "TRACE_CONTEXT", "INSTANCE_ID", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_REGION", "TRACE_ON", "POP_CK", "DUP_INFO", "_SYS_MSG_PRIORITY_"]);

export const ownProperties = (record) => Object.fromEntries(Object.entries(record.properties).filter(([name]) => !OWN.has(name) && !name.startsWith("__")));

// The body of POST /v1/topics/{topic}/messages.
export function fieldsOf(record) {
  const fields = record.body === null ? { body_base64: record.body_base64 } : { body: record.body };
  if (record.tag) fields.tag = record.tag;
  if (record.keys.length) fields.keys = record.keys;
  const properties = ownProperties(record);
  if (Object.keys(properties).length) fields.properties = properties;
  if (Number(record.properties.DELAY)) fields.delay_level = Number(record.properties.DELAY);
  if (record.priority !== null) fields.priority = record.priority;
  return fields;
}

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(topic, record) {
  return `curl -s${curlToken()} ${shell(`${location.origin}/v1/topics/${encodeURIComponent(topic)}/messages`)} -d ${shell(JSON.stringify(fieldsOf(record)))}\n`;
}

// JSON strings are valid in Python and Java, except for \\/ which JSON.stringify does not write.
const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
const python = (value) => (Array.isArray(value) ? `[${value.map(python).join(", ")}]` : typeof value === "object" ? `{${Object.entries(value).map(([name, one]) => `${python(name)}: ${python(one)}`).join(", ")}}` : typeof value === "string" ? JSON.stringify(value) : String(value));

export function asPython(topic, record) {
  const { body, body_base64: base64, ...fields } = fieldsOf(record);
  const content = base64 ? `base64.b64decode(${python(base64)})` : python(body);
  const more = Object.entries(fields).map(([name, value]) => `, ${name}=${python(value)}`).join("");
  const token = hasToken() ? `, os.environ["${TOKEN_VARIABLE}"]` : "";
  const imports = `${base64 ? "import base64\n" : ""}${token ? "import os\n" : ""}`;
  return `${imports}${imports ? "\n" : ""}from mocketmq import BlockingClient

with BlockingClient(${python(location.origin)}${token}) as broker:
    broker.send(${python(topic)}, ${content}${more})
`;
}

export function asJava(topic, record) {
  const fields = fieldsOf(record);
  const body = fields.body_base64 ? `Base64.getDecoder().decode(${quoted(fields.body_base64)})` : `${quoted(fields.body)}.getBytes(StandardCharsets.UTF_8)`;
  const lines = [`Message message = new Message(${quoted(topic)}, ${quoted(fields.tag ?? "")}, ${quoted((fields.keys ?? []).join(" "))}, ${body});`];
  for (const [name, value] of Object.entries(fields.properties ?? {})) lines.push(`message.putUserProperty(${quoted(name)}, ${quoted(value)});`);
  if (fields.delay_level) lines.push(`message.setDelayTimeLevel(${fields.delay_level});`);
  if (fields.priority !== undefined) lines.push(`message.setPriority(${fields.priority});`);
  return `${lines.join("\n")}\nproducer.send(message);\n`;
}
