// The translator: write, and see the translation as it becomes certain.

import { element } from "./explorer/elements.js";
import { ask, stream } from "./api.js";
import { Refused, latest, untilAnswered } from "./asking.js";
import { showAttention } from "./dialog.js";
import { fileChoice } from "./files.js";
import { kept } from "./kept.js";
import { languageChoice } from "./languages.js";
import { openMenu } from "./menu.js";
import { alternativesOf, linksOf, placeOf, segmentsOf, textOf, wordsOf } from "./result.js";
import { sourceField } from "./source.js";
import { targetField } from "./target.js";

const HINT = "Click a word of the translation for alternatives", POINT = "; point at it to see what it translates";
const PAUSE = 300; // milliseconds without a key before the text is sent
const written = kept(() => sessionStorage, "allyouneed-text"); // the text and its languages, as JSON

/** The nodes of the translator, and what to do when it is shown. */
export function translatorView(served) {
  const languages = languageChoice(served, () => translate(0));
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const copy = element("button", { type: "button", class: "quiet", onclick: copyText }, "Copy");
  const undo = element("button", { type: "button", class: "quiet", onclick: takeBack }, "Undo");
  const look = element("button", { type: "button", class: "quiet", onclick: lookInto }, "Attention");
  const clear = element("button", { type: "button", class: "quiet", onclick: () => { source.text = ""; translate(0); source.area.focus(); } }, "Clear");
  const source = sourceField(
    { label: "Text to translate", placeholder: "Write or paste text", most: served.limits.characters },
    () => translate(PAUSE), (word) => mark(word, 0));
  const target = targetField((word) => { pointed = word ?? pointed; mark(word, 1); }, showAlternatives);
  let shown = null; // {result, segments, sent}: `sent` is the text that was translated
  let before = []; // what `undo` brings back
  let pointed = 0;
  let menu = null;
  const translate = latest(work);

  async function work(signal) {
    say("");
    menu?.shut();
    [shown, before] = [null, []]; // what is there is of another text
    for (const button of [copy, look]) button.disabled = true;
    undo.hidden = true;
    target.node.removeAttribute("aria-busy");
    if (!source.text.trim()) return put(null, "");
    if (source.isTooLong) {
      put(null, "");
      return say(`The text is longer than ${served.limits.characters.toLocaleString()} characters; shorten it.`, true);
    }
    const content = { text: source.text, source: languages.from, target: languages.to, alignments: true };
    target.node.setAttribute("aria-busy", "true");
    try {
      const result = await untilAnswered(
        () => stream(content, (text) => { say(""); target.show(text, false); }, signal),
        ({ message, seconds }) => say(`${message[0].toUpperCase()}${message.slice(1)} Trying again in ${seconds} s.`, true),
        signal);
      put({ result, segments: segmentsOf(result), sent: content.text }, result.translations[0].text);
      languages.tell(languages.from === "auto" ? result.source : "");
      say(result.notices.join(" ") || `${HINT}${isLinked() ? POINT : ""}.`);
    } catch (error) {
      if (error.name === "AbortError") return;
      put(null, "");
      say(error.message, true);
      if (!(error instanceof Refused)) throw error;
    } finally {
      if (!signal.aborted) target.node.removeAttribute("aria-busy");
    }
  }
  function put(next, text) {
    shown = next;
    target.show(text, true);
    target.node.lang = languages.to.replaceAll("_", "-");
    mark(null, 0);
    copy.disabled = !shown;
    look.disabled = !shown?.result.models.length; // a text in the target language stays as it is
    undo.hidden = !before.length;
    clear.hidden = !source.text;
  }
  function say(text, isWrong = false) {
    status.textContent = text;
    status.classList.toggle("wrong", isWrong);
  }
  /** Whether links are between the text and its translation: those of the last of several models are not. */
  function isLinked() {
    return shown?.result.models.length === 1;
  }
  /** Mark a word of one side and those linked to it. */
  function mark(word, side) {
    const links = isLinked() && word !== null ? linksOf(shown.segments) : [];
    const linked = [new Set(), new Set()];
    for (const link of links) {
      if (link[side] === word) linked[1 - side].add(link[1 - side]);
    }
    if (linked[1 - side].size) linked[side].add(word);
    source.mark(linked[0]);
    target.mark(linked[1]);
  }
  async function showAlternatives(word, node) {
    menu?.shut();
    const place = shown?.result.models.length && placeOf(shown.segments, word);
    if (!place) return;
    const segment = shown.segments[place.number];
    const leaving = new AbortController();
    menu = openMenu(node, ({ text, links }) => replace(place.number, text, links, word), () => leaving.abort());
    const prefix = wordsOf(segment.text).slice(0, place.place).join(" ");
    const model = shown.result.models.at(-1), opened = menu;
    const content = { text: segment.source, model, prefix, alignments: true };
    try {
      const { alternatives } = await untilAnswered(
        () => ask("/api/alternatives", content, leaving.signal), ({ message }) => opened.fail(message), leaving.signal);
      opened.show(alternativesOf(alternatives, segment, place.place));
    } catch (error) {
      if (error.name !== "AbortError") opened.fail(error.message);
    }
  }
  function replace(number, text, links, word) {
    before.push(shown);
    const segments = shown.segments.map((each, i) => (i === number ? { ...each, text, links } : each));
    show({ ...shown, segments });
    target.focusOn(word);
  }
  function takeBack() {
    show(before.pop());
    target.focusOn(pointed);
  }
  function show(next) {
    put(next, textIn(next));
  }
  function textIn({ result, segments }) {
    const [{ text: whole }] = result.translations;
    return textOf(segments) + whole.slice(whole.trimEnd().length);
  }
  async function copyText() {
    try {
      await navigator.clipboard.writeText(textIn(shown));
      say("Copied.");
    } catch {
      say("The browser does not allow copying; select the text instead.", true);
    }
  }
  function lookInto() {
    const { number } = placeOf(shown.segments, pointed) ?? { number: 0 };
    const { source: text, text: translation } = shown.segments[number];
    showAttention(() => ask("/api/attention", { text, translation, model: shown.result.models.at(-1) }));
  }
  languages.swap.addEventListener("click", () => {
    languages.choose(languages.to, languages.known);
    if (shown?.sent === source.text) source.text = target.node.textContent || source.text; // else it is of another text
    translate(0);
  });
  addEventListener("online", () => translate(0));
  addEventListener("pagehide", () => written.set(JSON.stringify([source.text, languages.from, languages.to])));
  const [text, from, to] = JSON.parse(written.get() ?? "[]");
  if (text) {
    languages.choose(from, to);
    source.text = text;
    translate(0);
  }
  put(null, "");
  const chosen = () => ({ from: languages.from, to: languages.to });
  const files = served.files.length ? [fileChoice(served.files, chosen, say)] : [];
  const node = element("div", { class: "translator" },
    element("div", { class: "languages" }, languages.source, languages.swap, languages.target),
    element("section", { class: "pane", "aria-label": "Source" }, source.node, element("footer", {}, source.count, ...files, clear)),
    element("section", { class: "pane", "aria-label": "Result" }, target.node, element("footer", {}, undo, look, copy)));
  return { nodes: [node, status], start: () => source.area.focus() };
}
