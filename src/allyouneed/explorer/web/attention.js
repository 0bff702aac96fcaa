// The weights of all heads, of pieces or of words.

const SQUARES = Float32Array.from({ length: 256 }, (_, root) => (root / 255) ** 2);

async function unpack(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** A sequence of positions, (text, first piece, behind the last) each. */
function positions(sequence, inWords) {
  if (inWords) return sequence.words.map(({ text, pieces: [first, behind] }) => ({ text, first, behind }));
  return sequence.pieces.map((text, first) => ({ text, first, behind: first + 1 }));
}

/** Weights of one kind between pieces or words. */
class View {
  constructor(queries, keys, bytes, [layers, heads, numQueries, numKeys]) {
    Object.assign(this, { queries, keys, bytes, layers, heads, numQueries, numKeys, cache: new Map() });
  }

  /** The weights of a head, both counted from 0: a row of keys for each query, one after the other. */
  at(layer, head) {
    const index = layer * this.heads + head;
    if (!this.cache.has(index)) this.cache.set(index, this.merge(index * this.numQueries * this.numKeys));
    return this.cache.get(index);
  }

  /** Sums over the pieces that are attended to, means over those that attend. */
  merge(start) {
    const merged = new Float32Array(this.queries.length * this.keys.length);
    let place = 0;
    for (const query of this.queries) {
      for (const key of this.keys) {
        let sum = 0;
        for (let piece = query.first; piece < query.behind; piece++) {
          const row = start + piece * this.numKeys;
          for (let other = key.first; other < key.behind; other++) sum += SQUARES[this.bytes[row + other]];
        }
        merged[place++] = sum / (query.behind - query.first);
      }
    }
    return merged;
  }

  /** The mean of some heads of a layer. */
  mean(layer, heads) {
    if (heads.length === 1) return this.at(layer, heads[0]);
    const sum = new Float32Array(this.queries.length * this.keys.length);
    for (const head of heads) this.at(layer, head).forEach((weight, place) => { sum[place] += weight; });
    return sum.map((weight) => weight / heads.length);
  }

  /** The keys that a query looks at most, with their weights. */
  strongest(weights, query, count) {
    const row = weights.subarray(query * this.keys.length, (query + 1) * this.keys.length);
    const order = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, count);
    return order.map((key) => ({ key, text: this.keys[key].text, weight: row[key] }));
  }
}

/** What a document holds, unpacked. */
export class Attention {
  static async open(contents) {
    const kinds = Object.entries(contents.kinds);
    const bytes = await Promise.all(kinds.map(([, kind]) => unpack(kind.packed)));
    return new Attention(contents, Object.fromEntries(kinds.map(([name], index) => [name, bytes[index]])));
  }

  constructor(contents, bytes) {
    Object.assign(this, contents, { bytes, views: new Map() });
    [this.numLayers, this.numHeads] = contents.kinds.encoder.shape;
    this.links = new Set(contents.alignment.map(([source, written]) => `${written} ${source}`));
  }

  /** The weights of "encoder", "decoder" or "cross", between words or pieces. */
  view(kind, inWords) {
    const name = `${kind} ${inWords}`;
    if (!this.views.has(name)) {
      const { queries, keys, shape } = this.kinds[kind];
      const ends = [queries, keys].map((sequence) => positions(this.sequences[sequence], inWords));
      this.views.set(name, new View(...ends, this.bytes[kind], shape));
    }
    return this.views.get(name);
  }
}
