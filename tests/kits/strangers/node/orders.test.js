const { afterEach, beforeEach, test } = require('node:test');
const { useMocketmq } = require('mocketmq');

const mq = useMocketmq({ beforeEach, afterEach });

test('an unpaid order is cancelled after half an hour', async () => {
  await mq.send('orders', 'order 7', { delayLevel: 16 });
  await mq.advance('29m');
  await mq.expect('orders', 'delivered', { count: 0 });
  await mq.advance('1m');
  await mq.expect('orders', 'delivered', { count: 1 });
});
