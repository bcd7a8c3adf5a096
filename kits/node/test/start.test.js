'use strict';

const assert = require('node:assert');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { afterEach, test } = require('node:test');
const { setImmediate } = require('node:timers/promises');
const { BrokerError, start, stop } = require('..');
const { open } = require('../broker.js');
const { findProgram } = require('../find.js');

const usual = { ...process.env };
afterEach(() => { Object.assign(process.env, { MOCKETMQ_URL: '', MOCKETMQ_BUNDLE: '', XDG_CACHE_HOME: '' }, usual); });

test('all tests have the same broker, emptied', async () => {
  const first = await start();
  await first.send('orders', 'order 7');
  await first.advance('1h');
  const next = await start();
  assert.equal(next.url, first.url);
  assert.deepEqual(await next.sent('orders'), []);
  await next.expectNothingElse();
});

test('a test begins with its snapshot', async () => {
  const first = await start();
  await first.send('orders', 'order 7');
  await first.saveSnapshot('one-order');
  const next = await start({ snapshot: 'one-order' });
  assert.equal(next.url, first.url);
  assert.equal((await next.sent('orders')).length, 1);
});

test('options choose another broker', async () => {
  const other = await start({ clock: 'x100', levels: '1s 2s', args: ['--topic-queues', '7'] });
  assert.notEqual(other.url, (await start()).url);
  const info = await other.call('GET', '/v1/info');
  assert.deepEqual([info.clock, info.levels], ['x100', '1s 2s']);
});

test('a body may be bytes, and a message delayed to an instant', async () => {
  const mq = await start();
  const bytes = Buffer.from([0xff, 0]);
  await mq.send('orders', bytes, { startDeliverMs: Date.now() + 3_600_000 });
  const [message] = await mq.expect('orders', 'sent', { count: 1, body: bytes, delayed: true });
  assert.deepEqual([message.body, message.bytes, message.deliveredMs], [null, bytes, null]);
  await mq.expect('orders', 'sent', { count: 0, delayed: false });
});

test('a refusal is a BrokerError', async () => {
  await assert.rejects((await start()).call('POST', '/v1/clock/advance', { by: 'soon' }), error => {
    assert.ok(error instanceof BrokerError);
    assert.deepEqual([error.status, error.field], [400, 'by']);
    return true;
  });
});

test('a broker that died is replaced', async () => {
  const mq = await start();
  const running = await open({});
  process.kill(running.pid, 'SIGKILL');
  while (!running.death()) await setImmediate();
  await assert.rejects(mq.reset(), /the broker died: it ended by SIGKILL; its last lines:\nmocketmq .* is ready/);
  await (await start()).send('orders', 'order 7');
});

test('stop ends the brokers', async () => {
  const mq = await start();
  await stop();
  await assert.rejects(mq.reset(), /the broker died: it ended with exit code 0/);
});

test('a wrong setting is explained', async () => {
  await assert.rejects(start({ profile: 'fast' }), /the broker did not start: it ended with exit code 2[^]*--profile/);
});

test('a broker at an address is used, if it is what the tests need', async () => {
  const { url } = await start();
  process.env.MOCKETMQ_URL = url;
  assert.equal((await start()).url, url);
  await assert.rejects(start({ clock: 'real' }), /the tests need a broker with clock real; the one at .* has manual/);
  process.env.MOCKETMQ_URL = 'http://127.0.0.1:9';
  await assert.rejects(start(), /MOCKETMQ_URL is 'http:\/\/127.0.0.1:9': no broker answers/);
});

test('without a program the error says what to do', () => {
  process.env.PATH = '';
  assert.throws(findProgram, /put mocketmq on the PATH, set MOCKETMQ_BUNDLE to .*, or set MOCKETMQ_URL/);
});

test('a bundle is a folder or an archive', () => {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), 'mocketmq-'));
  process.env.XDG_CACHE_HOME = path.join(home, 'cache');
  const bundle = path.join(home, 'mocketmq-0.1.0-linux-x86_64');
  const program = path.join(bundle, 'mocketmq');
  fs.mkdirSync(bundle);
  fs.writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 });
  process.env.MOCKETMQ_BUNDLE = bundle;
  assert.equal(findProgram(), program);

  const archive = path.join(home, 'bundle.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', home, path.basename(bundle)]);
  process.env.MOCKETMQ_BUNDLE = archive;
  const unpacked = findProgram();
  assert.match(unpacked, /cache\/mocketmq\/bundle-/);
  assert.equal(findProgram(), unpacked);

  fs.writeFileSync(`${archive}.sha256`, 'abc  bundle.tar.gz\n');
  assert.throws(findProgram, /whose SHA-256 sum is .*, not that of/);
  process.env.MOCKETMQ_BUNDLE = path.join(home, 'cache');
  assert.throws(findProgram, /which has no program mocketmq/);
  process.env.MOCKETMQ_BUNDLE = path.join(home, 'none');
  assert.throws(findProgram, /which does not exist/);
  fs.rmSync(home, { recursive: true });
});
