// The state of the explorer, and its form in the address's fragment, where layers, heads and words count from 1.

export const KINDS = {
  encoder: ["Encoder", "How each word of the source attends to the source."],
  cross: ["Cross", "How the decoder attends to the source as it writes each word."],
  decoder: ["Decoder", "How each word that the decoder has read attends to the words before it."],
};
const VIEWS = { lines: "Lines", matrix: "Matrix", heads: "All heads", measures: "Measures" };

/** The views of an attention; one without measures has no view of them. */
export function viewsOf(attention) {
  const hasMeasures = Object.keys(attention.kinds.cross.measures).length > 0;
  return Object.fromEntries(Object.entries(VIEWS).filter(([name]) => name !== "measures" || hasMeasures));
}

/** Whether pieces can be shown; measures exist only for words. */
export const hasParts = (state) => state.view !== "measures";

/** The initial state. */
function beginning(attention) {
  return {
    kind: "cross", view: "lines", layer: attention.alignment_layer - 1, heads: [], inWords: true,
    queries: [], keys: [], sort: "", descending: true, hasTable: false,
  };
}

const among = (choices, value, otherwise) => (Object.hasOwn(choices, value ?? "") ? value : otherwise);

function numbers(text, count) {
  const chosen = (text ?? "").split(",").map((number) => Number(number) - 1);
  const valid = chosen.filter((number) => Number.isInteger(number) && number >= 0 && number < count);
  return [...new Set(valid)].sort((a, b) => a - b);
}

/** The state that a fragment describes; missing or invalid entries keep their initial value. */
export function readFragment(fragment, attention) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = beginning(attention);
  state.kind = among(attention.kinds, given.get("kind"), state.kind);
  state.view = among(viewsOf(attention), given.get("view"), state.view);
  state.inWords = given.get("pieces") !== "yes";
  [state.layer] = [...numbers(given.get("layer"), attention.numLayers(state.kind)), state.layer];
  state.layer = Math.min(state.layer, attention.numLayers(state.kind) - 1);
  state.heads = numbers(given.get("heads"), attention.numHeads);
  const view = attention.view(state.kind, state.inWords);
  state.queries = numbers(given.get("from"), view.queries.length);
  state.keys = numbers(given.get("to"), view.keys.length);
  state.sort = among(attention.kinds[state.kind].measures, given.get("sort"), "");
  state.descending = given.get("order") !== "ascending";
  return state;
}

/** The fragment that restores a state. */
export function writeFragment(state) {
  const counted = (list) => list.map((number) => number + 1).join(",");
  const named = {
    kind: state.kind, view: state.view, layer: state.layer + 1, heads: counted(state.heads),
    pieces: state.inWords ? "" : "yes", from: counted(state.queries), to: counted(state.keys),
    sort: state.sort, order: state.sort && !state.descending ? "ascending" : "",
  };
  const parts = Object.entries(named).filter(([, value]) => value !== "");
  return `#${parts.map(([name, value]) => `${name}=${value}`).join("&")}`;
}

/** The chosen heads, or all if none is chosen. */
export function chosenHeads(state, attention) {
  return state.heads.length ? state.heads : Array.from({ length: attention.numHeads }, (_, head) => head);
}

/** The sorted list without `number` if it contains it, else with it. */
export function toggled(list, number) {
  return list.includes(number) ? list.filter((other) => other !== number) : [...list, number].sort((a, b) => a - b);
}
