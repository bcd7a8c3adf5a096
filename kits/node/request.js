'use strict';

const http = require('node:http');
const https = require('node:https');

/** The broker refused a request. */
class BrokerError extends Error {
  constructor(status, problem) {
    super(`the broker refused the request: ${problem.detail ?? `${problem.title ?? 'error'} (HTTP status ${status})`}`);
    this.name = 'BrokerError';
    this.status = status;
    this.title = problem.title;
    this.field = problem.field;
    this.allowed = problem.allowed;
  }
}

/** A request of the JSON API, and its answer. */
async function request(broker, method, path, body) {
  const content = await requestBytes(broker, method, path, body);
  const answer = parsed(content);
  if (answer === undefined) {
    throw new Error(`${broker.url} does not look like a mocketmq broker: it answered ${content.toString().slice(0, 80)}`);
  }
  return answer;
}

/** A request, and the bytes of its answer. `fetch` is missing in some environments of Jest. */
async function requestBytes(broker, method, path, body) {
  const url = new URL(broker.url + path);
  const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const headers = { connection: 'close' };
  if (content) Object.assign(headers, { 'content-type': 'application/json', 'content-length': content.length });
  if (broker.token) headers.authorization = `Bearer ${broker.token}`;
  let status, answer;
  try {
    [status, answer] = await exchange(url, { method, headers, agent: false }, content);
  } catch (error) {
    throw new Error(broker.death() ?? `no broker answers at ${broker.url}: ${error.message || error.code}`);
  }
  if (status >= 400) throw new BrokerError(status, parsed(answer) ?? {});
  return answer;
}

function exchange(url, options, content) {
  return new Promise((resolve, reject) => {
    const sent = (url.protocol === 'https:' ? https : http).request(url, options, response => {
      const parts = [];
      response.on('data', part => parts.push(part));
      response.once('end', () => resolve([response.statusCode, Buffer.concat(parts)]));
      response.once('error', reject);
    });
    sent.once('error', reject);
    sent.end(content);
  });
}

function parsed(content) {
  try {
    return JSON.parse(content.toString());
  } catch {
    return undefined;
  }
}

module.exports = { BrokerError, request, requestBytes };
