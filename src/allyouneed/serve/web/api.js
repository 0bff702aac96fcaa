// The server's API: requests, streams, and the token.

import { Refused } from "./asking.js";
import { kept } from "./kept.js";

const SECONDS_BETWEEN_TRIES = 2;

/** The token for the requests of this tab. */
export const token = kept(() => sessionStorage, "allyouneed-token");

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
