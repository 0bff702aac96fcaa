// The choice of languages.

import { element } from "./explorer/elements.js";

/** The selectors of languages; `changed()` is called when another is chosen. */
export function languageChoice({ models, directions: named, languages }, changed) {
  const pairsOf = (codes) => codes.flatMap((source) => codes.filter((code) => code !== source).map((target) => ({ source, target })));
  const directions = [...named, ...models.flatMap((each) => pairsOf(each.languages ?? []))];
  const sources = [...new Set(directions.map(({ source }) => source))];
  const nameOf = (code) => languages[code] ?? code;
  const optionOf = (code) => element("option", { value: code }, code === "auto" ? "Detect language" : nameOf(code));
  const source = element("select", { "aria-label": "Source language" }, ...[...(sources.length > 1 ? ["auto"] : []), ...sources].map(optionOf));
  const target = element("select", { "aria-label": "Target language" });
  const swap = element("button", { type: "button", class: "quiet", "aria-label": "Swap languages", title: "Swap languages" }, "⇄");
  let detected = "";

  const pick = (select, code) => { if ([...select.options].some(({ value }) => value === code)) select.value = code; };
  const isServed = (from, to) => directions.some((each) => each.source === from && each.target === to);
  function offer() {
    const from = source.value;
    const targets = [...new Set(directions.filter((each) => from === "auto" || each.source === from).map((each) => each.target))];
    const before = target.value;
    target.replaceChildren(...targets.map(optionOf));
    pick(target, before);
    update();
  }
  function update() {
    const from = source.value === "auto" ? detected : source.value;
    swap.disabled = !isServed(target.value, from);
  }
  source.addEventListener("change", () => { detected = ""; tell(""); offer(); changed(); });
  target.addEventListener("change", () => { update(); changed(); });

  /** Say which language was detected. */
  function tell(code) {
    detected = code;
    const auto = source.querySelector("option[value=auto]");
    if (auto) auto.textContent = code ? `Detected: ${nameOf(code)}` : "Detect language";
    update();
  }
  /** Choose languages, where they are served. */
  function choose(from, to) {
    pick(source, from);
    detected = "";
    offer();
    pick(target, to);
    update();
  }
  if (sources.length > 1) source.value = sources[0];
  offer();
  return {
    source, target, swap, tell, choose,
    get from() { return source.value; },
    get to() { return target.value; },
    get known() { return source.value === "auto" ? detected : source.value; },
  };
}
