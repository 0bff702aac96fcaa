// The attention explorer: `explore(element, contents)`; see ../page.py for the contents.

import { element, word } from "./elements.js";
import { Attention } from "./attention.js";
import { KINDS, hasParts, readFragment, writeFragment } from "./state.js";
import { controls } from "./controls.js";
import { linesView } from "./lines.js";
import { matrixView } from "./matrix.js";
import { headsView } from "./heads.js";
import { measuresView } from "./measures.js";

const MAKERS = { lines: linesView, matrix: matrixView, heads: headsView, measures: measuresView };
const KEPT = "Weights are between pieces, stored as 8-bit square roots with errors of at most 0.004; every row sums to one.";

/** Write the state into the page's address; `another` view gets its own entry in the browser's history. */
function remember(state, another) {
  try {
    history[another ? "pushState" : "replaceState"](null, "", writeFragment(state));
  } catch {
    // A page within a notebook has no address.
  }
}

/**
 * Show attention in an element.
 * @param {Element} root
 * @param {object} contents
 * @param {{address?: boolean}} options `address`: keep the state in the fragment of the page's address, so that a
 *   link restores it; only for a page that shows nothing else.
 * @returns {Promise<() => void>} a function that removes the explorer; resolves once the explorer is drawn
 */
export async function explore(root, contents, { address = false } = {}) {
  const attention = await Attention.open(contents);
  const addressed = () => readFragment(address ? location.hash : "", attention);
  const state = addressed();
  const picture = element("section", { "aria-label": "Picture", tabindex: -1 });
  const meaning = element("p", { class: "meaning" });
  const listening = new AbortController(), { signal } = listening;
  let shown = null, shownFor = "";

  function show() {
    const isFocused = picture.contains(document.activeElement);
    const wanted = [state.view, state.kind, hasParts(state) && state.inWords].join();
    if (wanted !== shownFor) {
      shown = MAKERS[state.view](attention, state, change);
      shownFor = wanted;
      picture.replaceChildren(shown.node);
    }
    meaning.textContent = KINDS[state.kind][1];
    panel.update();
    shown.update();
    if (isFocused && !picture.contains(document.activeElement)) picture.focus(); // the focused node is gone
  }
  function change(changes) {
    const another = "view" in changes && changes.view !== state.view;
    Object.assign(state, changes);
    if (address) remember(state, another);
    show();
  }
  const panel = controls(attention, state, change);
  const { source, target } = attention.sequences;
  root.classList.add("attention-explorer");
  root.replaceChildren(
    element("header", {}, element("h1", {}, "Attention"),
      element("p", {}, word(source.text)), element("p", {}, word(target.text))),
    panel.node, meaning, picture, element("footer", {}, KEPT));
  const restore = () => {
    Object.assign(state, addressed(), { hasTable: state.hasTable });
    remember(state, false);
    show();
  };
  if (address) window.addEventListener("hashchange", restore, { signal });
  window.addEventListener("resize", () => shown.update(), { signal });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show, { signal });
  show();
  root.dataset.ready = "yes";
  performance.mark("explorer is drawn");
  return () => {
    listening.abort();
    root.replaceChildren();
    root.classList.remove("attention-explorer");
    delete root.dataset.ready;
  };
}
