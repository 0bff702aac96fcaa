// The weights of one head, or the mean of several, as a matrix with a row for each word that attends.

import { bytesOf, contextOf, element, prepareCanvas, styleValue, table, tableBehind, textOn, word } from "./elements.js";
import { chosenHeads, toggled } from "./state.js";

const LARGEST = 38, SMALLEST = 13; // Pixels per cell.
const LONGEST_LABEL = 120;
const STRIP = 84; // Height of the frames above a matrix.
const GAP_FROM = 20; // Cells of at least this size have gaps between them.
const VALUES_FROM = 30; // Cells of at least this size show their value.
const FAINT = 0.12; // Relative opacity of rows that are not picked.
const opacityOf = (weight, isFaint) => (isFaint ? FAINT : 1) * Math.sqrt(weight);

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  const characters = [...text];
  while (characters.length && context.measureText(`${characters.join("")}…`).width > width) characters.pop();
  return `${characters.join("")}…`;
}

/** Sizes of the picture, from the longest words and the available width; a strip takes the place of words. */
function layout(context, view, room, strip) {
  context.font = `13px ${styleValue(context.canvas, "--font")}`;
  const longest = (positions) => Math.min(LONGEST_LABEL,
    Math.max(...positions.map(({ text }) => context.measureText(text).width)) + 12);
  const left = Math.ceil(longest(view.queries)), top = strip ? STRIP : Math.ceil(longest(view.keys));
  const cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor((room - left) / view.keys.length)));
  return { left, top, cell, width: left + cell * view.keys.length, height: top + cell * view.queries.length };
}

/** The frames of a source that is no text, as a canvas with a pixel for each feature of each, in a colour. */
function stripOf({ width, height, pixels }, colour) {
  const canvas = element("canvas", { width, height }), image = new ImageData(width, height);
  const shades = Uint8Array.from(atob(pixels), (character) => character.charCodeAt(0));
  shades.forEach((shade, place) => image.data.set([...colour, shade], 4 * place));
  contextOf(canvas).putImageData(image, 0, 0);
  return canvas;
}

/** Draw frames above the cells of the positions that they belong to, four to each. */
function drawStrip(context, strip, view, { left, top, cell }) {
  const width = Math.min(strip.width / 4, view.keys.length) * cell;
  context.drawImage(strip, left, 0, width, top - 4);
}

function drawLabels(context, view, { left, top, cell }, cursor, strip) {
  const style = getComputedStyle(context.canvas);
  const [font, ink, muted] = ["--font", "--ink", "--muted"].map((name) => style.getPropertyValue(name));
  context.textBaseline = "middle";
  context.font = `${Math.min(13, cell - 1)}px ${font}`;
  const write = (text, isHere, width, align) => {
    context.fillStyle = isHere ? ink : muted;
    context.textAlign = align;
    context.fillText(fitted(context, text, width - 8), 0, 0);
  };
  view.queries.forEach(({ text }, query) => {
    context.save();
    context.translate(left - 6, top + (query + 0.5) * cell);
    write(text, cursor?.query === query, left, "right");
    context.restore();
  });
  if (strip) drawStrip(context, strip, view, { left, top, cell });
  else view.keys.forEach(({ text }, key) => {
    context.save();
    context.translate(left + (key + 0.5) * cell, top - 6);
    context.rotate(-Math.PI / 2);
    write(text, cursor?.key === key, top, "left");
    context.restore();
  });
}

/** An image with one pixel per weight; opacity is the weight's square root, less in rows that are not picked. */
function inkOf(weights, width, [red, green, blue], isFaint) {
  const canvas = element("canvas", { width, height: weights.length / width });
  const image = new ImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer), colour = red | (green << 8) | (blue << 16);
  for (let place = 0; place < weights.length; place++) {
    pixels[place] = colour | (Math.round(255 * opacityOf(weights[place], isFaint[Math.floor(place / width)])) << 24);
  }
  contextOf(canvas).putImageData(image, 0, 0);
  return canvas;
}

function drawCells(context, view, weights, state, sizes) {
  const { left, top, cell, width, height } = sizes, { keys, queries } = view;
  const isFaint = queries.map((_, query) => state.queries.length > 0 && !state.queries.includes(query));
  context.imageSmoothingEnabled = false;
  const ink = inkOf(weights, keys.length, bytesOf(styleValue(context.canvas, "--accent")), isFaint);
  context.drawImage(ink, left, top, width - left, height - top);
  if (cell >= GAP_FROM) {
    keys.forEach((_, key) => context.clearRect(left + (key + 1) * cell - 1, top, 1, height - top));
    queries.forEach((_, query) => context.clearRect(left, top + (query + 1) * cell - 1, width - left, 1));
  }
  if (cell >= VALUES_FROM) drawValues(context, weights, isFaint, sizes, keys.length);
}

function drawValues(context, weights, isFaint, { left, top, cell }, width) {
  const [font, muted, paper, accent] = ["--font", "--muted", "--paper", "--accent"].map((name) => styleValue(context.canvas, name));
  const under = bytesOf(paper), over = bytesOf(accent);
  context.font = `11px ${font}`;
  context.textAlign = "center";
  weights.forEach((weight, place) => {
    if (weight < 0.005) return;
    const query = Math.floor(place / width);
    const mixed = under.map((byte, channel) => byte + (over[channel] - byte) * opacityOf(weight, false));
    context.fillStyle = isFaint[query] ? muted : textOn(mixed);
    const x = left + (place % width) * cell, y = top + query * cell;
    context.fillText(weight.toFixed(2).replace(/^0/, ""), x + cell / 2, y + cell / 2);
  });
}

