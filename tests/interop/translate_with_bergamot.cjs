// Translates the texts of a request on standard input with Bergamot's engine; prints a JSON list.
// Usage: node translate_with_bergamot.cjs WORKER.js < {"model", "shortlist", "vocabulary", "config", "texts"}
const fs = require("node:fs");
const { Worker } = require("node:worker_threads");

const request = JSON.parse(fs.readFileSync(0));
const worker = new Worker(process.argv[2]);
let answer;
worker.on("message", ({ result, error }) => answer(error ? Promise.reject(error) : result));

function call(name, ...args) {
  return new Promise((resolve) => {
    answer = resolve;
    worker.postMessage({ id: 1, name, args });
  });
}

function buffer(path) {
  return path ? new Uint8Array(fs.readFileSync(path)).buffer : new ArrayBuffer(0);
}

async function main() {
  const pair = { from: "en", to: "de" };
  await call("initialize", { cacheSize: 0 });
  await call("loadTranslationModel", pair, {
    model: buffer(request.model),
    shortlist: buffer(request.shortlist),
    vocabs: [buffer(request.vocabulary)],
    config: request.config,
  });
  const outputs = [];
  for (const text of request.texts) {
    // one at a time: a shortlist is that of a whole batch
    const [output] = await call("translate", { models: [pair], texts: [{ text, html: false }] });
    outputs.push(output.target.text);
  }
  console.log(JSON.stringify(outputs));
  await worker.terminate();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
