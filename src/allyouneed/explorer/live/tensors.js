// Weights from a safetensors file, and the arithmetic of vectors; matrices are (outputs, inputs), row by row.

/** Every tensor of a file, by name, as float32; a matrix `x` in 8 bits is its steps times the sizes in `x:scale`. */
export function readTensors(bytes) {
  const size = Number(new DataView(bytes.buffer).getBigUint64(0, true)), start = 8 + size;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, start)));
  delete header.__metadata__;
  const stored = (name) => {
    const { dtype, data_offsets: [first, behind] } = header[name];
    return new (dtype === "I8" ? Int8Array : Float32Array)(bytes.slice(start + first, start + behind).buffer);
  };
  const tensor = (name) => {
    const values = stored(name), scaleName = `${name}:scale`;
    if (!(scaleName in header)) return values;
    const scale = stored(scaleName), width = values.length / scale.length;
    return Float32Array.from(values, (step, place) => step * scale[Math.floor(place / width)]);
  };
  const names = Object.keys(header).filter((name) => !name.endsWith(":scale"));
  return Object.fromEntries(names.map((name) => [name, tensor(name)]));
}

/** `W x + b`; without a bias if there is none. */
export function linear(x, weight, bias) {
  const result = new Float32Array(weight.length / x.length);
  for (let row = 0, place = 0; row < result.length; row++) {
    let sum = bias ? bias[row] : 0;
    for (let column = 0; column < x.length; column++) sum += weight[place++] * x[column];
    result[row] = sum;
  }
  return result;
}

export const plus = (x, y) => x.map((value, place) => value + y[place]);

/** Layer normalisation (3.1). */
export function layerNorm(x, gain, shift, epsilon) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return x.map((value, place) => (value - mean) * scale * gain[place] + shift[place]);
}

export function logSoftmax(logits) {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const total = Math.log(logits.reduce((sum, value) => sum + Math.exp(value - most), 0));
  return Float64Array.from(logits, (value) => value - most - total);
}
