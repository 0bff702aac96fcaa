// Measures of what each head does, in a sortable table.

import { element } from "./elements.js";

/** The name and meaning of each measure. */
export const MEASURES = {
  entropy: ["Entropy", "in bits: 0 if all weight is on one word, more if it is on many"],
  distance: ["Distance", "mean distance to the words attended to, in words"],
  diagonal: ["Diagonal", "weight on the word itself; across languages, on the word at the same position"],
  previous: ["Previous", "weight on the previous word"],
  next: ["Next", "weight on the next word"],
  control: ["Control", "weight on the end symbol </s>, in the decoder on the start symbol <s>"],
  agreement: ["Agreement", "F-measure of the strongest links against the word alignment, from 0 to 1"],
};

export function measuresView(attention, state, change) {
  const { measures } = attention.kinds[state.kind];
  const names = Object.keys(measures);
  const headers = names.map((name) => {
    const sort = () => change({ sort: name, descending: state.sort === name ? !state.descending : true });
    return element("th", { scope: "col", title: MEASURES[name][1] },
      element("button", { type: "button", onclick: sort }, MEASURES[name][0]));
  });
  const rows = rowsOf(attention, measures, names, change);
  const body = element("tbody");
  let shownIn = null; // current order of the rows
  const update = () => {
    const order = [state.sort, state.descending].join();
    if (order === shownIn) return;
    shownIn = order;
    headers.forEach((header, column) => {
      const sorted = state.descending ? "descending" : "ascending";
      header.setAttribute("aria-sort", state.sort === names[column] ? sorted : "none");
    });
    const sign = state.descending ? -1 : 1;
    const value = ({ layer, head }) => measures[state.sort][layer][head];
    const sorted = state.sort ? rows.toSorted((a, b) => sign * (value(a) - value(b))) : rows;
    body.replaceChildren(...sorted.map(({ node }) => node));
  };
  const corner = element("th", { scope: "col", "aria-sort": "none" },
    element("button", { type: "button", onclick: () => change({ sort: "" }) }, "Head"));
  const meanings = names.flatMap((name) => [element("dt", {}, MEASURES[name][0]), element("dd", {}, MEASURES[name][1])]);
  const hint = "Means over the words of this sentence, from exact weights. Click a column to sort by it.";
  const measured = element("table", { class: "measures", "aria-label": "Measures of all heads" },
    element("thead", {}, element("tr", {}, corner, ...headers)), body);
  const node = element("div", {}, element("p", { class: "readout" }, hint),
    element("div", { class: "scroll" }, measured), element("dl", {}, ...meanings));
  return { node, update };
}

function rowsOf(attention, measures, names, change) {
  const largest = Object.fromEntries(names.map((name) => [name, Math.max(1, ...measures[name].flat())]));
  const rows = [];
  for (let layer = 0; layer < measures[names[0]].length; layer++) {
    for (let head = 0; head < attention.numHeads; head++) {
      const open = () => change({ view: "lines", layer, heads: [head] });
      const cells = names.map((name) => {
        const value = measures[name][layer][head];
        const cell = element("td", {}, value.toFixed(2));
        cell.style.setProperty("--share", value / largest[name]);
        return cell;
      });
      const name = element("button", { type: "button", onclick: open }, `Layer ${layer + 1}, head ${head + 1}`);
      rows.push({ layer, head, node: element("tr", {}, element("th", { scope: "row" }, name), ...cells) });
    }
  }
  return rows;
}
