const { useMocketmq } = require('mocketmq');

const mq = useMocketmq({ beforeEach, afterEach });

test('an unpaid order is cancelled', async () => {
  await mq.send('orders', 'order 7', { delayLevel: 16 });
  await mq.advance('30m');
  await mq.expect('orders', 'delivered', { count: 1, body: 'order 7' });
});

test('fails on purpose', async () => {
  await mq.send('orders', 'order 8');
  await mq.expect('orders', 'dead', { within: 1 });
});

test('tells its url', () => {
  console.log(`the broker is at ${mq.url}`);
});
