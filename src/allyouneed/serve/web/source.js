// The field for the source: a text area over a copy of its text, whose words can be marked.

import { element } from "./explorer/elements.js";

const lengthOf = (text) => [...text].length; // in code points, as the server counts

/**
 * @param {{label: string, placeholder: string, most: number}} options
 * @param {() => void} changed called when the text changes
 * @param {(word: number | null) => void} pointed called with the word under the pointer or the caret
 */
export function sourceField({ label, placeholder, most }, changed, pointed) {
  const area = element("textarea", { "aria-label": label, placeholder, dir: "auto", spellcheck: "true", rows: 1 });
  const mirror = element("div", { class: "mirror", "aria-hidden": "true", dir: "auto" });
  const count = element("output", { class: "count" });
  const node = element("div", { class: "field" }, mirror, area);
  let words = [];

  function draw() {
    const parts = area.value.split(/(\s+)/);
    words = [];
    mirror.replaceChildren(...parts.filter(Boolean).map((part) => {
      if (!part.trim()) return part;
      const span = element("span", {}, part);
      words.push(span);
      return span;
    }), "\u200b");
    const length = lengthOf(area.value);
    count.textContent = `${length.toLocaleString()} / ${most.toLocaleString()}`;
    count.classList.toggle("over", length > most);
  }
  function wordAt(position) {
    const before = area.value.slice(0, position);
    const isInWord = /\S$/.test(before) || /^\S/.test(area.value.slice(position));
    const number = before.split(/\s+/).filter(Boolean).length - (/\S$/.test(before) ? 1 : 0);
    return isInWord && number < words.length ? number : null;
  }
  area.addEventListener("input", () => { draw(); changed(); });
  area.addEventListener("pointermove", (event) => {
    const under = document.elementsFromPoint(event.clientX, event.clientY);
    const number = words.findIndex((span) => under.includes(span));
    pointed(number < 0 ? null : number);
  });
  area.addEventListener("pointerleave", () => pointed(null));
  for (const name of ["keyup", "click"]) {
    area.addEventListener(name, () => pointed(wordAt(area.selectionStart)));
  }
  area.addEventListener("blur", () => pointed(null));
  draw();
  return {
    node, area, count,
    get text() { return area.value; },
    set text(text) { area.value = text; draw(); },
    get isTooLong() { return lengthOf(area.value) > most; },
    mark: (numbers) => words.forEach((span, number) => span.classList.toggle("linked", numbers.has(number))),
  };
}
