// The translation: words that can be pointed at, and clicked for alternatives.

import { element } from "./explorer/elements.js";

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/**
 * @param {(word: number | null) => void} pointed called with the word under the pointer, or in focus
 * @param {(word: number, node: Element) => void} chosen called with the word that was clicked, and its node
 */
export function targetField(pointed, chosen) {
  const help = "Arrow keys move between words; Enter shows alternatives.";
  const node = element("div", { class: "target", dir: "auto", role: "group", "aria-label": `Translation. ${help}` });
  let words = [];

  /** The text, word by word; words can be chosen if the text is `complete`. */
  function show(text, complete) {
    const focused = words.indexOf(document.activeElement);
    words = [];
    node.replaceChildren(...text.split(/(\s+)/).filter(Boolean).map((part) => {
      if (!part.trim()) return part;
      const number = words.length;
      const span = complete
        ? element("span", { class: "word", role: "button", tabindex: number ? -1 : 0, "aria-haspopup": "menu" }, part)
        : element("span", {}, part);
      words.push(span);
      return span;
    }));
    node.classList.toggle("growing", !complete && text !== "");
    if (focused >= 0 && complete) focusOn(Math.min(focused, words.length - 1));
  }
  function focusOn(number) {
    const wanted = words[number];
    if (!wanted) return;
    for (const span of words) span.tabIndex = span === wanted ? 0 : -1;
    wanted.focus();
  }
  const numberOf = (event) => words.indexOf(event.target.closest?.(".word"));
  node.addEventListener("pointerover", (event) => pointed(numberOf(event) < 0 ? null : numberOf(event)));
  node.addEventListener("pointerleave", () => pointed(null));
  node.addEventListener("focusin", (event) => pointed(numberOf(event)));
  node.addEventListener("focusout", () => pointed(null));
  node.addEventListener("click", (event) => {
    const number = numberOf(event);
    if (number < 0) return;
    focusOn(number);
    chosen(number, words[number]);
  });
  node.addEventListener("keydown", (event) => {
    const number = numberOf(event);
    if (number < 0) return;
    if (event.key === "Enter" || event.key === " ") chosen(number, words[number]);
    else if (event.key in STEPS) focusOn(number + STEPS[event.key]);
    else if (event.key === "Home") focusOn(0);
    else if (event.key === "End") focusOn(words.length - 1);
    else return;
    event.preventDefault();
  });
  const mark = (numbers) => words.forEach((span, number) => span.classList.toggle("linked", numbers.has(number)));
  return { node, show, mark, focusOn };
}
