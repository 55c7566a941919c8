// Statistics of vectors, and rows of matrices stored in row-major order.
import type { Values } from "../api/arrays";

export function dot(a: Values, b: Values): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export function row(values: Values, width: number, index: number): Values {
  return values.subarray(index * width, (index + 1) * width);
}

export function mean(values: Values): number {
  let sum = 0;
  for (const value of values) sum += value;
  return values.length ? sum / values.length : 0;
}

export function standardDeviation(values: Values): number {
  const centre = mean(values);
  let sum = 0;
  for (const value of values) sum += (value - centre) ** 2;
  return Math.sqrt(sum / Math.max(values.length, 1));
}

export function norm(values: Values): number {
  return Math.sqrt(dot(values, values));
}

export function maxAbs(values: ArrayLike<number>): number {
  let largest = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > largest && Number.isFinite(size)) largest = size;
  }
  return largest;
}

export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** The largest absolute difference between two vectors of the same length. */
export function maxDifference(a: Values, b: Values): number {
  let largest = 0;
  for (let i = 0; i < a.length; i++) largest = Math.max(largest, Math.abs(a[i] - b[i]));
  return largest;
}
