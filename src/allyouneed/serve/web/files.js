// Files: choose one, or drop it on the page, and its translation is downloaded.

import { element } from "./explorer/elements.js";
import { ask } from "./api.js";
import { Refused } from "./asking.js";

/**
 * @param {string[]} suffixes the endings of names that the server knows
 * @param {() => {from: string, to: string}} languages
 * @param {(text: string, isWrong?: boolean) => void} say
 */
export function fileChoice(suffixes, languages, say) {
  const input = element("input", { type: "file", accept: suffixes.join(","), hidden: true, onchange: () => translate(input.files[0]) });
  const node = element("button", { type: "button", class: "quiet", title: `Or drop one here: ${suffixes.map((each) => each.slice(1)).join(", ")}`, onclick: () => input.click() }, "File …");
  let isBusy = false;

  async function translate(file) {
    input.value = "";
    if (!file || isBusy) return;
    if (!suffixes.some((each) => file.name.toLowerCase().endsWith(each))) {
      return say(`${file.name} is of no kind that is translated: ${suffixes.join(" ")}`, true);
    }
    const form = new FormData(), { from, to } = languages();
    for (const [name, value] of [["source", from], ["target", to], ["file", file]]) form.append(name, value);
    say(`Translating ${file.name} …`);
    node.disabled = isBusy = true;
    try {
      const { translatedFileUrl } = await ask("/translate_file", form);
      element("a", { href: new URL(translatedFileUrl).pathname, download: file.name }).click();
      say(`${file.name} is translated and downloaded.`);
    } catch (error) {
      say(error.message, true);
      if (!(error instanceof Refused)) throw error;
    } finally {
      node.disabled = isBusy = false;
    }
  }
  const ofFiles = (work) => (event) => { // dragged text goes where it always does
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    work(event);
  };
  addEventListener("dragover", ofFiles(() => {}));
  addEventListener("drop", ofFiles((event) => translate(event.dataTransfer.files[0])));
  node.append(input);
  return node;
}
