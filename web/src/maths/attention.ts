// Attention, recomputed in the page from the model's Q, K and V (section 3.2.1 of the paper).
// Shapes: L query length, M memory length, K head size.
import type { Values } from "../api/arrays";
import { dot, row } from "./vectors";

/** Q Kᵀ: one dot product per query and key. */
export function products(q: Values, k: Values, size: number): Float32Array {
  const [L, M] = [q.length / size, k.length / size];
  const out = new Float32Array(L * M);
  for (let i = 0; i < L; i++) {
    const query = row(q, size, i);
    for (let j = 0; j < M; j++) out[i * M + j] = dot(query, row(k, size, j));
  }
  return out;
}

export function scaled(values: Values, factor: number): Float32Array {
  return Float32Array.from(values, (value) => value * factor);
}

/** The causal mask: −∞ for keys after the query. */
export function maskFuture(scores: Values, M: number): Float32Array {
  return Float32Array.from(scores, (score, at) => (at % M > Math.floor(at / M) ? -Infinity : score));
}

export function softmaxRows(scores: Values, M: number): Float32Array {
  const out = new Float32Array(scores.length);
  for (let from = 0; from < scores.length; from += M) {
    let top = -Infinity;
    for (let j = 0; j < M; j++) top = Math.max(top, scores[from + j]);
    let sum = 0;
    for (let j = 0; j < M; j++) sum += out[from + j] = Math.exp(scores[from + j] - top);
    for (let j = 0; j < M; j++) out[from + j] /= sum;
  }
  return out;
}

/** Set some columns of a row, in place; rescale the others so that the row sums to 1. */
export function setInRow(row: Float32Array, columns: Map<number, number>): void {
  for (const column of columns.keys()) row[column] = 0;
  let others = 0;
  for (const weight of row) others += weight;
  let left = 1;
  for (const value of columns.values()) left -= value;
  for (let j = 0; j < row.length; j++) row[j] *= left / Math.max(others, 1e-12);
  for (const [column, value] of columns) row[column] = value;
}

/** The product of an L×M and an M×K matrix. */
export function matmul(weights: Values, v: Values, M: number): Float32Array {
  const [L, size] = [weights.length / M, v.length / M];
  const out = new Float32Array(L * size);
  for (let i = 0; i < L; i++)
    for (let j = 0; j < M; j++) {
      const weight = weights[i * M + j];
      if (weight === 0) continue;
      for (let d = 0; d < size; d++) out[i * size + d] += weight * v[j * size + d];
    }
  return out;
}

/** sin and cos of position / 10000^(2i/D), alternating (section 3.5). */
export function sinusoids(length: number, width: number): Float32Array {
  const out = new Float32Array(length * width);
  for (let position = 0; position < length; position++)
    for (let d = 0; d < width; d++) {
      const angle = position / 10000 ** ((d - (d % 2)) / width);
      out[position * width + d] = d % 2 ? Math.cos(angle) : Math.sin(angle);
    }
  return out;
}
