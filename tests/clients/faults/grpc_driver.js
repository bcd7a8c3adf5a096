// Drives rocketmq-client-nodejs: a JSON command per line of stdin; answers and messages as lines of stdout.
'use strict';

const readline = require('node:readline');
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const { address: endpoints } = JSON.parse(process.argv[2]);
const INVISIBLE_MS = 30_000;

function tell(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

async function receive(consumer, member) {
  for (;;) {
    try {
      for (const message of await consumer.receive(16, INVISIBLE_MS)) {
        await consumer.ack(message);
        const shown = { topic: '', message_id: '', queue_id: 0, queue_offset: 0, times: 0, properties: {} };
        tell({ member, message: { ...shown, body: message.body.toString() } });
      }
    } catch (error) {
      tell({ problem: `${error.name}: ${error.message}` });
    }
  }
}

async function main() {
  console.log = console.info = console.warn = console.error; // stdout is for answers
  const producer = new Producer({ endpoints });
  await producer.startup();
  const calls = {
    async send({ topic, body }) {
      await producer.send({ topic, body: Buffer.from(body) });
      return { status: 'OK' };
    },
    async consume({ group, topic }) {
      const subscriptions = new Map([[topic, '*']]);
      const consumer = new SimpleConsumer({ endpoints, consumerGroup: group, subscriptions, awaitDuration: 5_000 });
      await consumer.startup();
      receive(consumer, group);
      return null;
    },
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { id, call, ...command } = JSON.parse(line);
    calls[call](command).then(
      result => tell({ id, result }),
      error => tell({ id, error: `${error.name}: ${error.message}` }),
    );
  }
  process.exit(0);
}

main();
