// Sends priorities with rocketmq-client-nodejs and receives them twice; prints their order.
const { once } = require('node:events');
const { Producer, SimpleConsumer } = require('rocketmq-client-nodejs');

const [endpoints, topic, other, consumerGroup, lowest] = process.argv.slice(2);
const options = { endpoints, namespace: '', requestTimeout: 30_000 };
const HIGHEST = 9;
const INVISIBLE_MS = 10_000;

async function main() {
  const producer = new Producer(options); // given topics, it may miss the settings that it waits for
  await producer.startup();
  const send = (to, priority) => producer.send({ topic: to, priority, body: Buffer.from(`${priority}`) });
  for (let priority = Number(lowest); priority <= HIGHEST; priority++) await send(topic, priority);
  await send(other, 1).then( // 6 is PRIORITY
    () => console.log('accepted'), error => console.log('refused', /actualMessageType=6/.test(error.message)));
  const consumer = new SimpleConsumer({
    ...options, consumerGroup, subscriptions: new Map([[topic, '*']]), awaitDuration: 5_000,
  });
  await consumer.startup();
  const receive = async limit => {
    const found = await consumer.receive(limit, INVISIBLE_MS);
    for (const one of found) console.log(one.priority, one.deliveryAttempt);
    return found;
  };
  for (const taken of (await receive(4)).slice(0, 2)) await consumer.ack(taken);
  console.log('end');
  await once(process.stdin, 'data');
  for (let left = HIGHEST + 1 - Number(lowest) - 2; left > 0;) {
    for (const taken of await receive(32)) {
      await consumer.ack(taken);
      left--;
    }
  }
  console.log('end');
}

main().then(() => process.exit(0), error => { // to close the consumer would take as long as its long poll
  console.error(error);
  process.exit(1);
});
