/**
 * A RocketMQ broker for tests: mocketmq, in a process of its own.
 *
 * The first `start` of a test process starts the broker, which ends with the process. The kit uses the broker at
 * MOCKETMQ_URL, else the program in the bundle (a folder or an archive) that MOCKETMQ_BUNDLE names, else `mocketmq`
 * on the PATH.
 */

/** Options of a broker. Calls with equal options share a broker. */
export interface Options {
  /** `manual` (the default), `real`, or `xN` for N times as fast. */
  clock?: 'manual' | 'real' | `x${number}`;
  profile?: 'exact' | 'rocketmq4';
  /** Delay levels, such as `1s 5s 10s`. */
  levels?: string;
  /** Number of brokers in the cluster; 1 by default. */
  brokers?: number;
  /** Further options of `mocketmq serve`. A broker at MOCKETMQ_URL ignores them. */
  args?: string[];
  /** Whether a reset removes topics and groups as well. */
  forget?: boolean;
  /** A snapshot that is restored instead of a reset. It was saved before, or is in the directory of `--snapshots`. */
  snapshot?: string;
}

/** The stage of a message. */
export type Stage = 'sent' | 'delivered' | 'acknowledged' | 'dead';

/** Options of a message to send. A message has at most one kind of delay. */
export interface SendOptions {
  tag?: string;
  keys?: string[];
  properties?: Record<string, string>;
  delayLevel?: number;
  /** Delay on the broker's clock, such as '90s' or '1h30m'. */
  delay?: string;
  /** Delay on the broker's clock, in milliseconds. */
  delayMs?: number;
  /** Due time: milliseconds since the epoch by the wall clock, even if the broker's clock was moved. */
  startDeliverMs?: number;
}

/** Conditions for messages; all given conditions must hold. */
export interface Like {
  tag?: string;
  /** One of the message's keys. */
  key?: string;
  messageId?: string;
  /** Some of the message's properties. */
  properties?: Record<string, string>;
  /** A text, bytes, or a value that the parsed JSON body equals. */
  body?: string | Uint8Array | number | boolean | object;
  /** Values by paths such as `$.order.lines[0].sku`. */
  jsonPath?: Record<string, unknown>;
  delayed?: boolean;
  delayLevel?: number;
}

/** Conditions, number of messages and time limit. */
export interface Wanted extends Like {
  /** Number of messages; by default, at least one. */
  count?: number;
  /** Real milliseconds to wait; 5,000 by default. */
  within?: number;
  /**
   * While waiting, moves the clock to each instant that the messages wait for, such as due times and retries, by at
   * most this much: a number of milliseconds, or a text such as `1d`.
   */
  advance?: number | string;
}

/** Adds the consumer group: required for `acknowledged`, optional for `dead`. */
export type WantedAt<S extends Stage> = S extends 'acknowledged'
  ? Wanted & { group: string }
  : S extends 'dead' ? Wanted & { group?: string } : Wanted;

/** The last argument, which is optional unless the stage requires a group. */
export type Arguments<S extends Stage> = S extends 'acknowledged' ? [wanted: WantedAt<S>] : [wanted?: WantedAt<S>];

/** A sent message with its outcome. */
export interface Message {
  messageId: string;
  topic: string;
  queueId: number;
  tag: string | null;
  keys: string[];
  properties: Record<string, string>;
  /** The body as text; null if it is not text. */
  body: string | null;
  bytes: Uint8Array;
  sentMs: number;
  delayLevel: number;
  /** Null if the message was not delayed. */
  dueMs: number | null;
  state: 'pending' | 'delivered' | 'cancelled' | 'lost';
  deliveredMs: number | null;
  groups: { group: string; state: string; times: number; until_ms: number | null }[];
  /** A summary in one line. */
  text: string;
}

/** A fault to inject (`do`), where and when; docs/faults.md of mocketmq describes the fields. */
export interface FaultRule {
  do:
    | 'refuse' | 'late' | 'never' | 'twice' | 'close' | 'read-only' | 'disk-full' | 'broker-away'
    | 'name-server-away' | 'deliver-late' | 'deliver-shuffled' | 'hold' | 'throttle' | 'deliver-again'
    | 'replicate-late';
  name?: string;
  door?: 'remoting' | 'grpc' | 'http' | 'aliyun';
  broker?: string;
  operation?: string;
  topic?: string;
  group?: string;
  client?: string;
  next?: number;
  every?: number;
  fromMs?: number;
  toMs?: number;
  lasts?: string;
  probability?: number;
  seed?: number;
  error?: string;
  by?: string | string[];
  backAfter?: string;
  stage?: 'before' | 'after';
  level?: number;
  times?: number;
  perSecond?: number;
}

/** A rule with its counts. */
export interface Fault extends FaultRule {
  name: string;
  state: 'waiting' | 'active' | 'spent' | 'over';
  matched: number;
  fired: number;
  held: number;
}

/** Injected faults. A reset removes them. */
export interface Faults {
  add(rule: FaultRule): Promise<Fault>;
  /** Remove a rule. Messages that it held are delivered. */
  remove(name: string): Promise<void>;
  clear(): Promise<void>;
  list(): Promise<Fault[]>;
}

