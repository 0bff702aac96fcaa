// The parser: write an English sentence, and see its constituency tree.

import { element } from "./explorer/elements.js";
import { ask } from "./api.js";
import { Refused, latest, untilAnswered } from "./asking.js";
import { showAttention } from "./dialog.js";
import { sourceField } from "./source.js";
import { drawTree, readTree } from "./tree.js";

const PAUSE = 500; // milliseconds without a key before the sentence is sent

/** The nodes of the parser, and what to do when it is shown. */
export function parserView(served, parsers) {
  const model = element("select", { "aria-label": "Parser", onchange: () => parse(0), hidden: parsers.length < 2 },
    ...parsers.map(({ name }) => element("option", { value: name }, name)));
  const field = sourceField(
    { label: "Sentence to parse", placeholder: "Write an English sentence", most: served.limits.characters },
    () => parse(PAUSE), () => {});
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const picture = element("div", { class: "picture", tabindex: 0, "aria-label": "Tree" });
  const brackets = element("output", { class: "brackets" });
  const copy = element("button", { type: "button", class: "quiet", onclick: copyTree }, "Copy brackets");
  const look = element("button", { type: "button", class: "quiet", onclick: lookInto }, "Attention");
  let found = null;
  const parse = latest(work);

  async function work(signal) {
    status.textContent = "";
    if (!field.text.trim()) return put(null);
    try {
      const content = { text: field.text.replaceAll("\n", " "), model: model.value };
      const { results: [parsed] } = await untilAnswered(
        () => ask("/api/parse", content, signal),
        ({ message, seconds }) => { status.textContent = `${message} Trying again in ${seconds} s.`; }, signal);
      put(parsed);
      const repaired = parsed.repaired ? " The model's output was repaired." : "";
      status.textContent = `Confidence ${Math.round(100 * parsed.confidence)} %.${repaired}`;
    } catch (error) {
      if (error.name === "AbortError") return;
      put(null);
      status.textContent = error.message;
      if (!(error instanceof Refused)) throw error;
    }
  }
  function put(parsed) {
    const tree = parsed && readTree(parsed.tree);
    found = tree ? parsed : null;
    picture.replaceChildren(...(tree ? [drawTree(tree)] : []));
    picture.querySelector("svg")?.setAttribute("aria-label", parsed.tree);
    brackets.textContent = found ? parsed.tree : "";
    for (const button of [copy, look]) button.disabled = !found;
  }
  async function copyTree() {
    try {
      await navigator.clipboard.writeText(found.tree);
      status.textContent = "Copied.";
    } catch {
      status.textContent = "The browser does not allow copying; select the brackets instead.";
    }
  }
  function lookInto() {
    showAttention(() => ask("/api/attention", { text: field.text.replaceAll("\n", " "), model: model.value }));
  }
  put(null);
  const node = element("div", { class: "parser" }, model,
    element("section", { class: "pane", "aria-label": "Sentence" }, field.node, element("footer", {}, field.count)),
    element("section", { class: "pane", "aria-label": "Tree" }, picture, brackets, element("footer", {}, look, copy)));
  return { nodes: [node, status], start: () => field.area.focus() };
}
