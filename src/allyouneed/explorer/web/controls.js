// The controls above the picture: kind, view, layer, heads, words or pieces.

import { element, headColour } from "./elements.js";
import { KINDS, hasParts, toggled, viewsOf } from "./state.js";

/** A choice of one option, as a row of radio buttons. */
function choice(legend, name, options, choose) {
  const inputs = new Map();
  const labels = options.map(([value, text]) => {
    const input = element("input", { type: "radio", name, value, onchange: () => choose(value) });
    inputs.set(value, input);
    return element("label", {}, input, element("span", {}, text));
  });
  const node = element("fieldset", { class: "choice" }, element("legend", {}, legend), ...labels);
  const update = (value) => { inputs.get(value).checked = true; };
  const limit = (count) => labels.forEach((label, index) => { label.hidden = index >= count; });
  return { node, update, limit };
}

/** A choice of heads, each in its colour; if none is chosen, all are shown. */
function headChoice(attention, state, change) {
  const all = element("button", { type: "button", onclick: () => change({ heads: [] }) }, "All");
  const chips = Array.from({ length: attention.numHeads }, (_, head) => {
    const toggle = () => change({ heads: toggled(state.heads, head) });
    const named = { "aria-label": `Head ${head + 1}`, class: head % 2 ? "odd" : "even" };
    return element("button", { type: "button", ...named, onclick: toggle }, `${head + 1}`);
  });
  const node = element("fieldset", { class: "heads" }, element("legend", {}, "Heads"), all, ...chips);
  const update = () => {
    all.setAttribute("aria-pressed", state.heads.length === 0);
    chips.forEach((chip, head) => {
      chip.setAttribute("aria-pressed", state.heads.includes(head));
      chip.style.setProperty("--colour", headColour(chip, head));
    });
  };
  return { node, update };
}

/** All controls; they call `change` with the entries of the state to change. */
export function controls(attention, state, change) {
  const kinds = Object.keys(KINDS).filter((name) => name in attention.kinds);
  const mostLayers = Math.max(...kinds.map((name) => attention.numLayers(name)));
  const layerNumbers = Array.from({ length: mostLayers }, (_, layer) => [layer, `${layer + 1}`]);
  const layerOf = (name) => Math.min(state.layer, attention.numLayers(name) - 1);
  const kind = choice("Attention", "kind", kinds.map((name) => [name, KINDS[name][0]]),
    (value) => change({ kind: value, layer: layerOf(value), queries: [], keys: [], sort: "" }));
  const view = choice("View", "view", Object.entries(viewsOf(attention)), (value) => change({ view: value }));
  const layer = choice("Layer", "layer", layerNumbers, (value) => change({ layer: value }));
  const heads = headChoice(attention, state, change);
  const parts = choice("Of", "parts", [["words", "Words"], ["pieces", "Pieces"]],
    (value) => change({ inWords: value === "words", queries: [], keys: [] }));
  const node = element("form", { class: "controls", "aria-label": "What is shown" },
    kind.node, view.node, layer.node, heads.node, parts.node);
  const update = () => {
    kind.update(state.kind);
    view.update(state.view);
    layer.update(state.layer);
    layer.limit(attention.numLayers(state.kind));
    heads.update();
    parts.update(state.inWords ? "words" : "pieces");
    layer.node.hidden = ["heads", "measures"].includes(state.view);
    heads.node.hidden = layer.node.hidden;
    parts.node.hidden = !hasParts(state);
  };
  return { node, update };
}
