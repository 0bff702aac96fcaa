// The Transformer (paper 3), one position at a time, with its attention in view and heads that can be switched off.

import { layerNorm, linear, logSoftmax, plus } from "./tensors.js";

const START = 1, END = 2;

const wave = (isCosine, angle) => (isCosine ? Math.cos(angle) : Math.sin(angle));

/** The position encodings that are added to embeddings, by name: component i of a position. */
const ENCODINGS = {
  /** `PE(pos, 2i) = sin(pos / 10000^(2i / d_model))`, and the cosine at 2i + 1 (3.5). */
  sinusoidal: (place, i, width) => wave(i % 2, place / 10000 ** ((i - (i % 2)) / width)),
  /** All sines before all cosines. */
  concatenated: (place, i, width) => {
    const half = width / 2;
    return wave(i >= half, place / 10000 ** ((i % half) / Math.max(1, half - 1)));
  },
};
/** Rotary positions: each pair of components, turned by the angle `place / 10000^(2i / d_k)`. */
function turned(x, place, d_k) {
  return x.map((value, i) => {
    const angle = place / 10000 ** (((i % d_k) - (i % 2)) / d_k);
    return Math.cos(angle) * value + (i % 2 ? 1 : -1) * Math.sin(angle) * x[i ^ 1];
  });
}

export class Network {
  /**
   * @param {object} tensors name -> weights
   * @param {object} sizes of the model, as its configuration names them
   */
  constructor(tensors, sizes) {
    Object.assign(this, sizes, { tensors, off: new Set(), seen: null });
  }

  /** The name of a head in `off`; `layer` and `head` count from 0. */
  static nameOf(kind, layer, head) {
    return `${kind} ${layer} ${head}`;
  }

  map(x, name) {
    return linear(x, this.tensors[`${name}.weight`], this.tensors[`${name}.bias`]);
  }

  norm(x, name) {
    return layerNorm(x, this.tensors[`${name}.weight`], this.tensors[`${name}.bias`], this.layer_norm_epsilon);
  }

  /** A sub-layer with its residual connection: `LayerNorm(x + Sublayer(x))` (3.1), or pre-norm. */
  residual(x, name, sublayer) {
    if (this.norm_place === "pre") return plus(x, sublayer(this.norm(x, `${name}.norm`)));
    return this.norm(plus(x, sublayer(x)), `${name}.norm`);
  }

  /** Equation 2. */
  feedForward(x, name) {
    return this.map(this.map(x, `${name}.inner`).map((value) => Math.max(0, value)), `${name}.outer`);
  }

  /** Equation 1 in each head, joined and projected (3.2.2); a head that is off adds nothing. */
  attend(kind, layer, query, keys, values, name) {
    const { num_heads: heads, d_k, d_v } = this, joined = new Float32Array(heads * d_v);
    for (let head = 0; head < heads; head++) {
      const scores = keys.map((key) => {
        let sum = 0;
        for (let i = head * d_k; i < (head + 1) * d_k; i++) sum += query[i] * key[i];
        return sum / Math.sqrt(d_k);
      });
      const weights = logSoftmax(scores).map(Math.exp);
      this.seen?.(kind, layer, head, weights);
      if (this.off.has(Network.nameOf(kind, layer, head))) continue;
      weights.forEach((weight, place) => {
        for (let i = head * d_v; i < (head + 1) * d_v; i++) joined[i] += weight * values[place][i];
      });
    }
    return this.map(joined, `${name}.output`);
  }

  embed(role, token, place) {
    const width = this.d_model, scale = this.scaled_embeddings ? Math.sqrt(width) : 1;
    const isZero = role === "target" && token === START && this.decoder_start === "zeros";
    const row = this.tensors[this.matrices[role]].subarray(token * width, (token + 1) * width);
    const encoding = ENCODINGS[this.positions] ?? (() => 0);
    return row.map((value, i) => (isZero ? 0 : value * scale) + encoding(place, i, width));
  }

  /** Cut what a packed projection gives into keys and values of all heads. */
  cut(packed) {
    const behind = this.num_heads * this.d_k;
    return { key: packed.subarray(0, behind), value: packed.subarray(behind) };
  }

