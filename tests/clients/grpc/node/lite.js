// Sends to lite topics and consumes them with rocketmq-client-nodejs, as the lines of stdin say.
const readline = require('node:readline');
const { ConsumeResult, LitePushConsumerBuilder, LiteSubscriptionQuotaExceededException, Producer } =
  require('rocketmq-client-nodejs');

const [endpoints, topic, group] = process.argv.slice(2);
const options = { endpoints, namespace: '', requestTimeout: 30_000 };
const failed = new Set();

async function main() {
  const producer = new Producer(options);
  await producer.startup();
  const consumer = await new LitePushConsumerBuilder().setClientConfiguration(options).setConsumerGroup(group)
    .bindTopic(topic).setMessageListener({
      async consume(message) {
        const body = message.body.toString();
        console.log('got', message.liteTopic, body, message.deliveryAttempt);
        const fails = body === 'fails' && !failed.has(message.messageId);
        failed.add(message.messageId);
        return fails ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
      },
    }).build();
  console.log('ready');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, liteTopic, body] = line.split(' ');
    try {
      if (command === 'subscribe') await consumer.subscribeLite(liteTopic);
      else if (command === 'unsubscribe') await consumer.unsubscribeLite(liteTopic);
      else await producer.send({ topic, liteTopic, body: Buffer.from(body) });
      console.log('done');
    } catch (error) {
      const isOver = error instanceof LiteSubscriptionQuotaExceededException || /quota exceeded/.test(error.message);
      console.log(isOver ? 'over quota' : `refused ${error.message}`);
    }
  }
  await producer.shutdown();
}

main().then(() => process.exit(0), error => { // to close the consumer would take as long as its long poll
  console.error(error);
  process.exit(1);
});
