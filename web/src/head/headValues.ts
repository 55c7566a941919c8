// All values of one head, from the model and recomputed in the page.
// Shapes: L query length, M memory length, K head size, D model.
import type { Values } from "../api/arrays";
import * as api from "../api/client";
import type { Intervention, Model } from "../api/types";
import { maskFuture, matmul, products, scaled, setInRow, softmaxRows } from "../maths/attention";
import { maxDifference } from "../maths/vectors";
import { attentionPath, type AttentionKind } from "../state/attention";
import type { Trace } from "../state/trace";

export interface HeadValues {
  kind: AttentionKind;
  L: number;
  M: number;
  size: number;
  width: number;
  q: Values;
  k: Values;
  v: Values;
  /** Q Kᵀ, recomputed in the page. */
  products: Float32Array;
  /** The factor on Q Kᵀ, 1 / √d_k in the paper, and the result. */
  scale: number;
  scaled: Float32Array;
  /** Whether a position bias is added to the scaled products. */
  hasPositionBias: boolean;
  /** From the model, with scale and position bias. */
  scores: Values;
  /** The scores with −∞ in masked cells; null if nothing is masked. */
  masked: Values | null;
  /** Whether an intervention replaces some of the weights. */
  modified: boolean;
  weights: Values;
  out: Values;
  /** The largest difference between the head output recomputed in the page and the model's. */
  difference: number;
  /** The head's contribution to the residual stream: its output times its rows of W_O; null if the file omits the matrix. */
  added: Float32Array | null;
}

/** The factor on Q Kᵀ, with interventions applied. */
export function scoreScale(trace: Trace, model: Model): number {
  return trace.isDisabled("scale") ? 1 : (model.score_scale ?? 1);
}

/** Whether this attention adds a position bias to its scores. Cross-attention never does. */
export function addsPositionBias(trace: Trace, model: Model, kind: AttentionKind): boolean {
  return kind !== "cross" && ["alibi", "relative"].includes(model.config.position ?? "") && !trace.isDisabled("positions");
}

export async function loadHeadValues(trace: Trace, model: Model, kind: AttentionKind, layer: number, head: number): Promise<HeadValues> {
  const where = attentionPath(kind, layer);
  if (!trace.has(`${where}.q`)) throw new api.ApiError("no-heads");
  const taps = ["q", "k", "v", "scores", "weights", "head_out"];
  const [q, k, v, scores, weights, out] = await Promise.all(taps.map((tap) => trace.tensor(`${where}.${tap}`, head)));
  const outMatrix = await outputProjection(model, where, head, q.shape[1]);
  const [L, size] = q.shape;
  const M = k.shape[0];
  const raw = products(q.values, k.values, size);
  const scale = scoreScale(trace, model);
  const multiplied = scaled(raw, scale);
  const hasPositionBias = addsPositionBias(trace, model, kind);
  const isMasked = kind === "decoder" && !trace.isDisabled("mask");
  const interventions = trace.interventions.filter((one) => "head" in one && one.where === where && one.head === head);
  // The API does not give the position bias by itself, only the scores that include it.
  const unmasked = hasPositionBias ? scores.values : multiplied;
  const recomputed = softmaxRows(isMasked ? maskFuture(unmasked, M) : unmasked, M);
  applyInterventions(recomputed, interventions, M);
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
    hasPositionBias,
    scores: scores.values,
    masked: isMasked ? maskFuture(scores.values, M) : null,
    modified: interventions.length > 0,
    weights: weights.values,
    out: out.values,
    difference: maxDifference(matmul(recomputed, v.values, M), out.values),
    added: outMatrix && matmul(out.values, outMatrix, size),
  };
}

/** Apply interventions to a head's weights, in place: first disable the head, then set weights. */
function applyInterventions(weights: Float32Array, interventions: Intervention[], M: number): void {
  if (interventions.some((one) => one.kind === "head")) weights.fill(0);
  const rows = new Map<number, Map<number, number>>();
  for (const one of interventions)
    if (one.kind === "weight") rows.set(one.row, (rows.get(one.row) ?? new Map<number, number>()).set(one.column, one.value));
  for (const [row, columns] of rows) setInRow(weights.subarray(row * M, (row + 1) * M), columns);
}

/** The rows of W_O that belong to this head, as a K×D matrix. The model stores W_O transposed, as D×(H·K). */
async function outputProjection(model: Model, where: string, head: number, size: number): Promise<Float32Array | null> {
  try {
    const columns: [number, number] = [head * size, (head + 1) * size];
    const { shape, values } = await api.parameter(model.id, `${where}.out.weight`, { columns });
    const D = shape[0];
    const out = new Float32Array(size * D);
    for (let d = 0; d < D; d++) for (let i = 0; i < size; i++) out[i * D + d] = values[d * size + i];
    return out;
  } catch (failure) {
    if (failure instanceof api.ApiError) return null;
    throw failure;
  }
}
