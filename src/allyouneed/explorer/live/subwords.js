// Byte-level sub-words (`data/tokenizer_file.py`): text to ids and back, and the words of ids.

const CONTROLS = 5, encoder = new TextEncoder(), decoder = new TextDecoder();

export class Subwords {
  /** @param {{pattern: string, names: string[], merges: string[][]}} contents no pattern: bytes only */
  constructor({ pattern, names, merges }) {
    this.pattern = pattern && new RegExp(pattern, "gu");
    this.names = names;
    this.ids = new Map(names.map((name, id) => [name, id]));
    this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
    this.byteOf = new Map(names.slice(CONTROLS, CONTROLS + 256).map((name, byte) => [name, byte]));
  }

  encode(text) {
    const parts = this.pattern ? (text && ` ${text}`).match(this.pattern) ?? [] : [text];
    return parts.flatMap((part) => this.merged(part).map((name) => this.ids.get(name)));
  }

  /** The pieces of a word: of all neighbours, those that were learned first are joined, again and again. */
  merged(word) {
    const pieces = Array.from(encoder.encode(word), (byte) => this.names[CONTROLS + byte]);
    const rank = (place) => this.ranks.get(`${pieces[place]} ${pieces[place + 1]}`) ?? Infinity;
    for (;;) {
      let best = 0;
      for (let place = 1; place + 1 < pieces.length; place++) if (rank(place) < rank(best)) best = place;
      if (rank(best) === Infinity) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
    }
  }

  decode(ids) {
    const bytes = ids.filter((id) => id >= CONTROLS).flatMap((id) => Array.from(this.names[id], (name) => this.byteOf.get(name)));
    const text = decoder.decode(Uint8Array.from(bytes)).replace(/[\n\r]/g, " ");
    return this.pattern ? text.replace(/^ /, "") : text;
  }

  /** The text of each id, with `▁` for a space. */
  pieces(ids) {
    const pieceOf = (id) => decoder.decode(Uint8Array.from(this.names[id], (name) => this.byteOf.get(name)));
    return ids.map((id) => (id < CONTROLS ? this.names[id] : pieceOf(id).replaceAll(" ", "▁")));
  }
}

/** The words of pieces: text, and range of pieces; a word begins at a space, and where letters and signs meet. */
export function wordsOf(pieces) {
  const words = [];
  pieces.forEach((piece, place) => {
    const isInside = place > 0 && !piece.startsWith("▁") && /[\p{L}\p{M}\p{N}]/u.test(piece[0]) === /[\p{L}\p{M}\p{N}]$/u.test(pieces[place - 1]);
    if (!isInside || /^<\/?s>$/.test(piece)) words.push({ text: "", pieces: [place, place] });
    words.at(-1).text += piece.replaceAll("▁", "");
    words.at(-1).pieces[1] = place + 1;
  });
  return words;
}
