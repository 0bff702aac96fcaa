// The live page: type a sentence, see it translated and every head attend; `live(element, contents)`.

import { element } from "./elements.js";
import { unpack } from "./attention.js";
import { explore } from "./explorer.js";
import { KINDS } from "./state.js";
import { readTensors } from "./tensors.js";
import { Network } from "./network.js";
import { beamSearch, drawOutput } from "./decoding.js";
import { Subwords, wordsOf } from "./subwords.js";

/** What the explorer shows, from weights as lists: kind -> layer -> head -> rows. */
function contentsOf(seen, texts, alignmentLayer) {
  const sequence = ([text, pieces]) => ({ text, pieces, words: wordsOf(pieces) });
  const kinds = { encoder: ["source", "source"], cross: ["written", "source"], decoder: ["target", "target"] };
  const packed = ([name, [queries, keys]]) => {
    const layers = seen[name], rows = layers[0][0], width = rows.at(-1).length;
    const shape = [layers.length, layers[0].length, rows.length, width];
    const wide = layers.flat(2).map((row) => [...row, ...Array(width - row.length).fill(0)]);
    const bytes = Uint8Array.from(wide.flat(), (weight) => Math.round(255 * Math.sqrt(weight)));
    return [name, { queries, keys, shape, bytes, measures: {} }];
  };
  return {
    sequences: Object.fromEntries(Object.entries(texts).map(([name, pair]) => [name, sequence(pair)])),
    kinds: Object.fromEntries(Object.entries(kinds).filter(([name]) => name in seen).map(packed)),
    alignment: [], alignment_layer: alignmentLayer,
  };
}

/** Buttons that switch heads off, a row for each layer. */
function switches(network, change) {
  const own = network.autoregression === "attention" ? network.decoder_layers : 0;
  const layersOf = { encoder: network.num_layers, cross: network.decoder_layers, decoder: own };
  const button = (kind, layer, head) => {
    const name = Network.nameOf(kind, layer, head);
    const toggle = ({ currentTarget }) => {
      const isOn = network.off.delete(name) || !network.off.add(name);
      currentTarget.setAttribute("aria-pressed", isOn);
      change();
    };
    const label = `${KINDS[kind][0]}, layer ${layer + 1}, head ${head + 1}`;
    return element("button", { type: "button", "aria-label": label, "aria-pressed": "true", onclick: toggle }, `${head + 1}`);
  };
  const row = (kind, layer) => element("div", {}, element("span", {}, `Layer ${layer + 1}`),
    ...Array.from({ length: network.num_heads }, (_, head) => button(kind, layer, head)));
  return Object.keys(KINDS).filter((kind) => layersOf[kind]).map((kind) => element("fieldset", { class: "switches" }, element("legend", {}, `${KINDS[kind][0]} heads`),
    ...Array.from({ length: layersOf[kind] }, (_, layer) => row(kind, layer))));
}

/** A labelled slider that shows its value. */
function slider(label, range, change) {
  const shown = element("output", {}, `${range.value}`);
  const input = element("input", { type: "range", ...range, onchange: change, oninput: () => { shown.textContent = input.value; } });
  return { node: element("label", {}, `${label} `, input, shown), read: () => Number(input.value) };
}

export async function live(root, contents) {
  const network = new Network(readTensors(await unpack(contents.weights)), contents.sizes);
  const [source, target] = contents.subwords.map((side) => new Subwords(side));
  const text = element("textarea", { "aria-label": "Text to translate", rows: 2, placeholder: "Type a sentence" }, contents.text);
  const translation = element("p", { class: "translation", "aria-live": "polite", "aria-label": "Translation" });
  const pieces = element("ol", { class: "pieces", "aria-label": "Probability of each piece" });
  const attention = element("section", { "aria-label": "Attention" });
  const beam = slider("Beam size", { min: 1, max: 8, step: 1, value: contents.search.beam_size }, () => translate());
  const temperature = slider("Temperature", { min: 0, max: 2, step: 0.1, value: 0 }, () => translate());

  function output(ids) {
    const search = { ...contents.search, beam_size: beam.read() };
    if (temperature.read() > 0) return drawOutput(network, ids, search, temperature.read());
    return beamSearch(network, ids, search);
  }
  let remove = () => {}, newest = 0;
  async function show() {
    const line = text.value.replace(/[\n\r]/g, " ");
    const isText = /[^\P{L}ªº]/u.test(line), ids = source.encode(line);
    const found = isText ? output(ids) : { ids: [], logProbs: [] };
    translation.textContent = isText ? target.decode(found.ids) : line.trim() && line;
    const names = [...target.pieces(found.ids), "</s>"];
    pieces.replaceChildren(...found.logProbs.map((logProb, place) => {
      const share = Math.exp(logProb), item = element("li", {}, element("bdi", {}, names[place]), `${(100 * share).toFixed(0)}%`);
      item.style.setProperty("--share", share);
      return item;
    }));
    attention.hidden = !isText;
    if (!isText) return;
    const read = [line, [...source.pieces(ids), "</s>"]], written = target.pieces(found.ids);
    const texts = { source: read, target: [translation.textContent, ["<s>", ...written]], written: [translation.textContent, [...written, "</s>"]] };
    const layer = Math.max(1, network.decoder_layers > 2 ? network.decoder_layers - 1 : network.decoder_layers);
    remove();
    remove = await explore(attention, contentsOf(network.look(ids, found.ids), texts, layer), { address: true });
  }
  function translate() {
    root.setAttribute("aria-busy", "true");
    const number = ++newest, isNewest = () => number === newest;
    const done = () => isNewest() && root.removeAttribute("aria-busy");
    setTimeout(() => isNewest() && show().finally(done), 20); // the browser paints first
  }
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    translate();
  });
  root.classList.add("live", "attention-explorer");
  root.replaceChildren(
    element("form", { onsubmit: (event) => { event.preventDefault(); translate(); } }, text, element("button", {}, "Translate")),
    translation, pieces,
    element("div", { class: "settings" }, beam.node, temperature.node,
      element("p", {}, "At temperature 0 the beam searches; above it, each piece is drawn.")),
    element("details", {}, element("summary", {}, "Switch heads off"), ...switches(network, translate)),
    attention);
  if (contents.text) translate();
}
