// Drives Aliyun's client for Node: a JSON command per line of stdin, its JSON answer per line of stdout.
'use strict';

const readline = require('node:readline');
const { MQClient, MessageProperties } = require('@aliyunmq/mq-http-sdk');

const [endpoint, keyId, secret, token, instance] = process.argv.slice(2);
const client = new MQClient(endpoint, keyId, secret, token);

function propertiesOf(message) {
  const properties = new MessageProperties();
  properties.messageKey(message.key);
  properties.startDeliverTime(message.start_deliver_ms);
  properties.shardingKey(message.sharding_key);
  properties.transCheckImmunityTime(message.check_after_s);
  Object.entries(message.properties).forEach(([name, value]) => properties.putProperty(name, value));
  return properties;
}

function halves({ topic, group }) {
  return client.getTransProducer(instance, topic, group);
}

const calls = {
  publish({ topic, message }) {
    return client.getProducer(instance, topic).publishMessage(message.body, message.tag, propertiesOf(message));
  },
  consume({ topic, group, tags, limit, wait_s: wait, orderly }) {
    const consumer = client.getConsumer(instance, topic, group, tags);
    return orderly ? consumer.consumeMessageOrderly(limit, wait) : consumer.consumeMessage(limit, wait);
  },
  acknowledge({ topic, group, handles }) {
    return client.getConsumer(instance, topic, group).ackMessage(handles);
  },
  publishHalf(command) {
    const { message } = command;
    return halves(command).publishMessage(message.body, message.tag, propertiesOf(message));
  },
  consumeHalf(command) {
    return halves(command).consumeHalfMessage(16);
  },
  commit(command) {
    return halves(command).commit(command.handle);
  },
  rollback(command) {
    return halves(command).rollback(command.handle);
  },
};

async function answer(command) {
  try {
    return { response: await calls[command.call](command) };
  } catch (error) {
    return { error: { name: error.name, message: error.message, ...error } };
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
  }
  process.exit(0); // the client keeps its connections open
}

main();
