// A push consumer that prints what it receives, and closes at the first byte of its input.
const { ConsumeResult, FilterExpression, PushConsumer } = require('rocketmq-client-nodejs');

async function main() {
  const consumer = new PushConsumer({
    endpoints: process.argv[2],
    namespace: '',
    requestTimeout: 30_000,
    consumerGroup: 'g-closing',
    subscriptions: new Map([['orders', new FilterExpression('*')]]),
    messageListener: {
      async consume() {
        console.log('received');
        return ConsumeResult.SUCCESS;
      },
    },
  });
  await consumer.startup();
  await new Promise(resolve => process.stdin.once('data', resolve));
  const began = performance.now();
  await consumer.shutdown();
  console.log(Math.round(performance.now() - began));
}

main().then(() => process.exit(0), error => {
  console.error(error);
  process.exit(1);
});
