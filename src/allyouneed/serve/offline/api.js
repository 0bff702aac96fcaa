// The page's requests where there is no server: Bergamot's engine translates, in a worker of this browser.

import { Refused } from "./asking.js";

const NOTICE = "Translated on this device; no text leaves it.";
const DESCRIPTION = "model/model.json";

/** A page without a server needs no token. */
export const token = { get: () => null, set: () => {} };

let engine = null; // the promise of a function that translates

/** What the folder serves, or nothing else: only the page's first request has an answer here. */
export async function ask(path) {
  if (path !== "/api/models") throw new Refused(404, "This page has no server to ask for that.");
  const { source, target, characters } = await read(DESCRIPTION, "json");
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
  return {
    models: [{ name: "model", task: "translation" }],
    directions: [{ source, target, models: ["model"] }],
    languages: Object.fromEntries([source, target].map((code) => [code, names.of(code.replaceAll("_", "-"))])),
    limits: { characters },
    files: [],
    needs_token: false,
  };
}

/** Translate a text; return the result as the server would, without the links of its words. */
export async function stream({ text, source }, tell, signal) {
  engine ??= started();
  const translate = await engine.catch((error) => {
    engine = null;
    throw error;
  });
  if (signal.aborted) throw new DOMException("left", "AbortError");
  const translation = await translate(text);
  if (signal.aborted) throw new DOMException("left", "AbortError");
  const segments = [{ source: text, text: translation.trimEnd(), before: "" }];
  return { source, models: [], translations: [{ text: translation }], segments, notices: [NOTICE] };
}

async function read(path, form) {
  const response = await fetch(path).catch(() => null);
  if (!response?.ok) throw new Refused(0, `${path} cannot be read; serve this folder over HTTP, whole.`);
  return response[form]();
}

/** Start the engine with the model of this folder; resolves with a function that translates a text. */
async function started() {
  const { source: from, target: to, files, config } = await read(DESCRIPTION, "json");
  const buffers = Object.fromEntries(await Promise.all(
    Object.entries(files).map(async ([part, names]) => [part, await Promise.all(names.map((name) => read(`model/${name}`, "arrayBuffer")))])));
  const [model] = buffers.model, [shortlist] = buffers.shortlist ?? [new ArrayBuffer(0)];
  const worker = new Worker(new URL("engine/translator-worker.js", import.meta.url)), call = callsOf(worker);
  try {
    await call("initialize", { cacheSize: 0 });
    await call("loadTranslationModel", { from, to }, { model, shortlist, vocabs: buffers.vocabularies, qualityModel: null, config });
  } catch (error) {
    worker.terminate();
    throw error;
  }
  return async (text) => {
    const [{ target }] = await call("translate", { models: [{ from, to }], texts: [{ text, html: false }] });
    return target.text;
  };
}

/** A function that calls those of a worker by name; resolves with their results. */
function callsOf(worker) {
  const waiting = new Map();
  const fail = (message) => new Refused(500, `The engine has failed: ${message}`);
  worker.addEventListener("message", ({ data: { id, result, error } }) => {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(fail(error.message));
  });
  worker.addEventListener("error", (event) => {
    for (const { reject } of waiting.values()) reject(fail(event.message ?? "its worker has ended"));
    waiting.clear();
    worker.terminate();
    engine = null;
  });
  let number = 0;
  return (name, ...args) => new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    worker.postMessage({ id: number, name, args });
  });
}

navigator.serviceWorker?.register("keeper.js").catch(() => {}); // without one, the page needs the network to load
