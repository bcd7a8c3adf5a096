'use strict';

const assert = require('node:assert');
const { mkdtempSync, readFileSync, readdirSync, rmSync } = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { afterEach, beforeEach, test } = require('node:test');
const { BrokerError, start, useMocketmq } = require('..');

// The scenarios of all kits; docs/kits.md describes the steps.
const file = path.join(__dirname, '../../../tests/kits/scenarios.json');
const { scenarios } = JSON.parse(readFileSync(file, 'utf8'));
const usual = useMocketmq({ beforeEach, afterEach });
let mq = usual;

const words = {
  reset: () => mq.reset(),
  saveSnapshot: step => mq.saveSnapshot(step.name),
  restoreSnapshot: step => mq.restoreSnapshot(step.name),
  async pack(step) {
    const place = mkdtempSync(path.join(os.tmpdir(), 'mocketmq-pack-'));
    try {
      const packed = path.join(place, 'failed.mocketmq');
      await mq.pack(packed, { test: step.test, failure: step.failure });
      assert.equal(readFileSync(packed).subarray(0, 2).toString(), 'PK');
      assert.deepEqual(readdirSync(place), ['failed.mocketmq']);
    } finally {
      rmSync(place, { recursive: true });
    }
  },
  advance: step => mq.advance(step.by_ms),
  now: async (step, state) => assert.equal(await mq.now() - state.began, step.since_reset_ms),
  send: async step => assert.match(await mq.send(step.topic, step.body, camel(step.options)), /^[0-9A-F]+$/),
  async sent(step) {
    const found = await mq.sent(step.topic);
    assert.equal(found.length, step.count);
    for (const [name, value] of Object.entries(camel(step.first))) assert.deepEqual(found[0][name], value);
  },
  await: step => mq.await(step.topic, step.stage, wanted(step)),
  expect: step => mq.expect(step.topic, step.stage, wanted(step)),
  expectNothingElse: () => mq.expectNothingElse(),
  'faults.add': step => mq.faults.add(camel(step.rule)),
  'faults.remove': step => mq.faults.remove(step.name),
  'faults.clear': () => mq.faults.clear(),
  'faults.list': async step => assert.equal((await mq.faults.list()).length, step.count),
  async brokers(step) {
    const found = await mq.brokers();
    assert.equal(found.length, step.count);
    for (const [name, value] of Object.entries(camel(step.first))) assert.deepEqual(found[0][name], value);
  },
  async crashBroker({ name, loses, lost }) {
    const found = await mq.crashBroker(name, { loses });
    assert.equal(found, lost ?? found);
  },
  shutDownBroker: step => mq.shutDownBroker(step.name),
  promoteSlave: step => mq.promoteSlave(step.name),
  startBroker: step => mq.startBroker(step.name),
  wipeBroker: step => mq.wipeBroker(step.name),
  cutOffBroker: step => mq.cutOffBroker(step.name, step.side),
  reconnectBroker: step => mq.reconnectBroker(step.name),
  setBrokerReadOnly: step => mq.setBrokerReadOnly(step.name, step.read_only),
  async story(step) {
    let rest = await mq.story();
    for (const text of step.has) {
      assert.ok(rest.includes(text), `${text} is not in:\n${rest}`);
      rest = rest.slice(rest.indexOf(text) + text.length);
    }
  },
  async call(step, state) {
    const body = JSON.parse(JSON.stringify(step.body ?? null), (_, value) => state.saved[value] ?? value);
    const answer = await mq.call(step.method, step.path, body ?? undefined);
    for (const [name, value] of Object.entries(step.answer ?? {})) assert.deepEqual(answer[name], value);
    for (const [name, parts] of Object.entries(step.save ?? {})) {
      state.saved[`$${name}`] = parts.reduce((value, part) => value[part], answer);
    }
  },
  async addresses(step) {
    const nameServers = mq.nameServer.split(';');
    assert.equal(new Set(nameServers).size, step.count);
    for (const address of [...nameServers, mq.endpoints, new URL(mq.url).host]) {
      const [host, port] = address.split(':');
      await new Promise((resolve, reject) => {
        const socket = net.connect(Number(port), host, () => resolve(socket.destroy())).once('error', reject);
      });
    }
  },
};

for (const scenario of scenarios) {
  test(scenario.name, async () => {
    const { brokers, name_servers: nameServers } = scenario;
    mq = brokers ? await start({ brokers, args: ['--name-servers', `${nameServers ?? 1}`] }) : usual;
    const state = { began: await mq.now(), saved: {} };
    for (const step of scenario.steps) {
      const done = (async () => words[step.do](step, state))();
      if (!step.fails) {
        await done;
        continue;
      }
      const kind = { assertion: assert.AssertionError, broker: BrokerError }[step.fails.by];
      await assert.rejects(done, error => error instanceof kind && error.message.includes(step.fails.with));
    }
  });
}

function wanted(step) {
  return { ...camel(step.like), count: step.count, group: step.group, within: step.within_ms, advance: step.advance_ms };
}

function camel(fields = {}) {
  const renamed = name => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [renamed(name), value]));
}
