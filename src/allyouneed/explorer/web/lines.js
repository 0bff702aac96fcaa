// Lines from each word to the words that it attends to (figures 3 and 4).

import { bytesOf, element, headColour, prepareCanvas, styleValue, table, tableBehind, word } from "./elements.js";
import { rasterise } from "./raster.js";
import { chosenHeads, toggled } from "./state.js";

const FAINTEST = 0.02; // Lines with less weight are invisible.
const MOST = 400; // More lines than this are slow to draw and blur.
const STEPS = 1000; // Bins of the histogram that finds the strongest lines without sorting all of them.
const SHADE = 50; // Percent of colour in the shade of a word with weight 1: its text keeps a contrast of 4.5:1.
const ROW = 28, CLOSE_ROW = 21, LONG = 40; // Pixels per row, and the length of a sentence above which rows are closer.

/** A column of words to pick, with the mouse or the keyboard. */
function wordList(label, side, positions, pick, point) {
  const options = positions.map(({ text }, index) => element("li", {
    role: "option", tabindex: index ? -1 : 0, "data-index": index,
    onclick: () => pick(index),
    onpointerenter: (event) => {
      const { currentTarget: item } = event;
      item.title = item.scrollWidth > item.clientWidth ? text : "";
      if (event.pointerType === "mouse") point(index);
    },
    onpointerleave: () => point(null),
    onfocus: (event) => event.target.matches(":focus-visible") && point(index),
    onblur: () => point(null),
  }, word(text)));
  const move = (from, to) => {
    const target = options[Math.max(0, Math.min(options.length - 1, to))];
    options[from].tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  };
  const keys = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
  const onkeydown = (event) => {
    const index = Number(event.target.dataset.index);
    if (event.key in keys) move(index, index + keys[event.key]);
    else if (event.key === " " || event.key === "Enter") pick(index);
    else return;
    event.preventDefault();
  };
  const node = element("ul", {
    role: "listbox", "aria-multiselectable": "true", "aria-label": label, class: `words ${side}`, onkeydown,
  }, ...options);
  return { node, options };
}

/** The strongest visible lines of some heads, at most `MOST`, and the number of all visible lines. */
function strongestLines(view, layer, heads, isShown) {
  const width = view.keys.length;
  const isDrawn = Uint8Array.from({ length: view.queries.length * width },
    (_, place) => isShown(Math.floor(place / width), place % width));
  const counts = new Uint32Array(STEPS + 1); // lines per bin of weights
  let total = 0;
  for (const head of heads) {
    const weights = view.at(layer, head);
    for (let place = 0; place < weights.length; place++) {
      if (weights[place] < FAINTEST || !isDrawn[place]) continue;
      counts[Math.min(STEPS, Math.floor(STEPS * weights[place]))]++;
      total++;
    }
  }
  let step = STEPS; // lowest bin of the strongest lines
  for (let enough = counts[step]; step > 0 && enough < MOST; enough += counts[step]) step--;
  const lines = [], least = Math.max(FAINTEST, step / STEPS);
  heads.forEach((head, order) => {
    const weights = view.at(layer, head);
    for (let place = 0; place < weights.length; place++) {
      const weight = weights[place];
      if (weight < least || !isDrawn[place]) continue;
      lines.push({ order, query: Math.floor(place / width), key: place % width, weight });
    }
  });
  if (lines.length > MOST) lines.sort((a, b) => b.weight - a.weight).length = MOST;
  return { lines, total };
}

function drawLines(canvas, width, height, row, lines, heads) {
  const context = prepareCanvas(canvas, width, height);
  const ratio = canvas.height / height;
  const colours = heads.map((head) => bytesOf(headColour(canvas, head)));
  const spread = Math.min(2, (row * 0.6) / heads.length); // Offset between the lines of different heads.
  const drawn = lines.map(({ order, query, key, weight }) => {
    const shift = row / 2 + (order - (heads.length - 1) / 2) * spread;
    const [left, right] = [query, key].map((place) => (place * row + shift) * ratio);
    return { left, right, ink: Math.min(1, weight), colour: colours[order] };
  });
  const thickness = (heads.length > 8 ? 1.2 : 1.8) * ratio;
  const paper = bytesOf(styleValue(canvas, "--paper"));
  context.putImageData(rasterise(canvas.width, canvas.height, paper, drawn, thickness), 0, 0);
}

/** One line of text: the strongest weights from or to a word; null unless one word is active. */
function told(view, weights, from, to, count) {
  if (from.length + to.length !== 1) return null;
  const [text, does, strongest] = from.length
    ? [view.queries[from[0]].text, " attends to ", view.strongest(weights, from[0], count)]
    : [view.keys[to[0]].text, " is attended to by ", view.strongestTo(weights, to[0], count)];
  const parts = strongest.flatMap((other) => [" · ", word(other.text), ` ${other.weight.toFixed(2)}`]);
  return [word(text), does, ...parts.slice(1)];
}

