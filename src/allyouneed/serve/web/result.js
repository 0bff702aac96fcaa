// A translation as the page shows it: segments (sentences), their words, and the links between words.

/** The words of a text; white space separates them. */
export const wordsOf = (text) => text.split(/\s+/).filter(Boolean);

/**
 * The segments of a result of `/api/translate`, with the links of each.
 * @returns {{source: string, text: string, before: string, links: [number, number][]}[]}
 */
export function segmentsOf(result) {
  const links = result.translations[0].alignment ?? [];
  let source = 0, target = 0;
  return result.segments.map((segment) => {
    const numSource = wordsOf(segment.source).length, numTarget = wordsOf(segment.text).length;
    const own = links
      .map(([i, j]) => [i - source, j - target])
      .filter(([i, j]) => i >= 0 && j >= 0 && i < numSource && j < numTarget);
    source += numSource;
    target += numTarget;
    return { ...segment, links: own };
  });
}

/** The whole translation of some segments, each after the white space before it. */
export const textOf = (segments) => segments.map(({ before, text }) => before + text).join("");

/** Links between all words of the text and of the translation. */
export function linksOf(segments) {
  const links = [];
  let source = 0, target = 0;
  for (const segment of segments) {
    for (const [i, j] of segment.links) links.push([i + source, j + target]);
    source += wordsOf(segment.source).length;
    target += wordsOf(segment.text).length;
  }
  return links;
}

/** The segment that a word of the translation is in, and the word's place there. */
export function placeOf(segments, word) {
  let before = 0;
  for (const [number, segment] of segments.entries()) {
    const count = wordsOf(segment.text).length;
    if (word < before + count) return { number, place: word - before };
    before += count;
  }
  return null;
}

/** Translations of a segment that begin with the words before `place`, each with another next word. */
export function alternativesOf(translations, segment, place) {
  const own = wordsOf(segment.text), before = own.slice(0, place);
  const found = new Map();
  for (const { text, alignment } of translations) {
    const words = wordsOf(text), next = words[place];
    const isSame = before.every((word, i) => words[i] === word);
    if (!isSame || next === undefined || next === own[place] || found.has(next)) continue;
    found.set(next, { next, rest: words.slice(place + 1).join(" "), text, links: alignment });
  }
  return [...found.values()];
}
