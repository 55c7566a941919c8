// Small sums over rows of numbers, and how numbers are written.
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

export function deviation(values: Values): number {
  const centre = mean(values);
  let sum = 0;
  for (const value of values) sum += (value - centre) ** 2;
  return Math.sqrt(sum / Math.max(values.length, 1));
}

export function norm(values: Values): number {
  return Math.sqrt(dot(values, values));
}

export function largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) {
    const size = Math.abs(values[i]);
    if (size > most && Number.isFinite(size)) most = size;
  }
  return most;
}

export function argmax(values: ArrayLike<number>): number {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** The largest difference between two rows of the same length. */
export function furthest(a: Values, b: Values): number {
  let most = 0;
  for (let i = 0; i < a.length; i++) most = Math.max(most, Math.abs(a[i] - b[i]));
  return most;
}

export function fixed(value: number, digits = 3): string {
  if (Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  return value.toFixed(digits).replace("-", "−");
}

export function percent(value: number): string {
  const share = value * 100;
  if (share > 0 && share < 0.1) return "<0.1%";
  return `${share.toFixed(share >= 99.95 || share >= 10 ? 0 : 1)}%`;
}

export function tiny(value: number): string {
  if (value === 0) return "0";
  const [digits, power] = value.toExponential(1).split("e");
  return `${digits} × 10${superscript(Number(power))}`;
}

function superscript(power: number): string {
  const marks = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const digits = [...String(Math.abs(power))].map((digit) => marks[Number(digit)]).join("");
  return power < 0 ? `⁻${digits}` : digits;
}
