// The server's API: requests, streams, refusals, and the token.

import { kept } from "./kept.js";

const SECONDS_BETWEEN_TRIES = 2;

/** The token for the requests of this tab. */
export const token = kept(() => sessionStorage, "allyouneed-token");

/** A request that the server refused, or could not be sent (`status` 0). */
export class Refused extends Error {
  constructor(status, message, seconds = 0) {
    super(message);
    this.status = status;
    this.seconds = seconds; // after which to try again; 0: not
  }
}

function headers(content) {
  const given = token.get();
  const canBeSent = given && /^[\x21-\x7e][\x20-\x7e]*$/.test(given); // another is wrong, and no header may have it
  return {
    ...(content === undefined ? {} : { "Content-Type": "application/json" }),
    ...(canBeSent ? { Authorization: `Bearer ${given}` } : {}),
  };
}

async function send(path, content, signal) {
  const isForm = content instanceof FormData; // whose type the browser tells
  let response;
  try {
    const method = content === undefined ? "GET" : "POST";
    const body = isForm ? content : JSON.stringify(content);
    response = await fetch(path, { method, headers: headers(isForm ? undefined : content), body, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "No connection to the server.", SECONDS_BETWEEN_TRIES);
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  const isBusy = response.status === 429 || response.status === 503;
  const seconds = isBusy ? Number(response.headers.get("Retry-After")) || SECONDS_BETWEEN_TRIES : 0;
  throw new Refused(response.status, error?.message ?? error ?? `The server answered with status ${response.status}.`, seconds);
}

/** The JSON that the server answers to an object or a form. */
export const ask = async (path, content, signal) => (await send(path, content, signal)).json();

/**
 * Translate a text; return the result.
 * @param {object} content
 * @param {(text: string) => void} tell called with the growing text that can no longer change
 * @param {AbortSignal} signal
 */
export async function stream(content, tell, signal) {
  const response = await send("/api/stream", content, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let received = "";
  for (;;) {
    const { value, done } = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      return { done: true };
    });
    if (done) throw new Refused(0, "The connection to the server broke.", SECONDS_BETWEEN_TRIES);
    const events = (received + value).split("\n\n");
    received = events.pop();
    for (const event of events) {
      const [, name, data] = event.match(/^event: (\w+)\ndata: (.*)$/s);
      const told = JSON.parse(data);
      if (name === "done") return told;
      if (name === "error") throw new Refused(500, told.error.message);
      tell(told.text);
    }
  }
}

/** Do `work` again while the server is busy or away, after the time that it names; `wait(refused)` tells of it. */
export async function untilAnswered(work, wait, signal) {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Refused) || !error.seconds) throw error;
      wait(error);
      await new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, 1000 * error.seconds);
        signal.addEventListener("abort", () => {
          clearTimeout(timer);
          reject(new DOMException("left", "AbortError"));
        }, { once: true });
      });
    }
  }
}

/** A function that starts `work(signal)` after a pause in milliseconds, and gives up what it started before. */
export function latest(work) {
  let timer = 0, asking = new AbortController();
  return (pause) => {
    clearTimeout(timer);
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    timer = setTimeout(() => work(signal), pause);
  };
}
