// Constituency trees: read from Penn brackets, laid out, and drawn as SVG.

const SVG = "http://www.w3.org/2000/svg";
const LEVEL = 52, GAP = 18, MARGIN = 16;

/** The tree of brackets such as `(S (NP (NN dog)))`: `{label, children}`; a word has no children. */
export function readTree(brackets) {
  const root = { label: "", children: [] }, open = [root];
  for (const token of brackets.match(/\(|\)|[^\s()]+/g) ?? []) {
    if (token === "(") {
      const node = { label: "", children: [] };
      open.at(-1).children.push(node);
      open.push(node);
    } else if (token === ")") open.pop();
    else if (open.at(-1).label || open.length === 1) open.at(-1).children.push({ label: token, children: null });
    else open.at(-1).label = token;
  }
  return root.children[0] ?? null;
}

/** An SVG of a tree: words on the bottom line, in their order. */
export function drawTree(tree) {
  const svg = make("svg", { class: "tree", role: "img" });
  const lines = make("g", { class: "branches" }), labels = make("g", {});
  svg.append(lines, labels);
  const measure = measurer();
  const depth = depthOf(tree);
  let right = MARGIN;

  function place(node, level) {
    if (!node.children) {
      const width = Math.max(measure(node.label), 12);
      node.x = right + width / 2;
      node.y = MARGIN + depth * LEVEL;
      right += width + GAP;
    } else {
      const start = right;
      for (const child of node.children) place(child, level + 1);
      node.x = (node.children[0].x + node.children.at(-1).x) / 2;
      node.y = MARGIN + level * LEVEL;
      right = Math.max(right, start + measure(node.label) + GAP);
    }
    const label = make("text", { x: node.x, y: node.y + 14, class: node.children ? "label" : "word" });
    label.textContent = node.label;
    labels.append(label);
    for (const child of node.children ?? []) {
      lines.append(make("line", { x1: node.x, y1: node.y + 22, x2: child.x, y2: child.y - 2, class: child.children ? "" : "to-word" }));
    }
  }
  place(tree, 0);
  const width = right - GAP + MARGIN, height = MARGIN + depth * LEVEL + 30;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  return svg;
}

function make(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** The number of levels above the words. */
function depthOf(node) {
  return node.children ? 1 + Math.max(...node.children.map(depthOf)) : 0;
}

function measurer() {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `16px ${getComputedStyle(document.body).fontFamily}`;
  return (text) => context.measureText(text).width;
}
