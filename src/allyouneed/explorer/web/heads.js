// All heads of all layers at a glance (figure 5); each opens on a click.

import { bytesOf, contextOf, element, headColour } from "./elements.js";
import { MEASURES } from "./measures.js";

/** The matrix of a head, a pixel for each weight: its ink is the weight's square root. */
function thumbnail(canvas, view, layer, head, [red, green, blue]) {
  const weights = view.at(layer, head);
  const image = new ImageData(view.keys.length, view.queries.length);
  for (let place = 0; place < weights.length; place++) {
    image.data.set([red, green, blue, 255 * Math.sqrt(weights[place])], 4 * place);
  }
  contextOf(canvas).putImageData(image, 0, 0);
}

/** A head in numbers, for those who cannot see its picture. */
function inNumbers(measures, layer, head) {
  const parts = Object.entries(measures).map(([name, values]) => `${MEASURES[name][0]} ${values[layer][head].toFixed(2)}`);
  return `Layer ${layer + 1}, head ${head + 1}: open. ${parts.join(", ")}`;
}

export function headsView(attention, state, change) {
  const view = attention.view(state.kind, state.inWords);
  const pictures = [];
  const layers = Array.from({ length: attention.numLayers }, (_, layer) => {
    const buttons = Array.from({ length: attention.numHeads }, (_unused, head) => {
      const canvas = element("canvas", { width: view.keys.length, height: view.queries.length });
      pictures.push({ canvas, layer, head });
      const open = () => change({ view: "matrix", layer, heads: [head] });
      const name = inNumbers(attention.kinds[state.kind].measures, layer, head);
      return element("button", { type: "button", "aria-label": name, onclick: open }, canvas, `${head + 1}`);
    });
    return element("section", {}, element("h2", {}, `Layer ${layer + 1}`),
      element("div", { class: "thumbnails" }, ...buttons));
  });
  const update = () => {
    for (const { canvas, layer, head } of pictures) thumbnail(canvas, view, layer, head, bytesOf(headColour(head)));
  };
  const node = element("div", { class: "all-heads" },
    element("p", { class: "readout" }, "Each square is a head: a row for each word that looks. A click opens it."),
    ...layers);
  node.style.setProperty("--heads", attention.numHeads);
  node.style.setProperty("--layers", attention.numLayers);
  return { node, update };
}
