// The input of the first layer: embedding × scale (√d in the paper) + positional encoding, if the model adds one.
import type { Values } from "../api/arrays";
import * as api from "../api/client";
import type { Model } from "../api/types";
import { sinusoids } from "../maths/attention";
import { maxAbs } from "../maths/vectors";
import type { Trace } from "../state/trace";

export interface InputVectors {
  side: "src" | "tgt";
  /** Whether the embedding comes from the model, or is the sum minus the sinusoids. */
  fromModel: boolean;
  embedding: Values;
  /** Null if the model adds none here. */
  position: Values | null;
  sum: Values;
  top: number;
}

export async function loadInputVectors(trace: Trace, model: Model, side: "src" | "tgt"): Promise<InputVectors> {
  const path = side === "src" ? "src_embedded" : "tgt_embedded";
  const { shape, values: sum } = await trace.tensor(path);
  const pieces = side === "src" ? trace.src : trace.decoderInput;
  const rows = await embeddingRows(model, side, pieces.map((token) => token.id));
  const [length, width] = shape;
  const top = 0.6 * maxAbs(sum);
  const adds = ["sinusoidal", "learned"].includes(model.config.position ?? "") && !trace.isDisabled("positions");
  if (rows) {
    const embedding = rows.map((value) => value * model.embedding_scale);
    const position = adds ? sum.map((value, i) => value - embedding[i]) : null;
    return { side, fromModel: true, embedding, position, sum, top };
  }
  const position = adds && model.config.position === "sinusoidal" ? sinusoids(length, width) : null;
  const embedding = position ? sum.map((value, i) => value - position[i]) : sum;
  return { side, fromModel: false, embedding, position, sum, top };
}

async function embeddingRows(model: Model, side: "src" | "tgt", ids: number[]): Promise<Values | null> {
  try {
    return (await api.parameter(model.id, `${side}_embedding.weight`, { rows: ids })).values;
  } catch (failure) {
    if (failure instanceof api.ApiError) return null;
    throw failure;
  }
}
