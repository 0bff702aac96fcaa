// The attention explorer: `explore(element, contents)`; see ../page.py for the contents.

import { element, word } from "./elements.js";
import { Attention } from "./attention.js";
import { KINDS, readFragment, writeFragment } from "./state.js";
import { controls } from "./controls.js";
import { linesView } from "./lines.js";
import { matrixView } from "./matrix.js";
import { headsView } from "./heads.js";
import { measuresView } from "./measures.js";

const MAKERS = { lines: linesView, matrix: matrixView, heads: headsView, measures: measuresView };

function remember(state) {
  try {
    history.replaceState(null, "", writeFragment(state));
  } catch {
    // A page within a notebook has no address.
  }
}

/** Show attention in an element, as the fragment of the address says. */
export async function explore(root, contents) {
  const attention = await Attention.open(contents);
  const state = readFragment(location.hash, attention);
  const picture = element("section", { "aria-label": "Picture" });
  const meaning = element("p", { class: "meaning" });
  let shown = null, shownFor = "";

  function show() {
    const wanted = [state.view, state.kind, state.inWords].join();
    if (wanted !== shownFor) {
      shown = MAKERS[state.view](attention, state, change);
      shownFor = wanted;
      picture.replaceChildren(shown.node);
    }
    meaning.textContent = KINDS[state.kind][1];
    panel.update();
    shown.update();
  }
  function change(changes) {
    Object.assign(state, changes);
    remember(state);
    show();
  }
  const panel = controls(attention, state, change);
  const { source, target } = attention.sequences;
  root.replaceChildren(
    element("header", {}, element("h1", {}, "Attention"),
      element("p", {}, word(source.text)), element("p", {}, word(target.text))),
    panel.node, meaning, picture,
    element("footer", {}, "Weights are shown to 0.004: they are kept as square roots in 8 bits."));
  window.addEventListener("hashchange", () => change(readFragment(location.hash, attention)));
  window.addEventListener("resize", () => shown.update());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
  root.dataset.ready = "yes";
  performance.mark("explorer is drawn");
}
