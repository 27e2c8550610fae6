// Ask the service; what goes wrong is a Problem.

import { askForKey, keyInUse } from "./key.js";

/** What the service says is wrong (RFC 9457), or that it could not be reached. */
export class Problem extends Error {
  constructor({ type = "", status = 0, title = "", detail = "", errors = [], did_you_mean = [] }) {
    super(detail || title);
    Object.assign(this, { type, status, title, detail, errors, did_you_mean });
  }
}

/** Longest that anything is waited for, milliseconds; the service itself gives up before. */
const LONGEST_MS = 180_000;

/** Return a question as it is sent: method, address and body. */
export function question(method, path, body = null) {
  return { method, url: new URL(path, document.baseURI).href, body };
}

/**
 * Return what makes the signal of a question, and gives up the one that was asked before it: what is
 * answered late must not stand over what was asked last.
 */
export function onlyTheLast() {
  let before = null;
  return (signal = null) => {
    before?.abort();
    before = new AbortController();
    return signal ? AbortSignal.any([signal, before.signal]) : before.signal;
  };
}

/**
 * Ask, and return what was answered.
 *
 * A service that wants a key gets one from its user, once; the question is then asked again.
 */
export async function ask(asked, { signal } = {}) {
  const shown = keyInUse();
  const answer = await send(asked, signal);
  if (answer.status !== 401) return contentOf(answer);
  // A key may have been entered for another question while this one was under way.
  if (keyInUse() !== shown || (await askForKey(problemOf(answer)))) return contentOf(await send(asked, signal));
  throw problemOf(answer);
}

async function send({ method, url, body }, signal) {
  const headers = {};
  const file = body instanceof Blob;
  if (body !== null) headers["Content-Type"] = file ? "application/octet-stream" : "application/json";
  if (keyInUse()) headers.Authorization = `Bearer ${keyInUse()}`;
  try {
    const ends = AbortSignal.any([AbortSignal.timeout(LONGEST_MS), ...(signal ? [signal] : [])]);
    const response = await fetch(url, { method, headers, body: file ? body : body && JSON.stringify(body), signal: ends });
    const { ok, status, statusText } = response;
    return { ok, status, statusText, content: parsed(await response.text()) };
  } catch (error) {
    if (signal?.aborted || error.name === "AbortError") throw new DOMException("Given up", "AbortError");
    if (error.name === "TimeoutError") throw new Problem({ title: "No answer", detail: `The service did not answer within ${LONGEST_MS / 60_000} minutes.` });
    throw new Problem({ title: "No answer", detail: "The service cannot be reached." });
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function contentOf(answer) {
  if (answer.ok && answer.content !== null) return answer.content;
  throw problemOf(answer);
}

function problemOf({ ok, status, statusText, content }) {
  if (content !== null && !ok) return new Problem(content);
  const detail = `The service answered with ${status} ${statusText}${ok ? ", and no JSON" : ""}.`;
  return new Problem({ status, title: statusText, detail });
}
