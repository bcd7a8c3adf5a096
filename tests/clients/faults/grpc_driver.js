// Drives rocketmq-client-nodejs: a JSON command per line of stdin; answers and messages as lines of stdout.
'use strict';

const readline = require('node:readline');
const { setTimeout } = require('node:timers/promises');
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js');

const { address: endpoints } = JSON.parse(process.argv[2]);
const INVISIBLE_MS = 30_000;
const PAUSE_MS = 200; // after an error; a client that receives without pause is disconnected

function tell(what) {
  process.stdout.write(`${JSON.stringify(what)}\n`);
}

async function receive(consumer, member, holding, released) {
  for (;;) {
    try {
      for (const message of await consumer.receive(16, INVISIBLE_MS)) {
        const body = message.body.toString();
        const received = { member, message: { body } };
        if (body === holding) {
          tell(received);
          await released;
          await consumer.ack(message);
        } else {
          await consumer.ack(message); // before the test moves the clock
          tell(received);
        }
      }
    } catch (error) {
      tell({ problem: `${error.name}: ${error.message}` });
      await setTimeout(PAUSE_MS);
    }
  }
}

async function main() {
  console.log = console.info = console.warn = console.error; // stdout is for answers
  const producer = new Producer({ endpoints });
  await producer.startup();
  let release;
  const released = new Promise(resolve => { release = resolve; });
  let transactional;
  let transaction;
  const calls = {
    async send({ topic, body, message_group: messageGroup }) {
      await producer.send({ topic, body: Buffer.from(body), messageGroup });
      return { status: 'OK' };
    },
    // Send a message in a transaction, which remains open.
    async begin({ topic, body }) {
      if (!transactional) {
        const checker = { check: async () => TransactionResolution.COMMIT };
        transactional = new Producer({ endpoints, topic, checker });
        await transactional.startup();
      }
      const begun = transactional.beginTransaction();
      await transactional.send({ topic, body: Buffer.from(body) }, begun);
      transaction = begun;
      return null;
    },
    async commit() {
      await transaction.commit();
      return null;
    },
    async send_in_transaction(message) {
      await calls.begin(message);
      return calls.commit();
    },
    async release() {
      release();
      return null;
    },
    async consume({ group, topic, holding }) {
      const subscriptions = new Map([[topic, '*']]);
      const consumer = new SimpleConsumer({ endpoints, consumerGroup: group, subscriptions, awaitDuration: 5_000 });
      await consumer.startup();
      receive(consumer, group, holding, released);
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
