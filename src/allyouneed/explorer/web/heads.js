// All heads of all layers at a glance (figure 5); each opens on a click.

import { bytesOf, contextOf, element, headColour } from "./elements.js";
import { MEASURES } from "./measures.js";

/** Paint a head's matrix, one pixel per weight; opacity is the square root of the weight. */
function paint(image, weights, [red, green, blue]) {
  const pixels = new Uint32Array(image.data.buffer), colour = red | (green << 8) | (blue << 16);
  for (let place = 0; place < weights.length; place++) {
    pixels[place] = colour | ((255 * Math.sqrt(weights[place]) + 0.5) << 24);
  }
}

const drawn = new WeakMap();

/** The thumbnails of a view, which are redrawn only when colours change. */
function thumbnails(view) {
  if (!drawn.has(view)) {
    const { layers, heads, keys, queries } = view;
    const pictures = Array.from({ length: layers * heads }, (_, index) => ({
      canvas: element("canvas", { width: keys.length, height: queries.length }),
      layer: Math.floor(index / heads), head: index % heads, colour: "",
    }));
    drawn.set(view, pictures);
  }
  return drawn.get(view);
}

/** The measures of a head, as text for screen readers. */
function inNumbers(measures, layer, head) {
  const parts = Object.entries(measures).map(([name, values]) => `${MEASURES[name][0]} ${values[layer][head].toFixed(2)}`);
  return [`Layer ${layer + 1}, head ${head + 1}: open.`, ...(parts.length ? [`Measures: ${parts.join(", ")}`] : [])].join(" ");
}

export function headsView(attention, state, change) {
  const view = attention.view(state.kind, state.inWords);
  const pictures = thumbnails(view);
  const buttons = pictures.map(({ canvas, layer, head }) => {
    const open = () => change({ view: "matrix", layer, heads: [head] });
    const name = inNumbers(attention.kinds[state.kind].measures, layer, head);
    return element("button", { type: "button", "aria-label": name, onclick: open }, canvas, `${head + 1}`);
  });
  const layers = Array.from({ length: view.layers }, (_, layer) => element("section", {},
    element("h2", {}, `Layer ${layer + 1}`),
    element("div", { class: "thumbnails" }, ...buttons.slice(layer * view.heads, (layer + 1) * view.heads))));
  const looks = `a row for each ${state.inWords ? "word" : "piece"} that attends`;
  const node = element("div", { class: "all-heads" },
    element("p", { class: "readout" }, `Each square is a head: ${looks}. Click one to open it.`), ...layers);
  node.style.setProperty("--heads", view.heads);
  node.style.setProperty("--layers", view.layers);
  const update = () => {
    const colours = Array.from({ length: view.heads }, (_, head) => headColour(node, head));
    if (pictures.every(({ head, colour }) => colour === colours[head])) return;
    const image = new ImageData(view.keys.length, view.queries.length);
    for (const picture of pictures) {
      picture.colour = colours[picture.head];
      paint(image, view.at(picture.layer, picture.head), bytesOf(picture.colour));
      contextOf(picture.canvas).putImageData(image, 0, 0);
    }
  };
  return { node, update };
}
