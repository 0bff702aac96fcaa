// Lines from the words that look to the words that they look at (figures 3 and 4).

import { bytesOf, element, headColour, prepareCanvas, styleValue, table, tableBehind, word } from "./elements.js";
import { rasterise } from "./raster.js";
import { chosenHeads, toggled } from "./state.js";

const FAINTEST = 0.02; // A line of less weight cannot be seen.
const MOST = 600; // More lines than this are a blur, and slow.
const ROW = 28, CLOSE_ROW = 21, LONG = 40; // Pixels from word to word, closer in sentences of so many.

/** A column of words that can be picked, with the arrow keys, too. */
function wordList(label, side, positions, pick, point) {
  const options = positions.map(({ text }, index) => element("li", {
    role: "option", tabindex: index ? -1 : 0, "data-index": index,
    onclick: () => pick(index),
    onpointerenter: (event) => event.pointerType === "mouse" && point(index),
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

/** The lines of some heads that can be seen, and of too many the strongest. */
function strongestLines(view, layer, heads, isShown) {
  const lines = [];
  heads.forEach((head, order) => view.at(layer, head).forEach((weight, place) => {
    if (weight < FAINTEST) return;
    const query = Math.floor(place / view.keys.length), key = place % view.keys.length;
    if (isShown(query, key)) lines.push({ order, query, key, weight });
  }));
  const total = lines.length;
  if (total > MOST) lines.sort((a, b) => b.weight - a.weight).length = MOST;
  return { lines, total };
}

function drawLines(canvas, width, height, row, lines, heads) {
  const ratio = window.devicePixelRatio || 1;
  const context = prepareCanvas(canvas, width, height);
  const colours = heads.map((head) => bytesOf(headColour(head)));
  const spread = Math.min(2, (row * 0.6) / heads.length); // The lines of different heads lie side by side.
  const drawn = lines.map(({ order, query, key, weight }) => {
    const shift = row / 2 + (order - (heads.length - 1) / 2) * spread;
    const [left, right] = [query, key].map((place) => (place * row + shift) * ratio);
    return { left, right, ink: Math.min(1, weight), colour: colours[order] };
  });
  const thickness = (heads.length > 8 ? 1.2 : 1.8) * ratio;
  const paper = bytesOf(styleValue("--paper"));
  context.putImageData(rasterise(canvas.width, canvas.height, paper, drawn, thickness), 0, 0);
}

/** A word and what it looks at most, in a line. */
function told(view, weights, query, count) {
  const parts = view.strongest(weights, query, count)
    .flatMap(({ text, weight }) => [" · ", word(text), ` ${weight.toFixed(2)}`]);
  return [word(view.queries[query].text), " looks at ", ...parts.slice(1)];
}

export function linesView(attention, state, change) {
  const view = attention.view(state.kind, state.inWords);
  let pointed = null; // (side, index) under the mouse or the focus
  const point = (side) => (index) => {
    pointed = index === null ? null : { side, index };
    update();
  };
  const pick = (side) => (index) => change({ [side]: toggled(state[side], index) });
  const queries = wordList("Words that look", "queries", view.queries, pick("queries"), point("queries"));
  const keys = wordList("Words that are looked at", "keys", view.keys, pick("keys"), point("keys"));
  const canvas = element("canvas", { "aria-hidden": "true" });
  const readout = element("p", { class: "readout", role: "status" });
  const behind = tableBehind(() => tableOfLines(view, state, chosenHeads(state, attention)));
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
    readout.replaceChildren(...(from.length === 1 ? told(view, mean, from[0], 4) : hint(state, total, change)));
    behind.update();
  }
  return { node: element("div", {}, readout, picture, behind.node), update };
}

const strongestOf = (list, weight) => Math.max(0, ...list.map(weight));

/** Marks the words of a column that are picked, and those at the other end of strong lines. */
function shade(options, picked, all, active, weightOf) {
  const accent = styleValue("--accent");
  options.forEach((option, index) => {
    option.setAttribute("aria-selected", picked.includes(index));
    const weight = all || active.includes(index) ? 0 : weightOf(index);
    option.style.backgroundColor = weight > FAINTEST ? `color-mix(in oklab, ${accent} ${Math.round(weight * 60)}%, transparent)` : "";
    option.classList.toggle("dim", !all && !active.includes(index) && weight <= FAINTEST);
  });
}

function hint(state, total, change) {
  const cut = total > MOST ? ` Of ${total.toLocaleString("en")} lines the strongest ${MOST} are drawn.` : "";
  if (!state.queries.length && !state.keys.length) return [`Pick words to see where they look.${cut}`];
  const clear = element("button", { type: "button", onclick: () => change({ queries: [], keys: [] }) }, "Clear");
  return [`${state.queries.length + state.keys.length} words picked.${cut} `, clear];
}

function tableOfLines(view, state, heads) {
  const mean = view.mean(state.layer, heads);
  const shown = state.queries.length ? state.queries : view.queries.map((_, query) => query);
  const rows = shown.map((query) => [view.queries[query].text,
    ...view.strongest(mean, query, 3).map(({ text, weight }) => `${text} ${weight.toFixed(2)}`)]);
  const caption = `Layer ${state.layer + 1}, mean of ${heads.length} heads: what each word looks at most`;
  return table(caption, ["Word", "most", "second", "third"], rows);
}
