const { start } = require('mocketmq');

test('tells its url', async () => {
  console.log(`the broker is at ${(await start()).url}`);
}, 90_000);