function drawFrames(context, { left, top, cell }, links, cursor) {
  context.strokeStyle = styleValue(context.canvas, "--mark");
  context.lineWidth = 1.5;
  for (const [query, key] of links) context.strokeRect(left + key * cell + 0.5, top + query * cell + 0.5, cell - 2, cell - 2);
  if (!cursor) return;
  context.strokeStyle = styleValue(context.canvas, "--ink");
  context.strokeRect(left + cursor.key * cell, top + cursor.query * cell, cell - 1, cell - 1);
}

export function matrixView(attention, state, change) {
  const view = attention.view(state.kind, state.inWords);
  const isAligned = state.kind === "cross" && state.inWords;
  const links = isAligned ? attention.alignment.map(([source, written]) => [written, source]) : [];
  const hasStrip = attention.strip && state.kind !== "decoder";
  const canvas = element("canvas", { tabindex: 0, role: "application", "aria-roledescription": "matrix" });
  const readout = element("p", { class: "readout", role: "status" });
  const behind = tableBehind(state, () => tableOfWeights(view, state, chosenHeads(state, attention)));
  const place = element("div", { class: "cursor" }); // lies over the cell of the cursor, to scroll to it
  const scroll = element("div", { class: "scroll" }, canvas, place);
  let cursor = null, sizes = null, strip = null;

  function update() {
    const heads = chosenHeads(state, attention);
    const weights = view.mean(state.layer, heads);
    if (hasStrip) strip ??= stripOf(attention.strip, bytesOf(styleValue(canvas, "--ink")));
    sizes = layout(contextOf(canvas), view, scroll.clientWidth, strip);
    const context = prepareCanvas(canvas, sizes.width, sizes.height);
    canvas.setAttribute("aria-label", `${caption(state, heads)}. Use the arrow keys to read it cell by cell.`);
    drawLabels(context, view, sizes, cursor, strip);
    drawCells(context, view, weights, state, sizes);
    drawFrames(context, sizes, links, cursor);
    readout.replaceChildren(...told());
    behind.update();

    function told() {
      if (!cursor) return [caption(state, heads), ...(links.length ? [". Frames mark the alignment"] : []), "."];
      const { query, key } = cursor;
      const weight = weights[query * view.keys.length + key];
      return [word(view.queries[query].text), " attends to ", word(view.keys[key].text), ` ${weight.toFixed(3)}`];
    }
  }
  const moveTo = (next) => {
    if (next?.query === cursor?.query && next?.key === cursor?.key) return;
    cursor = next;
    update();
  };
  const scrollToCursor = () => {
    const { left, top, cell } = sizes;
    const lengths = {
      left: left + cursor.key * cell, top: top + cursor.query * cell, width: cell, height: cell,
      "scroll-margin-left": left, "scroll-margin-top": top, // room for the labels
    };
    for (const [name, length] of Object.entries(lengths)) place.style.setProperty(name, `${length}px`);
    place.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  canvas.addEventListener("pointermove", (event) => moveTo(cellAt(event, sizes, view)));
  canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && moveTo(null));
  canvas.addEventListener("click", (event) => {
    const cell = cellAt(event, sizes, view);
    if (!cell) return;
    cursor = cell; // a tap sends no pointermove before it
    change({ queries: toggled(state.queries, cell.query) });
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") change({ queries: [], keys: [] });
    else if (event.key === "Enter" && cursor) change({ queries: toggled(state.queries, cursor.query) });
    else if (step) {
      moveTo(stepped(cursor, step, view));
      scrollToCursor();
    } else return;
    event.preventDefault();
  });
  return { node: element("div", {}, readout, scroll, behind.node), update };
}

function stepped(cursor, [down, right], view) {
  if (!cursor) return { query: 0, key: 0 };
  const within = (value, count) => Math.max(0, Math.min(count - 1, value));
  return { query: within(cursor.query + down, view.queries.length), key: within(cursor.key + right, view.keys.length) };
}

function cellAt(event, { left, top, cell }, view) {
  const query = Math.floor((event.offsetY - top) / cell), key = Math.floor((event.offsetX - left) / cell);
  const inside = query >= 0 && key >= 0 && query < view.queries.length && key < view.keys.length;
  return inside ? { query, key } : null;
}

function caption(state, heads) {
  const which = heads.length === 1 ? `head ${heads[0] + 1}` : `mean of ${heads.length} heads`;
  return `Layer ${state.layer + 1}, ${which}`;
}

function tableOfWeights(view, state, heads) {
  const weights = view.mean(state.layer, heads), width = view.keys.length;
  const rows = view.queries.map(({ text }, query) =>
    [text, ...Array.from(weights.subarray(query * width, (query + 1) * width), (weight) => weight.toFixed(3))]);
  return table(caption(state, heads), ["attends to", ...view.keys.map(({ text }) => text)], rows);
}
