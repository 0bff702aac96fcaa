// Requests as the page makes them, whoever answers: refusals, waiting, and only the latest of several.

/** A request that the server refused, or could not be sent (`status` 0). */
export class Refused extends Error {
  constructor(status, message, seconds = 0) {
    super(message);
    this.status = status;
    this.seconds = seconds; // after which to try again; 0: not
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
