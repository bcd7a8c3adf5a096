// What an application does with rocketmq-client-nodejs, against host:port: prints each step that worked.
const assert = require('node:assert');
const { Producer, SimpleConsumer, PushConsumer, ConsumeResult, FilterExpression } =
  require('rocketmq-client-nodejs');
const { FilterType, TransactionResolution } = require('rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb.js');

const options = {
  endpoints: process.argv[2],
  namespace: '',
  requestTimeout: 30_000,
  sessionCredentials: { accessKey: 'shop', accessSecret: 'secret' },
};
const LONGEST_MS = 60_000;
const ok = step => console.log(`ok ${step}`);

async function consumer(consumerGroup, topic, expression = '*', more = {}) {
  const subscriptions = new Map([[topic, expression]]);
  const made = new SimpleConsumer({ ...options, consumerGroup, subscriptions, awaitDuration: 2_000, ...more });
  await made.startup();
  return made;
}

async function receive(simple) {
  let some = [];
  while (some.length === 0) some = await simple.receive(32, 60_000);
  return some;
}

async function views(simple, count) {
  const taken = [];
  const end = Date.now() + LONGEST_MS;
  while (taken.length < count && Date.now() < end) {
    const some = await simple.receive(32, 15_000);
    for (const one of some) await simple.ack(one);
    taken.push(...some);
  }
  assert.strictEqual(taken.length, count);
  return taken;
}

async function take(simple, count) {
  return (await views(simple, count)).map(one => one.body.toString());
}

async function listen(consumerGroup, topic, fails) {
  const seen = [];
  const made = new PushConsumer({
    ...options, consumerGroup, subscriptions: new Map([[topic, '*']]),
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
  const producer = new Producer(options);
  await producer.startup();
  const properties = new Map([['colour', 'red']]);
  let receipt = await send('plain', 'hello', { tag: 'A', keys: ['k'], properties });
  const simple = await consumer('g-plain', 'plain');
  let [got] = await views(simple, 1);
  assert.deepStrictEqual([got.body.toString(), got.messageId, got.tag], ['hello', receipt.messageId, 'A']);
  assert.strictEqual(got.properties.get('colour'), 'red');
  console.log(`id ${receipt.messageId}`);
  ok('normal');

  [got] = await views(await consumer('g-json', 'json'), 1);
  assert.deepStrictEqual([got.body.toString(), got.tag, got.keys], ['by JSON', 'A', ['k']]);
  ok('json');

  for (let number = 0; number < 3; number++) await send('batch', `${number}`, { messageGroup: 'one' });
  const several = await consumer('g-batch', 'batch');
  const batch = await receive(several);
  assert.deepStrictEqual(batch.map(one => one.body.toString()), [...'012']);
  for (const one of batch) await several.ack(one);
  ok('batch');

  const large = 'x'.repeat(4_000_000); // answers of 4 MiB are the most that it reads
  await send('large', large);
  assert((await take(await consumer('g-large', 'large'), 1))[0] === large);
  ok('large');

  const began = Date.now();
  await send('plain', 'delayed', { delay: 2_000 });
  assert.deepStrictEqual(await take(simple, 1), ['delayed']);
  assert(Date.now() >= began + 1_000); // whole seconds on the wire
  ok('delay');

  receipt = await send('plain', 'recalled', { delay: 30_000 });
  await producer.recallMessage('plain', receipt.recallHandle);
  ok('recall');

  await send('plain', 'longer');
  await simple.changeInvisibleDuration((await receive(simple))[0], 1_000);
  [got] = await views(simple, 1);
  assert.deepStrictEqual([got.body.toString(), got.deliveryAttempt], ['longer', 2]);
  ok('change');

  const tagged = await consumer('g-tag', 'filtered', new FilterExpression('B'));
  for (const tag of 'ABC') await send('filtered', tag, { tag });
  assert.deepStrictEqual(await take(tagged, 1), ['B']);
  ok('filter');

  const dear = await consumer('g-sql', 'priced', new FilterExpression('price > 10', FilterType.SQL));
  for (const price of ['9', '11']) await send('priced', price, { properties: new Map([['price', price]]) });
  assert.deepStrictEqual(await take(dear, 1), ['11']);
  ok('sql');

  for (let number = 0; number < 5; number++) await send('fifo', `${number}`, { messageGroup: 'one' });
  const [ordered, inOrder] = await listen('g-fifo', 'fifo', () => false); // a failure is final: it knows exponential back-offs alone
  await until(() => inOrder.length >= 5, () => JSON.stringify(inOrder));
  assert.deepStrictEqual([...new Set(inOrder.map(([body]) => body))], [...'01234']);
  ok('fifo');

  for (const priority of [1, 9, 5]) await send('alarms', `${priority}`, { priority });
  const urgent = await consumer('g-alarms', 'alarms');
  const alarms = (await views(urgent, 3)).map(one => [one.body.toString(), one.priority]);
  assert.deepStrictEqual(alarms, [['9', 9], ['5', 5], ['1', 1]]);
  await assert.rejects(send('alarms', '0', { priority: 0 })); // it takes 0 for no priority, and the type for NORMAL
  ok('priority');

  const [retrying, attempts] = await listen('g-retry', 'retried', message => message.body.toString() === 'bad');
  await send('retried', 'bad');
  await until(() => attempts.length >= 2, () => JSON.stringify(attempts));
  assert.deepStrictEqual(attempts.slice(0, 2), [['bad', 1], ['bad', 2]]);
  const dead = await consumer('g-dead', '%DLQ%g-retry');
  assert.deepStrictEqual(await take(dead, 1), ['bad']);
  ok('dead letter');

  const transactional = new Producer({
    ...options, topic: 'paid', checker: {
      async check({ body }) { // on a slow machine the others are asked about, too
        return body.toString() === 'forgotten' ? TransactionResolution.COMMIT : null;
      },
    },
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

  const inside = new Producer({ ...options, namespace: 'tenant' });
  await inside.startup();
  await inside.send({ topic: 'spaced', body: Buffer.from('inside') });
  const spaced = await consumer('g-spaced', 'spaced', '*', { namespace: 'tenant' });
  assert.deepStrictEqual(await take(spaced, 1), ['inside']);
  ok('namespace');

  const sessionCredentials = { accessKey: 'shop', accessSecret: 'wrong' };
  await assert.rejects(async () => {
    const stranger = new Producer({ ...options, sessionCredentials });
    await stranger.startup();
    await stranger.send({ topic: 'plain', body: Buffer.from('forged') });
  });
  ok('keys');

  const consumers = [ordered, retrying, simple, tagged, dear, several, urgent, dead, paid, spaced];
  for (const client of [...consumers, inside, producer, transactional]) await client.shutdown();
  ok('shutdown');
}

main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
