// What an application does with rocketmq-client-nodejs, against host:port: prints each step that worked.
const assert = require('node:assert');
const { Producer, SimpleConsumer, PushConsumer, ConsumeResult, FilterExpression } =
  require('rocketmq-client-nodejs');
const { TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js');

const endpoints = process.argv[2];
const LONGEST_MS = 60_000;
const ok = step => console.log(`ok ${step}`);

async function consumer(consumerGroup, topic, expression = '*') {
  const made = new SimpleConsumer({
    endpoints, consumerGroup, subscriptions: new Map().set(topic, expression), awaitDuration: 2_000,
  });
  await made.startup();
  return made;
}

async function take(simple, count) {
  const taken = [];
  const end = Date.now() + LONGEST_MS;
  while (taken.length < count && Date.now() < end) {
    const some = await simple.receive(32, 15_000);
    for (const one of some) await simple.ack(one);
    taken.push(...some);
  }
  assert.strictEqual(taken.length, count);
  return taken.map(one => one.body.toString());
}

async function listen(consumerGroup, topic, fails) {
  const seen = [];
  const made = new PushConsumer({
    endpoints, consumerGroup, namespace: '', subscriptions: new Map([[topic, '*']]),
    messageListener: {
      async consume(message) {
        seen.push([message.body.toString(), message.deliveryAttempt]);
        return fails(message, seen) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    },
  });
  await made.startup();
  return [made, seen];
}

async function until(condition, what) {
  const end = Date.now() + LONGEST_MS;
  while (!condition()) {
    assert(Date.now() < end, what());
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

async function main() {
  const send = (topic, body, more = {}) => producer.send({ topic, body: Buffer.from(body), ...more });
  const producer = new Producer({ endpoints });
  await producer.startup();
  let receipt = await send('plain', 'hello', { tag: 'A', keys: ['k'] });
  const simple = await consumer('g-plain', 'plain');
  assert.deepStrictEqual(await take(simple, 1), ['hello']);
  ok('normal');

  const began = Date.now();
  await send('plain', 'delayed', { delay: 2_000 });
  assert.deepStrictEqual(await take(simple, 1), ['delayed']);
  assert(Date.now() >= began + 1_000); // whole seconds on the wire
  ok('delay');

  receipt = await send('plain', 'recalled', { delay: 30_000 });
  await producer.recallMessage('plain', receipt.recallHandle);
  ok('recall');

  await send('plain', 'longer');
  let [held] = [];
  while (!held) [held] = await simple.receive(1, 15_000);
  await simple.changeInvisibleDuration(held, 30_000);
  await simple.ack(held);
  ok('change');

  const tagged = await consumer('g-tag', 'filtered', new FilterExpression('B'));
  for (const tag of 'ABC') await send('filtered', tag, { tag });
  assert.deepStrictEqual(await take(tagged, 1), ['B']);
  ok('filter');

  for (let number = 0; number < 5; number++) await send('fifo', `${number}`, { messageGroup: 'one' });
  const [ordered, inOrder] = await listen('g-fifo', 'fifo', () => false); // a failure is final: it knows exponential back-offs alone
  await until(() => inOrder.length >= 5, () => JSON.stringify(inOrder));
  assert.deepStrictEqual([...new Set(inOrder.map(([body]) => body))], [...'01234']);
  ok('fifo');

  const [retrying, attempts] = await listen('g-retry', 'retried', () => true);
  await send('retried', 'bad');
  await until(() => attempts.length >= 2, () => JSON.stringify(attempts));
  assert.deepStrictEqual(attempts.slice(0, 2), [['bad', 1], ['bad', 2]]);
  const dead = await consumer('g-dead', '%DLQ%g-retry');
  assert.deepStrictEqual(await take(dead, 1), ['bad']);
  ok('dead letter');

  const transactional = new Producer({
    endpoints, topic: 'paid', checker: { check: async () => TransactionResolution.COMMIT },
  });
  await transactional.startup();
  const paid = await consumer('g-paid', 'paid');
  for (const body of ['committed', 'rolled back', 'forgotten']) {
    const transaction = transactional.beginTransaction();
    await transactional.send({ topic: 'paid', body: Buffer.from(body) }, transaction);
    if (body === 'committed') await transaction.commit();
    else if (body === 'rolled back') await transaction.rollback();
  }
  assert.deepStrictEqual((await take(paid, 2)).sort(), ['committed', 'forgotten']);
  ok('transaction');

  for (const client of [ordered, retrying, simple, tagged, dead, paid, producer, transactional]) {
    await client.shutdown();
  }
  ok('shutdown');
}

main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
