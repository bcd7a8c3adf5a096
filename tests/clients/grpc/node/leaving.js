// Closes rocketmq-client-nodejs while it receives; consumes nothing until stdin ends; closes it while it sends.
const { once } = require('node:events');
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [endpoints, sent, empty] = process.argv.slice(2);
const options = { endpoints, namespace: '' };
const SENDS = 40;
const LONGEST_MS = 60_000;

const later = (ms, value) => new Promise(resolve => setTimeout(resolve, ms, value));
const outcome = work => Promise.race([
  work.then(value => (Array.isArray(value) && value.length === 0 ? 'empty' : 'ok'), error => error.constructor.name),
  later(LONGEST_MS, 'open'),
]);

async function closeWhileSending() {
  const producer = new Producer({ ...options, topic: sent });
  await producer.startup();
  const sends = Array.from({ length: SENDS }, () => outcome(producer.send({ topic: sent, body: Buffer.from('closing') })));
  await producer.shutdown();
  const ended = await Promise.all(sends);
  const [ok, open] = ['ok', 'open'].map(name => ended.filter(each => each === name).length);
  console.log(`sends ${ok} ${SENDS - ok - open} ${open}`);
}

async function closeWhileReceiving() {
  const subscriptions = new Map([[empty, '*']]);
  const simple = new SimpleConsumer({ ...options, consumerGroup: 'g-closing', subscriptions, awaitDuration: 5_000 });
  await simple.startup();
  const receive = outcome(simple.receive(1, 30_000));
  await later(1_000); // until it waits
  await simple.shutdown();
  console.log(`receive ${await receive}`);
}

async function main() {
  for (const kind of ['uncaughtException', 'unhandledRejection']) {
    process.on(kind, error => console.log(`uncaught ${error}`));
  }
  await closeWhileReceiving();
  const idle = new PushConsumer({
    ...options, consumerGroup: 'g-idle', subscriptions: new Map([[empty, '*']]),
    messageListener: { consume: async () => ConsumeResult.SUCCESS },
  });
  await idle.startup();
  console.log('idle');
  process.stdin.resume();
  await once(process.stdin, 'end');
  await closeWhileSending();
  await later(200); // for what nobody catches
  process.exit(0); // to close the consumer would take as long as its long poll
}

main();
