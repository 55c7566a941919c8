// What goes into the first layer: embedding × scale (√d in the paper) + position, where one is added = sum.
import type { Values } from "../api/arrays";
import * as api from "../api/client";
import type { Model } from "../api/types";
import { sinusoids } from "../maths/attention";
import { largest } from "../maths/numbers";
import type { Trace } from "../state/trace";

export interface InputNumbers {
  side: "src" | "tgt";
  /** Whether the embedding is the model's own, or what is left of the sum without the sinusoids. */
  fromModel: boolean;
  embedding: Values;
  /** Null where the model adds none here. */
  position: Values | null;
  sum: Values;
  top: number;
}

export async function inputNumbers(trace: Trace, model: Model, side: "src" | "tgt"): Promise<InputNumbers> {
  const path = side === "src" ? "src_embedded" : "tgt_embedded";
  const { shape, values: sum } = await trace.tensor(path);
  const pieces = side === "src" ? trace.src : trace.fed;
  const given = await table(model, side, pieces.map((token) => token.id));
  const [length, width] = shape;
  const top = 0.6 * largest(sum);
  const adds = ["sinusoidal", "learned"].includes(model.config.position ?? "") && !trace.lacks("positions");
  if (given) {
    const embedding = given.map((value) => value * model.embedding_scale);
    const position = adds ? sum.map((value, i) => value - embedding[i]) : null;
    return { side, fromModel: true, embedding, position, sum, top };
  }
  const position = adds && model.config.position === "sinusoidal" ? sinusoids(length, width) : null;
  const embedding = position ? sum.map((value, i) => value - position[i]) : sum;
  return { side, fromModel: false, embedding, position, sum, top };
}

async function table(model: Model, side: "src" | "tgt", ids: number[]): Promise<Values | null> {
  try {
    return (await api.parameter(model.id, `${side}_embedding.weight`, { rows: ids })).values;
  } catch (failure) {
    if (failure instanceof api.Refusal) return null;
    throw failure;
  }
}
