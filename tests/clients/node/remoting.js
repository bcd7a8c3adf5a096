// Drives ali-ons: a JSON command per line of stdin; answers, received messages and errors as lines of stdout.
'use strict';

const readline = require('node:readline');
const httpclient = require('urllib');
const { Consumer, Message, Producer } = require('ali-ons');
const SendStatus = require('ali-ons/lib/producer/send_status');

const { send_timeout_ms: sendMsgTimeout = 60_000, ...given } = JSON.parse(process.argv[2]);
const options = { httpclient, sendMsgTimeout, ...given }; // its own timeout is short for a busy machine
const consumers = new Map();
const WANTED = 'a failure that the test wants';
const producers = new Map();
const held = new Map();

function tell(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

async function started(client) {
  client.on('error', error => error.message.includes(WANTED) || tell({ problem: error.message }));
  await client.ready();
  return client;
}

// Settings have producers and connections of their own.
function producerWith(settings) {
  const name = JSON.stringify(settings ?? {});
  if (!producers.has(name)) {
    const own = settings && { instanceName: `with${producers.size}`, ...settings };
    producers.set(name, started(new Producer({ ...options, producerGroup: 'GID_node', ...own })));
  }
  return producers.get(name);
}

function shown({ topic, body, tags, keys, msgId, queueId, queueOffset, reconsumeTimes, properties }) {
  return {
    topic,
    body: body.toString(),
    tag: tags,
    keys,
    message_id: msgId,
    queue_id: queueId,
    queue_offset: queueOffset,
    times: reconsumeTimes,
    properties,
  };
}

const calls = {
  async send({ topic, body, tag, keys, delay_level: level, start_deliver_ms: start, sharding_key: sharding, properties, settings }) {
    const producer = await producerWith(settings);
    const message = new Message(topic, tag, body);
    Object.assign(message.properties, properties);
    if (keys) message.keys = keys;
    if (level) message.delayTimeLevel = level;
    if (start) message.setStartDeliverTime(start);
    if (sharding) message.shardingKey = sharding;
    const sent = await producer.send(message);
    return {
      message_id: sent.msgId,
      queue_offset: sent.queueOffset,
      is_ok: sent.sendStatus === SendStatus.SEND_OK,
      status: sent.sendStatus,
    };
  },
  async consume({ group, topic, tags, failures, broadcasting, member, holding, more }) {
    const name = member ?? group;
    const settings = { consumerGroup: group, isBroadcast: broadcasting, ...more };
    if (member) settings.instanceName = member; // has connections of its own
    const consumer = new Consumer({ ...options, ...settings });
    consumers.set(name, consumer);
    consumer.subscribe(topic, tags ?? '*', async message => {
      tell({ member: name, message: shown(message) });
      if (holding && message.body.toString() === holding) await new Promise(release => held.set(holding, release));
      if (message.reconsumeTimes < (failures ?? 0)) throw new Error(WANTED);
    });
    await started(consumer);
  },
  async release({ body }) {
    held.get(body)();
  },
  async close({ member }) {
    const consumer = consumers.get(member);
    consumers.delete(member);
    consumer.removeAllListeners('error').on('error', () => {}); // of what it was about to do
    await consumer.close();
  },
};

async function answer({ id, call, ...command }) {
  try {
    tell({ id, result: (await calls[call](command)) ?? null });
  } catch (error) {
    tell({ id, error: `${error.name}: ${error.message}` });
  }
}

async function main() {
  console.warn = console.error; // stdout is for answers
  for await (const line of readline.createInterface({ input: process.stdin })) {
    answer(JSON.parse(line));
  }
  process.exit(0); // the client keeps its connections open
}

main();
