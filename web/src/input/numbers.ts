// What goes into the first layer: embedding × √d + position = sum.
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
  position: Values;
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
  if (given) {
    const root = Math.sqrt(width);
    const embedding = given.map((value) => value * root);
    return { side, fromModel: true, embedding, position: sum.map((value, i) => value - embedding[i]), sum, top };
  }
  const position = model.config.position === "sinusoidal" ? sinusoids(length, width) : new Float32Array(sum.length);
  return { side, fromModel: false, embedding: sum.map((value, i) => value - position[i]), position, sum, top };
}

async function table(model: Model, side: "src" | "tgt", ids: number[]): Promise<Values | null> {
  try {
    return (await api.parameter(model.id, `${side}_embedding.weight`, { rows: ids })).values;
  } catch (failure) {
    if (failure instanceof api.Refusal) return null;
    throw failure;
  }
}