export function linesView(attention, state, change) {
  const view = attention.view(state.kind, state.inWords);
  let pointed = null; // (side, index) under the mouse or the focus
  const point = (side) => (index) => {
    pointed = index === null ? null : { side, index };
    update();
  };
  const pick = (side) => (index) => change({ [side]: toggled(state[side], index) });
  const queries = wordList("Words that attend", "queries", view.queries, pick("queries"), point("queries"));
  const keys = wordList("Words that are attended to", "keys", view.keys, pick("keys"), point("keys"));
  const canvas = element("canvas", { "aria-hidden": "true" });
  const readout = element("p", { class: "readout", role: "status" });
  const behind = tableBehind(state, () => tableOfLines(view, state, chosenHeads(state, attention)));
  const longest = Math.max(view.queries.length, view.keys.length);
  const row = longest > LONG ? CLOSE_ROW : ROW;
  const picture = element("div", {
    class: "lines", onkeydown: (event) => event.key === "Escape" && change({ queries: [], keys: [] }),
  }, queries.node, canvas, keys.node);
  picture.style.setProperty("--row", `${row}px`);

  function update() {
    const heads = chosenHeads(state, attention);
    const from = pointed?.side === "queries" ? [pointed.index] : pointed ? [] : state.queries;
    const to = pointed?.side === "keys" ? [pointed.index] : pointed ? [] : state.keys;
    const all = !from.length && !to.length;
    const mean = view.mean(state.layer, heads);
    const width = canvas.parentElement.clientWidth - queries.node.offsetWidth - keys.node.offsetWidth;
    const { lines, total } = strongestLines(view, state.layer, heads,
      (query, key) => all || from.includes(query) || to.includes(key));
    drawLines(canvas, Math.max(40, width), row * longest, row, lines, heads);
    shade(queries.options, state.queries, all, from, (query) => strongestOf(to, (key) => mean[query * keys.options.length + key]));
    shade(keys.options, state.keys, all, to, (key) => strongestOf(from, (query) => mean[query * keys.options.length + key]));
    readout.replaceChildren(...(told(view, mean, from, to, 4) ?? hint(state, total, change)));
    behind.update();
  }
  return { node: element("div", {}, readout, picture, behind.node), update };
}

const strongestOf = (list, weight) => Math.max(0, ...list.map(weight));

/** Mark the picked words of a column, and the words at the other end of strong lines. */
function shade(options, picked, all, active, weightOf) {
  const accent = styleValue(options[0], "--accent");
  options.forEach((option, index) => {
    option.setAttribute("aria-selected", picked.includes(index));
    const weight = all || active.includes(index) ? 0 : weightOf(index);
    option.style.backgroundColor = weight > FAINTEST ? `color-mix(in oklab, ${accent} ${Math.round(weight * SHADE)}%, transparent)` : "";
    option.classList.toggle("dim", !all && !active.includes(index) && weight <= FAINTEST);
  });
}

function hint(state, total, change) {
  const cut = total > MOST ? ` Only the strongest ${MOST} of ${total.toLocaleString("en")} lines are drawn.` : "";
  if (!state.queries.length && !state.keys.length) {
    return [`Pick words on the left to see what they attend to, on the right to see what attends to them.${cut}`];
  }
  const clear = element("button", { type: "button", onclick: () => change({ queries: [], keys: [] }) }, "Clear");
  return [`${state.queries.length + state.keys.length} words picked.${cut} `, clear];
}

/** A table of the strongest lines from and to picked words, or from all words, with the weight of each head. */
function tableOfLines(view, state, heads) {
  const mean = view.mean(state.layer, heads), isPicked = state.queries.length + state.keys.length > 0;
  const count = isPicked ? 5 : 3;
  const from = isPicked ? state.queries : view.queries.map((_, query) => query);
  const lines = [...from.flatMap((query) => view.strongest(mean, query, count)),
    ...state.keys.flatMap((key) => view.strongestTo(mean, key, count))];
  const unique = new Map(lines.map((line) => [line.query * view.keys.length + line.key, line]));
  const several = heads.length > 1;
  const rows = Array.from(unique, ([place, { query, key, weight }]) => [
    view.queries[query].text, view.keys[key].text, ...(several ? [weight.toFixed(2)] : []),
    ...heads.map((head) => view.at(state.layer, head)[place].toFixed(2))]);
  const columns = ["Word", "attends to", ...(several ? ["mean"] : []), ...heads.map((head) => `head ${head + 1}`)];
  const which = isPicked ? `the ${count} strongest lines of each picked word` : `the strongest lines of each word`;
  return table(`Layer ${state.layer + 1}: ${which}`, columns, rows);
}
