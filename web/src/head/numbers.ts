// Everything in one head, exact, and the same reckoned again in the page.
// Shapes: L query length, M memory length, K head size, D model.
import type { Values } from "../api/arrays";
import * as api from "../api/client";
import type { Model } from "../api/types";
import { hideFuture, mix, products, scaled, softmaxRows } from "../maths/attention";
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
  /** The model's own, after ÷ √d_k and whatever the positions add. */
  scores: Values;
  masked: Values;
  weights: Values;
  out: Values;
  /** The page's own softmax(Q Kᵀ / √d_k) V: how far it is from the model's at most. */
  difference: number;
  /** What this head adds to the stream: its output times its part of W_O; null where the matrix is not at hand. */
  added: Float32Array | null;
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
  const masked = kind === "decoder" ? hideFuture(scores.values, M) : scores.values;
  // These schemes of positions add to the scores, so that Q Kᵀ / √d_k is not yet all of them.
  const added = ["alibi", "relative"].includes(model.config.position);
  const own = added ? scores.values : scaled(raw, size ** -0.5);
  const again = mix(softmaxRows(kind === "decoder" ? hideFuture(own, M) : own, M), v.values, M);
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
    scores: scores.values,
    masked,
    weights: weights.values,
    out: out.values,
    difference: furthest(again, out.values),
    added: outMatrix && mix(out.values, outMatrix, size),
  };
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
