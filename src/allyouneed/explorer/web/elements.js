// Nodes of the page. Strings become text, never markup.

/** A node with attributes, listeners (`onclick`) and children, which are nodes or strings. */
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** A word, isolated so that its writing direction does not affect its neighbours. */
export const word = (text) => element("bdi", {}, text);

/** The drawing context of a canvas, kept in main memory, where this page computes the pixels. */
export const contextOf = (canvas) => canvas.getContext("2d", { willReadFrequently: true });

const MOST_PIXELS = 2 ** 28, MOST_SIDE = 2 ** 15 - 1; // beyond, browsers draw nothing

/** Resize a canvas (in CSS pixels, sharp on any screen), clear it, and return its drawing context. */
export function prepareCanvas(canvas, width, height) {
  const most = Math.min(MOST_PIXELS / (width * height), (MOST_SIDE / Math.max(width, height)) ** 2);
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(most));
  const size = [width, height].map((length) => Math.round(length * ratio));
  const context = contextOf(canvas);
  if (canvas.width !== size[0] || canvas.height !== size[1]) {
    [canvas.width, canvas.height] = size;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** The value of a custom property of the style sheet at a node, for the current light or dark theme. */
export const styleValue = (node, name) => getComputedStyle(node).getPropertyValue(name).trim();

/** The colour of a head for drawing on a node; adjacent heads differ strongly. */
export function headColour(node, head) {
  const hue = (255 + head * 137.5) % 360;
  return `oklch(${styleValue(node, head % 2 ? "--head-odd" : "--head-even")} ${hue})`;
}

const bytes = new Map();

/** The red, green and blue bytes of a colour. */
export function bytesOf(colour) {
  if (!bytes.has(colour)) {
    const context = contextOf(element("canvas", { width: 1, height: 1 }));
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    bytes.set(colour, [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
  }
  return bytes.get(colour);
}

/** Black or white, whichever contrasts more with a colour (red, green and blue bytes): at least 4.5:1. */
export function textOn(colour) {
  const [red, green, blue] = colour.map((byte) => (byte <= 10 ? byte / 3294.6 : ((byte + 14.025) / 269.025) ** 2.4));
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue; // as WCAG 2 defines it
  return luminance > 0.179 ? "black" : "white";
}

/** The picture's values in a table that is made when opened, and stays open for the next picture. */
export function tableBehind(state, makeTable) {
  const details = element("details", { class: "behind", open: state.hasTable }, element("summary", {}, "As a table"));
  let shownFor = "";
  const show = () => {
    state.hasTable = details.open;
    const { layer, heads, queries, keys } = state;
    const wanted = details.open ? JSON.stringify([layer, heads, queries, keys]) : "";
    if (wanted === shownFor) return;
    shownFor = wanted;
    while (details.children.length > 1) details.lastChild.remove();
    if (details.open) details.append(element("div", { class: "scroll" }, makeTable()));
  };
  details.addEventListener("toggle", () => details.open !== state.hasTable && show());
  return { node: details, update: show };
}

const MOST_COLUMNS = 200, MOST_CELLS = 40000; // of a table; browsers take seconds for more

/** A table from its caption, column names, and rows, each of which starts with its name; it says if it is cut. */
export function table(caption, columns, rows) {
  const numColumns = Math.min(columns.length, MOST_COLUMNS + 1), numRows = Math.floor(MOST_CELLS / (numColumns - 1));
  const cut = [[numRows, rows.length, "rows"], [numColumns - 1, columns.length - 1, "columns"]]
    .filter(([shown, all]) => shown < all)
    .map(([shown, all, what]) => `the first ${shown.toLocaleString("en")} of ${all.toLocaleString("en")} ${what}`);
  const header = columns.slice(0, numColumns).map((name) => element("th", { scope: "col" }, word(name)));
  const body = rows.slice(0, numRows).map(([name, ...values]) => element("tr", {}, element("th", { scope: "row" }, word(name)),
    ...values.slice(0, numColumns - 1).map((value) => element("td", {}, word(value)))));
  return element("table", {}, element("caption", {}, caption, cut.length ? `. Only ${cut.join(" and ")} are listed.` : ""),
    element("thead", {}, element("tr", {}, ...header)), element("tbody", {}, ...body));
}