/** The state of one broker of the cluster. */
export interface BrokerState {
  /** `broker-a`, `broker-b`, and so on. */
  name: string;
  state: 'running' | 'crashed' | 'shut-down';
  cutOffFrom: ('clients' | 'name-servers')[];
  readOnly: boolean;
  /** Whether the name server lists the broker. */
  inRoutes: boolean;
  /** When routes forget a broker that is silent, by the broker's clock. */
  inRoutesUntilMs: number | null;
  /** Delayed messages that are due and wait for the broker to start again. */
  held: number;
  /** The port of the master; null without remoting. */
  port: number | null;
  /** Null without a slave, like `slaveState`. */
  slavePort: number | null;
  slaveState: 'running' | 'down' | null;
  /** Whether a promotion has made the slave the master. */
  promoted: boolean;
}

/** A broker for tests. Refused requests reject with BrokerError, failed expectations with AssertionError. */
export interface Mocketmq {
  /** `host:port` for RocketMQ's remoting clients; semicolons separate several name servers. */
  readonly nameServer: string;
  /** `host:port` for RocketMQ 5's gRPC clients. */
  readonly endpoints: string;
  /** The URL of the JSON API and of Aliyun's HTTP protocol. */
  readonly url: string;
  readonly faults: Faults;
  /** Find or start the broker, and reset it. `start()` and the hooks of `useMocketmq` call it. */
  start(): Promise<Mocketmq>;
  /** Remove messages, offsets, faults and expectations, and set the clock back to its start. */
  reset(): Promise<void>;
  /** Save the broker's whole state under a name. Replaces an existing snapshot of this name. */
  saveSnapshot(name: string): Promise<void>;
  /** Go back to a snapshot. Clients stay connected. */
  restoreSnapshot(name: string): Promise<void>;
  /**
   * Write the broker's state and recent events into a file, which `mocketmq open` shows on any machine. `test` and
   * `failure` say what failed. An existing file is replaced.
   */
  pack(file: string, what?: { test?: string; failure?: string }): Promise<void>;
  /** Move the clock forward, by `30m` or by milliseconds. After that, everything that became due is delivered. */
  advance(by: string | number): Promise<void>;
  /** The broker's time. */
  now(): Promise<Date>;
  /** Send a message by the JSON API, and return its id. */
  send(topic: string, body: string | Uint8Array, options?: SendOptions): Promise<string>;
  /** The newest 100 messages that producers sent to a topic, oldest first, delayed ones too. */
  sent(topic: string, like?: Like): Promise<Message[]>;
  /** Wait until at least `count` messages reach the stage. */
  await<S extends Stage>(topic: string, stage: S, ...wanted: Arguments<S>): Promise<Message[]>;
  /** Assert that exactly `count` messages, or at least one, reach the stage. A count of 0 does not wait. */
  expect<S extends Stage>(topic: string, stage: S, ...wanted: Arguments<S>): Promise<Message[]>;
  /** Assert that `expect` has found every sent message. */
  expectNothingElse(): Promise<void>;
  /** The brokers of the cluster, `broker-a` first. */
  brokers(): Promise<BrokerState[]>;
  /**
   * End a broker's connections and close its ports. Routes name it for another 120 s of its clock. `loses` is a
   * duration such as `200ms` (the broker loses the messages of this time before the crash), `nothing`, or
   * `unreplicated`; by default, its setting `crash_loses` decides. Resolves to the number of lost messages.
   */
  crashBroker(name: string, how?: { loses?: string }): Promise<number>;
  /** Shut a broker down, which takes it out of all routes at once. */
  shutDownBroker(name: string): Promise<void>;
  /** Make the slave of a broker its master. The old master becomes the slave, at once or when it starts. */
  promoteSlave(name: string): Promise<void>;
  /** Start a broker again, which delivers what became due while it was down. */
  startBroker(name: string): Promise<void>;
  /** Delete all messages and offsets of a broker that is down, as if its disk were lost. */
  wipeBroker(name: string): Promise<void>;
  /** Cut a broker off from its clients, which then get no answers, or from the name servers. */
  cutOffBroker(name: string, side: 'clients' | 'name-servers'): Promise<void>;
  /** Reconnect a broker that is cut off. */
  reconnectBroker(name: string): Promise<void>;
  /** Make a broker read-only (true by default), or writable again. Routes say so at once. */
  setBrokerReadOnly(name: string, readOnly?: boolean): Promise<void>;
  /** The broker's events since the reset, one per line. */
  story(): Promise<string>;
  /** Send a request to the JSON API, for operations without a method here. */
  call<T = any>(method: string, path: string, body?: unknown): Promise<T>;
}

/** The broker refused a request. */
export class BrokerError extends Error {
  readonly status: number;
  readonly title?: string;
  readonly field?: string;
  readonly allowed?: string;
}

/** Return the broker of this process after a reset; the first call starts it. */
export function start(options?: Options): Promise<Mocketmq>;

/** Stop all brokers that this process started. They also stop at its end. */
export function stop(): Promise<void>;

/** The hooks of node:test, Vitest or Jest. */
export interface Hooks {
  beforeEach(hook: () => Promise<void>, timeoutMs?: any): unknown;
  afterEach(hook: () => Promise<void>): unknown;
}

/**
 * A broker that is started for the first test and reset before each. The report of a failed test shows its events.
 * Its addresses are known from the first `beforeEach` on, or after `await broker.start()`.
 */
export function useMocketmq(hooks: Hooks, options?: Options): Mocketmq;