  /** Cut a packed projection of self-attention into queries, keys and values; rotary positions turn the first two. */
  cutOwn(packed, place) {
    const behind = this.num_heads * this.d_k, { key, value } = this.cut(packed.subarray(behind));
    const turn = (x) => (this.positions === "rotary" ? turned(x, place, this.d_k) : x);
    return { query: turn(packed.subarray(0, behind)), key: turn(key), value };
  }

  /** A recurrent unit in the place of the decoder's self-attention: `c = f c + (1 - f) W x`; it gives `relu(c)`. */
  recur(x, cell, name) {
    const forget = this.map(x, `${name}.forget`).map((value) => 1 / (1 + Math.exp(-value)));
    const next = this.map(x, `${name}.candidate`).map((value, i) => forget[i] * (cell?.[i] ?? 0) + (1 - forget[i]) * value);
    return { cell: next, output: next.map((value) => Math.max(0, value)) };
  }

  /** What the decoder reads of a source: keys and values of each of its layers. */
  encode(source) {
    let rows = [...source, END].map((token, place) => this.embed("source", token, place));
    for (let layer = 0; layer < this.num_layers; layer++) {
      const name = `encoder.${layer}`, attention = `${name}.self_attention`;
      const input = rows.map((x) => (this.norm_place === "pre" ? this.norm(x, `${name}.after_self_attention.norm`) : x));
      const parts = input.map((x, place) => this.cutOwn(this.map(x, `${attention}.query_key_value`), place));
      const keys = parts.map(({ key }) => key), values = parts.map(({ value }) => value);
      rows = rows.map((x, place) => {
        const attended = this.residual(x, `${name}.after_self_attention`,
          () => this.attend("encoder", layer, parts[place].query, keys, values, attention));
        return this.residual(attended, `${name}.after_feed_forward`, (y) => this.feedForward(y, `${name}.feed_forward`));
      });
    }
    if (this.norm_place === "pre") rows = rows.map((x) => this.norm(x, "encoder_norm"));
    return Array.from({ length: this.decoder_layers }, (_, layer) => {
      const parts = rows.map((x) => this.cut(this.map(x, `decoder.${layer}.cross_attention.key_value`)));
      return { keys: parts.map(({ key }) => key), values: parts.map(({ value }) => value) };
    });
  }

  /** The state of a decoder that has read nothing. */
  begin() {
    return { length: 0, layers: Array.from({ length: this.decoder_layers }, () => ({ keys: [], values: [] })) };
  }

  /** Read one more token: the log-probabilities of the next one, and the new state; the old one stays as it is. */
  step(memory, state, token = START) {
    let x = this.embed("target", token, state.length);
    const layers = state.layers.map(({ keys, values, cell }, layer) => {
      const name = `decoder.${layer}`, own = `${name}.self_attention`, kept = {};
      x = this.residual(x, `${name}.after_self_attention`, (y) => {
        if (this.autoregression === "ssru") {
          const { cell: next, output } = this.recur(y, cell, own);
          kept.cell = next;
          return output;
        }
        const { query, key, value } = this.cutOwn(this.map(y, `${own}.query_key_value`), state.length);
        Object.assign(kept, { keys: [...keys, key], values: [...values, value] });
        return this.attend("decoder", layer, query, kept.keys, kept.values, own);
      });
      x = this.residual(x, `${name}.after_cross_attention`, (y) => this.attend("cross", layer,
        this.map(y, `${name}.cross_attention.query`), memory[layer].keys, memory[layer].values, `${name}.cross_attention`));
      x = this.residual(x, `${name}.after_feed_forward`, (y) => this.feedForward(y, `${name}.feed_forward`));
      return kept;
    });
    if (this.norm_place === "pre") x = this.norm(x, "decoder_norm");
    const logits = linear(x, this.tensors[this.matrices.output], this.tensors["embeddings.bias"]);
    return { logProbs: logSoftmax(logits), state: { length: state.length + 1, layers } };
  }

  /** The attention of all heads while the model reads a source and writes a target: kind -> layer -> head -> rows. */
  look(source, target) {
    const seen = {};
    this.seen = (kind, layer, head, weights) => {
      ((((seen[kind] ??= [])[layer] ??= [])[head] ??= [])).push(weights);
    };
    const memory = this.encode(source);
    let { state } = this.step(memory, this.begin());
    for (const token of target) ({ state } = this.step(memory, state, token));
    this.seen = null;
    return seen;
  }
}
