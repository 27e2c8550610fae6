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
 * Ask, and return what was answered.
 *
 * A service that wants a key gets one from its user, once; the question is then asked again.
 */
export async function ask(asked, { signal } = {}) {
  const shown = keyInUse();
  const response = await send(asked, signal);
  if (response.status !== 401) return read(response);
  const problem = await problemOf(response);
  // A key may have been entered for another question while this one was under way.
  if (keyInUse() !== shown || (await askForKey(problem))) return read(await send(asked, signal));
  throw problem;
}

async function send({ method, url, body }, signal) {
  const headers = {};
  const file = body instanceof Blob;
  if (body !== null) headers["Content-Type"] = file ? "application/octet-stream" : "application/json";
  if (keyInUse()) headers.Authorization = `Bearer ${keyInUse()}`;
  try {
    const ends = AbortSignal.any([AbortSignal.timeout(LONGEST_MS), ...(signal ? [signal] : [])]);
    return await fetch(url, { method, headers, body: file ? body : body && JSON.stringify(body), signal: ends });
  } catch (error) {
    if (signal?.aborted || error.name === "AbortError") throw new DOMException("Given up", "AbortError");
    if (error.name === "TimeoutError") throw new Problem({ title: "No answer", detail: `The service did not answer within ${LONGEST_MS / 60_000} minutes.` });
    throw new Problem({ title: "No answer", detail: "The service cannot be reached." });
  }
}

async function read(response) {
  if (!response.ok) throw await problemOf(response);
  return response.json();
}

async function problemOf(response) {
  try {
    return new Problem(await response.clone().json());
  } catch {
    const detail = `The service answered with ${response.status} ${response.statusText}.`;
    return new Problem({ status: response.status, title: response.statusText, detail });
  }
}
