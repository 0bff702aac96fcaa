// The weights of all heads, between pieces or between words.

/** The bytes of compressed base64. */
export async function unpack(packed) {
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The positions of a sequence: text, first piece, and end (exclusive) of each. */
function positions(sequence, inWords) {
  if (inWords) return sequence.words.map(({ text, pieces: [first, behind] }) => ({ text, first, behind }));
  return sequence.pieces.map((text, first) => ({ text, first, behind: first + 1 }));
}

/** The index of each piece's position. */
function positionsOfPieces(positions) {
  return Uint16Array.from(positions.flatMap(({ first, behind }, number) => Array(behind - first).fill(number)));
}

/** Weights of one kind between pieces or words. */
class View {
  constructor(queries, keys, bytes, [layers, heads, numQueries, numKeys]) {
    const keyOf = positionsOfPieces(keys);
    Object.assign(this, { queries, keys, bytes, layers, heads, numQueries, numKeys, keyOf, cache: new Map(), means: new Map() });
  }

  /** The weights of a head in row-major order, a row of keys per query; `layer` and `head` count from 0. */
  at(layer, head) {
    const index = layer * this.heads + head;
    if (!this.cache.has(index)) this.cache.set(index, this.merge(index * this.numQueries * this.numKeys));
    return this.cache.get(index);
  }

  /** Sums over the pieces of a key, means over the pieces of a query; the weights of each piece sum to 1. */
  merge(start) {
    const { numKeys, keyOf, bytes, queries } = this, width = this.keys.length;
    const merged = new Float32Array(queries.length * width), sums = new Float64Array(width);
    for (let query = 0; query < queries.length; query++) {
      const { first, behind } = queries[query];
      for (let piece = first; piece < behind; piece++) {
        const row = start + piece * numKeys;
        let total = 0;
        sums.fill(0);
        for (let key = 0; key < numKeys; key++) {
          const square = bytes[row + key] * bytes[row + key];
          total += square;
          sums[keyOf[key]] += square;
        }
        const share = 1 / (total * (behind - first)); // so that each row sums to one
        for (let key = 0; key < width; key++) merged[query * width + key] += share * sums[key];
      }
    }
    return merged;
  }

  /** The mean of some heads of a layer. */
  mean(layer, heads) {
    if (heads.length === 1) return this.at(layer, heads[0]);
    const name = `${layer} ${heads}`;
    if (!this.means.has(name)) {
      const sum = new Float32Array(this.queries.length * this.keys.length);
      for (const head of heads) {
        const weights = this.at(layer, head);
        for (let place = 0; place < sum.length; place++) sum[place] += weights[place] / heads.length;
      }
      this.means.clear(); // keep only the mean on display
      this.means.set(name, sum);
    }
    return this.means.get(name);
  }

  /** The keys with the largest weights for a query. */
  strongest(weights, query, count) {
    const width = this.keys.length;
    return largest(weights.subarray(query * width, (query + 1) * width), count)
      .map(([key, weight]) => ({ query, key, text: this.keys[key].text, weight }));
  }

  /** The queries with the largest weights on a key. */
  strongestTo(weights, key, count) {
    const column = this.queries.map((_, query) => weights[query * this.keys.length + key]);
    return largest(column, count).map(([query, weight]) => ({ query, key, text: this.queries[query].text, weight }));
  }
}

/** The indices and values of the `count` largest numbers. */
function largest(values, count) {
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, count);
  return order.map((place) => [place, values[place]]);
}

/** The unpacked contents of a document. */
export class Attention {
  static async open(contents) {
    const kinds = Object.entries(contents.kinds);
    const bytes = await Promise.all(kinds.map(([, kind]) => kind.bytes ?? unpack(kind.packed)));
    return new Attention(contents, Object.fromEntries(kinds.map(([name], index) => [name, bytes[index]])));
  }

  constructor(contents, bytes) {
    Object.assign(this, contents, { bytes, views: new Map() });
    [, this.numHeads] = contents.kinds.cross.shape;
  }

  numLayers(kind) {
    return this.kinds[kind].shape[0];
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
