// Everything in one head, exact, and the same reckoned again in the page.
// Shapes: L query length, M memory length, K head size, D model.
import type { Values } from "../api/arrays";
import * as api from "../api/client";
import type { Intervention, Model } from "../api/types";
import { hideFuture, mix, products, scaled, setInRow, softmaxRows } from "../maths/attention";
import { furthest } from "../maths/numbers";
import { whereOf, type Kind } from "../state/places";
import type { Trace } from "../state/trace";

export interface HeadNumbers {
  kind: Kind;
  L: number;
  M: number;
  size: number;
  width: number;
  q: Values;
  k: Values;
  v: Values;
  /** Q Kᵀ, reckoned in the page. */
  products: Float32Array;
  /** What they are multiplied by, 1 / √d_k in the paper, and the result. */
  scale: number;
  scaled: Float32Array;
  /** Whether the positions add something to that. */
  placed: boolean;
  /** The model's own, all that included. */
  scores: Values;
  /** The same, what may not be seen being −∞; null where everything may. */
  masked: Values | null;
  /** Whether a change has made something else of the softmax's weights. */
  changed: boolean;
  weights: Values;
  out: Values;
  /** The page's own softmax of the scores, times V: how far it is from the model's at most. */
  difference: number;
  /** What this head adds to the stream: its output times its part of W_O; null where the matrix is not at hand. */
  added: Float32Array | null;
}

/** What Q Kᵀ is multiplied by, as the changes in force leave it. */
export function scaleOf(trace: Trace, model: Model): number {
  return trace.lacks("scale") ? 1 : (model.score_scale ?? 1);
}

/** Whether positions are added to the scores of this attention; where they are, only self-attention has them. */
export function placesScores(trace: Trace, model: Model, kind: Kind): boolean {
  return kind !== "cross" && ["alibi", "relative"].includes(model.config.position ?? "") && !trace.lacks("positions");
}

export async function headNumbers(trace: Trace, model: Model, kind: Kind, layer: number, head: number): Promise<HeadNumbers> {
  const where = whereOf(kind, layer);
  if (!trace.has(`${where}.q`)) throw new api.Refusal("no-heads");
  const taps = ["q", "k", "v", "scores", "weights", "head_out"];
  const [q, k, v, scores, weights, out] = await Promise.all(taps.map((tap) => trace.tensor(`${where}.${tap}`, head)));
  const outMatrix = await outPart(model, where, head, q.shape[1]);
  const [L, size] = q.shape;
  const M = k.shape[0];
  const raw = products(q.values, k.values, size);
  const scale = scaleOf(trace, model);
  const multiplied = scaled(raw, scale);
  const placed = placesScores(trace, model, kind);
  const hides = kind === "decoder" && !trace.lacks("mask");
  const changes = trace.interventions.filter((one) => "head" in one && one.where === where && one.head === head);
  // What the positions add is not at hand by itself, only in the model's scores.
  const own = placed ? scores.values : multiplied;
  const shares = softmaxRows(hides ? hideFuture(own, M) : own, M);
  change(shares, changes, M);
  return {
    kind,
    L,
    M,
    size,
    width: model.config.d_model,
    q: q.values,
    k: k.values,
    v: v.values,
    products: raw,
    scale,
    scaled: multiplied,
    placed,
    scores: scores.values,
    masked: hides ? hideFuture(scores.values, M) : null,
    changed: changes.length > 0,
    weights: weights.values,
    out: out.values,
    difference: furthest(mix(shares, v.values, M), out.values),
    added: outMatrix && mix(out.values, outMatrix, size),
  };
}

/** What the changes in force make of a head's weights, in place: first it is switched off, then weights are set. */
function change(weights: Float32Array, changes: Intervention[], M: number): void {
  if (changes.some((one) => one.kind === "head")) weights.fill(0);
  const rows = new Map<number, Map<number, number>>();
  for (const one of changes)
    if (one.kind === "weight") rows.set(one.row, (rows.get(one.row) ?? new Map<number, number>()).set(one.column, one.value));
  for (const [row, columns] of rows) setInRow(weights.subarray(row * M, (row + 1) * M), columns);
}

/** The rows of W_O that belong to this head, as a K×D matrix. The model keeps it as D×(H·K). */
async function outPart(model: Model, where: string, head: number, size: number): Promise<Float32Array | null> {
  try {
    const columns: [number, number] = [head * size, (head + 1) * size];
    const { shape, values } = await api.parameter(model.id, `${where}.out.weight`, { columns });
    const D = shape[0];
    const out = new Float32Array(size * D);
    for (let d = 0; d < D; d++) for (let i = 0; i < size; i++) out[i * D + d] = values[d * size + i];
    return out;
  } catch (failure) {
    if (failure instanceof api.Refusal) return null;
    throw failure;
  }
}
