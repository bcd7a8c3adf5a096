// The client of the JSON API: requests, readable errors, and the event stream.

import { t } from "./language.js";

const TOKEN = "mocketmq token";
let token = sessionStorage.getItem(TOKEN) ?? "";
let askForToken = async () => null;
let asking = null;

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem?.detail ?? t("frame.answered", { status: String(status) }));
    this.status = status;
    this.problem = problem;
    this.isEnglish = problem?.detail !== undefined; // in any language of the page
  }
}

export class AwayError extends Error {
  constructor() {
    super(t("frame.no-answer"));
  }
}

// Copied commands show the name of this variable, which the command line reads, instead of the token.
export const TOKEN_VARIABLE = "MOCKETMQ_TOKEN";
export const hasToken = () => token !== "";
export const curlToken = () => (hasToken() ? ` -H "Authorization: Bearer $${TOKEN_VARIABLE}"` : "");

// `ask(wasWrong)` resolves to the token that the user entered.
export function onTokenNeeded(ask) {
  askForToken = ask;
}

async function renewToken(used) {
  if (used !== token) return;
  asking ??= askForToken(used !== "").then((given) => {
    token = given ?? "";
    sessionStorage.setItem(TOKEN, token);
    asking = null;
  });
  await asking;
}

async function open(method, path, body, more = {}) {
  for (;;) {
    const used = token;
    const headers = { ...more.headers };
    if (used) headers.Authorization = `Bearer ${used}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, { method, headers, signal: more.signal, cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new AwayError();
    }
    if (response.status !== 401) return response;
    await renewToken(used);
  }
}

async function call(method, path, body) {
  const response = await open(method, path, body);
  const text = await response.text().catch(() => { throw new AwayError(); });
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch { /* no JSON: the status says enough */ }
  if (!response.ok) throw new ApiError(response.status, answer);
  return answer;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body = {}) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);

// A path with its names encoded: path`/v1/topics/${topic}`.
export const path = (texts, ...names) => texts.map((text, index) => text + (index < names.length ? encodeURIComponent(names[index]) : "")).join("");

export function query(fields) {
  const given = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

// Calls `on(kind, data)` for each event until the stream ends or is aborted; resolves to the last id.
export async function stream(last, signal, on) {
  const response = await open("GET", "/v1/stream", undefined, { signal, headers: last === null ? {} : { "Last-Event-ID": last } });
  if (!response.ok) throw new ApiError(response.status, null);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const fields = Object.fromEntries(buffer.slice(0, end).split("\n").map((line) => {
        const colon = line.indexOf(": ");
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      buffer = buffer.slice(end + 2);
      on(fields.event, JSON.parse(fields.data), fields.id);
    }
  }
}
