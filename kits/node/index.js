'use strict';

const assert = require('node:assert');
const { rename, writeFile } = require('node:fs/promises');
const { BrokerError, open, stop } = require('./broker.js');
const { request, requestBytes } = require('./request.js');

const WITHIN_MS = 5_000;
const HOOK_MS = 90_000;
const STORY_LINES = 40;
const MANY = 1_000;
const LONGEST_TEST = 1_000;
const LONGEST_FAILURE = 200_000;

/** A broker for tests. Made by `start` and `useMocketmq`; index.d.ts describes the methods. */
class Mocketmq {
  #options;
  #broker;

  constructor(options = {}) {
    this.#options = options;
    this.faults = {
      add: async rule => camel(await this.call('POST', '/v1/faults', snake(rule))),
      remove: async name => { await this.call('DELETE', path('faults', name)); },
      clear: async () => { await this.call('DELETE', '/v1/faults'); },
      list: async () => (await this.call('GET', '/v1/faults')).faults.map(camel),
    };
  }

  get nameServer() { return this.#running().nameServer; }

  get endpoints() { return this.#running().endpoints; }

  get url() { return this.#running().url; }

  async start() {
    const { snapshot, ...chosen } = this.#options;
    this.#broker = await open(chosen);
    await (snapshot ? this.restoreSnapshot(snapshot) : this.reset());
    return this;
  }

  async reset() {
    await this.call('POST', '/v1/reset', { clock: 'start', forget: this.#options.forget ?? false });
  }

  async saveSnapshot(name) {
    await this.call('POST', '/v1/snapshots', { name, replace: true });
  }

  async restoreSnapshot(name) {
    await this.call('POST', `${path('snapshots', name)}/restore`);
  }

  async pack(file, { test = '', failure = '' } = {}) {
    const told = { test: [...test].slice(0, LONGEST_TEST).join(''), failure: [...failure].slice(-LONGEST_FAILURE).join('') };
    const content = await requestBytes(this.#running(), 'POST', '/v1/pack', told);
    const temporary = `${file}.${process.pid}.tmp`; // a file is whole or absent, even after a kill
    await writeFile(temporary, content);
    await rename(temporary, file);
  }

  async advance(by) {
    await this.call('POST', '/v1/clock/advance', { by: duration(by) });
  }

  async now() {
    return new Date((await this.call('GET', '/v1/clock')).now_ms);
  }

  async send(topic, body, options = {}) {
    const message = { ...snake(options), ...bodyFields(body) };
    return (await this.call('POST', path('topics', topic, 'messages'), message)).message_id;
  }

  async sent(topic, like = {}) {
    return messages(await this.call('POST', path('topics', topic, 'sent'), conditions(like)));
  }

  async await(topic, stage, { count = 1, ...like } = {}) {
    return this.#wait(topic, stage, count, like, {});
  }

  async expect(topic, stage, { count, ...like } = {}) {
    return this.#wait(topic, stage, count ?? 1, like, { expected: true, exactly: count !== undefined });
  }

  async expectNothingElse() {
    const left = await this.call('GET', '/v1/unexpected');
    if (left.count) assert.fail(left.explanation);
  }

  async brokers() {
    return (await this.call('GET', '/v1/brokers')).brokers.map(camel);
  }

  async crashBroker(name, { loses } = {}) {
    return (await this.call('POST', path('brokers', name, 'crash'), { loses })).lost;
  }

  async shutDownBroker(name) { await this.#change(name, 'shutdown'); }

  async promoteSlave(name) { await this.#change(name, 'promote'); }

  async startBroker(name) { await this.#change(name, 'start'); }

  async wipeBroker(name) { await this.#change(name, 'wipe'); }

  async cutOffBroker(name, side) { await this.#change(name, `cut-off-from-${side}`); }

  async reconnectBroker(name) { await this.#change(name, 'reconnect'); }

  async setBrokerReadOnly(name, readOnly = true) { await this.#change(name, readOnly ? 'read-only' : 'writable'); }

  async story() {
    try {
      const { events } = await this.call('GET', `/v1/events?max=${STORY_LINES}`);
      const lines = events.map(({ at_ms, text }) => `${new Date(at_ms).toISOString().replace('T', ' ').slice(0, -1)} ${text}`);
      return lines.join('\n') || 'the broker recorded no events';
    } catch (error) {
      return error.message;
    }
  }

  async call(method, path, body) {
    return request(this.#running(), method, path, body);
  }

  async #change(name, action) {
    await this.call('POST', path('brokers', name, action));
  }

  async #wait(topic, stage, count, { within = WITHIN_MS, advance, group, ...like }, how) {
    const wanted = { ...conditions(like), ...how, [stage]: count, group, timeout_ms: within, max: MANY };
    if (advance !== undefined) wanted.advance = duration(advance);
    const found = await this.call('POST', path('topics', topic, 'wait'), wanted);
    if (!found.reached) assert.fail(found.explanation);
    return messages(found);
  }

  #running() {
    if (!this.#broker) throw new Error('mocketmq is not started: before the first test, await its start()');
    return this.#broker;
  }
}

/** The broker of this process, empty, started if there is none yet. */
async function start(options) {
  return new Mocketmq(options).start();
}

/** A broker that is reset before each test, and adds its story to failed tests. */
function useMocketmq({ beforeEach, afterEach }, options) {
  const broker = new Mocketmq(options);
  // The first includes the start of the broker, which may exceed Jest's time limit.
  beforeEach(async () => { await broker.start(); }, HOOK_MS);
  // Jest treats a parameter as a callback, and Vitest requires it to be destructured.
  afterEach(async function () {
    await tell(broker, arguments[0]);
  });
  return broker;
}

async function tell(broker, context) {
  if (!hasFailed(context)) return;
  const story = `mocketmq: what the broker saw\n${await broker.story()}`;
  if (context?.diagnostic) story.split('\n').forEach(line => context.diagnostic(line)); // of node:test
  else console.error(story);
}

function hasFailed(context) {
  if (context?.task) return context.task.result?.state === 'fail'; // Vitest
  if (context) return context.passed === false; // node:test
  // Jest passes nothing to hooks; its state is under a symbol of its own.
  const symbol = Object.getOwnPropertySymbols(globalThis).find(each => each.description === 'JEST_STATE_SYMBOL');
  return Boolean(symbol && globalThis[symbol].currentlyRunningTest?.errors.length);
}

function path(...segments) {
  return `/v1/${segments.map(encodeURIComponent).join('/')}`;
}

function bodyFields(body) {
  return typeof body === 'string' ? { body } : { body_base64: Buffer.from(body).toString('base64') };
}

const duration = by => (typeof by === 'number' ? `${by}ms` : by);

function conditions({ body, ...like }) {
  if (body instanceof Uint8Array) return { ...snake(like), ...bodyFields(body) };
  return { ...snake(like), body };
}

function messages(answer) {
  return answer.messages.map(one => {
    const bytes = one.body_base64 === null ? Buffer.from(one.body) : Buffer.from(one.body_base64, 'base64');
    const { body_base64: _, ...message } = one;
    return { ...camel(message), bytes };
  });
}

/** The names of the JSON API. */
function snake(fields) {
  const renamed = name => name.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [renamed(name), value]));
}

function camel(fields) {
  const renamed = name => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [renamed(name), value]));
}

module.exports = { BrokerError, start, stop, useMocketmq };
