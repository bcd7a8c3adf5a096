'use strict';

const childProcess = require('node:child_process');
const { request, BrokerError } = require('./request.js');
const { findProgram } = require('./find.js');

const START_MS = 60_000;
const STOP_MS = 10_000;
const LAST_LINES = 20;
const START_LINE = /^mocketmq \S+ is ready.*?(https?:\/\/\S+:\d+)/m;

// Jest loads this module anew for each test file, but not those of Node: the brokers of this process, by options.
const brokers = (childProcess[Symbol.for('mocketmq.brokers')] ??= new Map());

/** The broker of this process with these options, found or started once. */
async function open(options) {
  const key = JSON.stringify([process.env.MOCKETMQ_URL, options]);
  const known = brokers.get(key);
  if (known && (await known).death() === undefined) return known;
  const opened = process.env.MOCKETMQ_URL ? connect(process.env.MOCKETMQ_URL, options) : start(options);
  brokers.set(key, opened);
  opened.catch(() => brokers.delete(key));
  return opened;
}

/** Stops all brokers that this process started. */
async function stop() {
  const opened = [...brokers.values()];
  brokers.clear();
  await Promise.allSettled(opened.map(async each => (await each).stop()));
}

async function connect(url, options) {
  const token = process.env.MOCKETMQ_TOKEN;
  const there = { url: url.replace(/\/+$/, ''), token, death: () => undefined, stop: async () => {} };
  const info = await request(there, 'GET', '/v1/info').catch(error => {
    throw new Error(`MOCKETMQ_URL is '${url}': ${error.message}`);
  });
  const has = { ...info, brokers: Object.keys(info.doors.brokers ?? { 'broker-a': {} }).length };
  for (const name of ['clock', 'profile', 'levels', 'brokers']) {
    const wanted = options[name] ?? (name === 'clock' ? 'manual' : has[name]);
    if (wanted !== has[name]) {
      throw new Error(`the tests need a broker with ${name} ${wanted}; the one at ${url} has ${has[name]}`);
    }
  }
  return { ...there, ...addresses(there.url, info) };
}

async function start(options) {
  const program = findProgram();
  const args = ['serve', '--until-eof', '--port', '0', '--data', ':memory:'];
  // Closing push consumers of RocketMQ 5 wait for their long polls, which would slow tests down.
  args.push('--max-long-poll', '1s', '--clock', options.clock ?? 'manual');
  if (options.profile) args.push('--profile', options.profile);
  if (options.levels) args.push('--levels', options.levels);
  if (options.brokers) args.push('--brokers', String(options.brokers));
  args.push(...(options.args ?? []));
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('MOCKETMQ_')));

  // The broker stops when its input ends: a pipe that closes with this process, even if it is killed.
  const child = childProcess.spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe'], windowsHide: true });
  let output = '';
  let end;
  const ended = new Promise(resolve => {
    child.once('error', error => resolve(`it cannot be run: ${error.message}`));
    child.once('close', (code, signal) => resolve(signal ? `it ended by ${signal}` : `it ended with exit code ${code}`));
  }).then(how => { end = how; });
  child.stdin.on('error', () => {}); // it has ended already
  const url = await new Promise((resolve, reject) => {
    const failed = why => reject(new Error(`the broker did not start: ${why}\n${[program, ...args].join(' ')}\n${output}`));
    const patience = setTimeout(() => {
      failed(`it was not ready in ${START_MS / 1000} s`);
      child.kill('SIGKILL');
    }, START_MS);
    const read = text => {
      output = (output + text).split('\n').slice(-LAST_LINES - 1).join('\n');
      const ready = START_LINE.exec(output);
      if (ready) {
        clearTimeout(patience);
        resolve(ready[1]);
      }
    };
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', read);
    ended.then(() => {
      clearTimeout(patience);
      failed(end);
    });
  });
  // The broker must not keep an idle test process running.
  for (const handle of [child, child.stdin, child.stdout, child.stderr]) handle.unref();

  const death = () => end && `the broker died: ${end}; its last lines:\n${output}`;
  const close = async () => {
    child.ref();
    child.stdin.end();
    const patience = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await ended;
    clearTimeout(patience);
  };
  try {
    const info = await request({ url, death }, 'GET', '/v1/info');
    return { ...addresses(url, info), url, pid: child.pid, death, stop: close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The ports that the broker names, at the host that reached it. */
function addresses(url, info) {
  const { hostname } = new URL(url);
  const at = ({ port }) => `${hostname}:${port}`;
  const { namesrv, name_servers: nameServers = namesrv && [namesrv], grpc } = info.doors;
  return { nameServer: nameServers?.map(at).join(';'), endpoints: grpc && at(grpc) };
}

module.exports = { BrokerError, open, stop };
