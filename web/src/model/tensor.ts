// Arrays of float32 with a shape, and the few operations on them that a Transformer needs.
//
// Sums are in double precision, since JavaScript has no other; what is stored is rounded to float32.

export interface Tensor {
  shape: number[];
  values: Float32Array;
}

export const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1);

export const zeros = (...shape: number[]): Tensor => ({ shape, values: new Float32Array(sizeOf(shape)) });

/** The size of the last axis. */
export const width = (x: Tensor): number => x.shape[x.shape.length - 1];

/** One entry along the first axis; the numbers are shared. */
export function entry(x: Tensor, index: number): Tensor {
  const shape = x.shape.slice(1);
  const size = sizeOf(shape);
  return { shape, values: x.values.subarray(index * size, (index + 1) * size) };
}

/** Rows of a matrix; the numbers are shared. */
export function rowsOf(matrix: Tensor, first: number, last: number): Tensor {
  const size = width(matrix);
  return { shape: [last - first, size], values: matrix.values.subarray(first * size, last * size) };
}

export function add(x: Tensor, y: Tensor): Tensor {
  const values = new Float32Array(x.values.length);
  for (let i = 0; i < values.length; i++) values[i] = x.values[i] + y.values[i];
  return { shape: x.shape, values };
}

/** y = x Wᵀ + b for every row of x; W has one row per output. */
export function linear(x: Tensor, weight: Tensor, bias: Float32Array | null): Tensor {
  const [n_outputs, n_inputs] = weight.shape;
  const n_rows = x.values.length / n_inputs;
  const values = new Float32Array(n_rows * n_outputs);
  let row = 0;
  for (; row + 4 <= n_rows; row += 4) fourRows(x.values, row * n_inputs, weight, bias, values, row * n_outputs);
  for (; row < n_rows; row++) oneRow(x.values, row * n_inputs, weight, bias, values, row * n_outputs);
  return { shape: [...x.shape.slice(0, -1), n_outputs], values };
}

/** Four rows and two outputs at a time: each number that is loaded is used several times. */
function fourRows(x: Float32Array, from: number, weight: Tensor, bias: Float32Array | null, y: Float32Array, to: number): void {
  const [n_outputs, n] = weight.shape;
  const w = weight.values;
  for (let output = 0; output < n_outputs; output += 2) {
    const first = output * n;
    const second = output + 1 < n_outputs ? first + n : first;
    let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0; // prettier-ignore
    for (let i = 0; i < n; i++) {
      const u = w[first + i];
      const v = w[second + i];
      const x0 = x[from + i];
      const x1 = x[from + n + i];
      const x2 = x[from + 2 * n + i];
      const x3 = x[from + 3 * n + i];
      a0 += u * x0;
      a1 += u * x1;
      a2 += u * x2;
      a3 += u * x3;
      b0 += v * x0;
      b1 += v * x1;
      b2 += v * x2;
      b3 += v * x3;
    }
    const c = bias ? bias[output] : 0;
    const at = to + output;
    y[at] = a0 + c;
    y[at + n_outputs] = a1 + c;
    y[at + 2 * n_outputs] = a2 + c;
    y[at + 3 * n_outputs] = a3 + c;
    if (second === first) return;
    const d = bias ? bias[output + 1] : 0;
    y[at + 1] = b0 + d;
    y[at + n_outputs + 1] = b1 + d;
    y[at + 2 * n_outputs + 1] = b2 + d;
    y[at + 3 * n_outputs + 1] = b3 + d;
  }
}

function oneRow(x: Float32Array, from: number, weight: Tensor, bias: Float32Array | null, y: Float32Array, to: number): void {
  const [n_outputs, n] = weight.shape;
  const w = weight.values;
  for (let output = 0; output < n_outputs; output++) {
    const first = output * n;
    let a = 0, b = 0, c = 0, d = 0; // prettier-ignore
    let i = 0;
    for (; i + 4 <= n; i += 4) {
      a += w[first + i] * x[from + i];
      b += w[first + i + 1] * x[from + i + 1];
      c += w[first + i + 2] * x[from + i + 2];
      d += w[first + i + 3] * x[from + i + 3];
    }
    for (; i < n; i++) a += w[first + i] * x[from + i];
    y[to + output] = a + b + (c + d) + (bias ? bias[output] : 0);
  }
}

/** The softmax of every row, the last axis; a score of −∞ gets the weight 0. */
export function softmax(scores: Tensor): Tensor {
  const n = width(scores);
  const values = new Float32Array(scores.values.length);
  for (let from = 0; from < values.length; from += n) {
    let most = -Infinity;
    for (let i = from; i < from + n; i++) most = Math.max(most, scores.values[i]);
    let sum = 0;
    for (let i = from; i < from + n; i++) sum += values[i] = Math.exp(scores.values[i] - most);
    for (let i = from; i < from + n; i++) values[i] /= sum;
  }
  return { shape: scores.shape, values };
}

/** The logarithm of the softmax of one row of logits. */
export function logSoftmax(logits: Float32Array): Float32Array {
  let most = -Infinity;
  for (const logit of logits) most = Math.max(most, logit);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  const log = most + Math.log(sum);
  return logits.map((logit) => logit - log);
}
