// Translates lines by Bergamot: node bergamot.cjs FOLDER_OF_WORKER EXPORTED < source > target
const { Worker } = require("node:worker_threads");
const { readFileSync } = require("node:fs");
const { join } = require("node:path");
const [workers, exported] = process.argv.slice(2);

const config = {};
let name;
for (const line of readFileSync(join(exported, "config.yml"), "utf8").trim().split("\n")) {
  const [, item] = line.match(/^\s+- (.*)$/) || [];
  if (item === undefined) [, name, config[name]] = line.match(/^([\w-]+): ?(.*)$/);
  else config[name] = [...(config[name] || []), item];
}
const read = (file) => Uint8Array.from(readFileSync(join(exported, file))).buffer;
const search = ["gemm-precision", "beam-size", "normalize", "word-penalty", "skip-cost"];
const buffers = {
  model: read(config.models[0]),
  shortlist: config.shortlist ? read(config.shortlist[0]) : new ArrayBuffer(0),
  vocabs: [...new Set(config.vocabs)].map(read),
  config: Object.fromEntries(search.filter((each) => each in config).map((each) => [each, config[each]])),
};

const worker = new Worker(join(workers, "translator-worker.js"));
let id = 0;
const call = (method, ...args) =>
  new Promise((resolve, reject) => {
    worker.once("message", ({ result, error }) => (error ? reject(new Error(error.message)) : resolve(result)));
    worker.postMessage({ id: ++id, name: method, args });
  });

(async () => {
  const direction = { from: "a", to: "b" };
  await call("initialize", { cacheSize: 0 });
  await call("loadTranslationModel", direction, buffers);
  for (const text of readFileSync(0, "utf8").replace(/\n$/, "").split("\n")) {
    const [found] = await call("translate", { models: [direction], texts: [{ text, html: false }] });
    process.stdout.write(`${found.target.text}\n`);
  }
  await worker.terminate();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
