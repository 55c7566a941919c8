// The values that the lesson shows, for one token of the sentence.
import type { Values } from "../api/arrays";
import type { Model } from "../api/types";
import { sinusoids } from "../maths/attention";
import { dot, row } from "../maths/vectors";
import type { Trace } from "../state/trace";

export interface LessonValues {
  index: number;
  embedded: Values;
  /** Null unless the model adds sinusoids. */
  position: Values | null;
  q: Values;
  k: Values;
  v: Values;
  size: number;
  products: number[];
  scores: Values;
  weights: Values;
  mask: Values;
  attended: Values;
  resid: Values;
  normed: Values;
  hidden: Values;
}

/** All from the first encoder layer and the selected head, except `mask`, which is from the decoder. */
export async function loadLessonValues(trace: Trace, model: Model, index: number, head: number): Promise<LessonValues> {
  const where = "encoder.0.attention";
  const [embedded, q, k, v, scores, weights, mask, attended, resid, normed, hidden] = await Promise.all([
    trace.tensor("src_embedded"),
    ...["q", "k", "v", "scores", "weights"].map((tap) => trace.tensor(`${where}.${tap}`, head)),
    trace.tensor("decoder.0.attention.weights", head),
    trace.tensor(`${where}.attn_out`),
    trace.tensor("encoder.0.around_attention.resid"),
    trace.tensor("encoder.0.around_attention.normed"),
    trace.tensor("encoder.0.ffn.ffn_hidden"),
  ]);
  const size = q.shape[1];
  const width = embedded.shape[1];
  const count = trace.src.length;
  const query = row(q.values, size, index);
  return {
    index,
    embedded: row(embedded.values, width, index),
    position: model.config.position === "sinusoidal" && !trace.isDisabled("positions") ? row(sinusoids(index + 1, width), width, index) : null,
    q: query,
    k: row(k.values, size, index),
    v: row(v.values, size, index),
    size,
    products: trace.src.map((_, key) => dot(query, row(k.values, size, key))),
    scores: row(scores.values, count, index),
    weights: row(weights.values, count, index),
    mask: mask.values,
    attended: row(attended.values, width, index),
    resid: row(resid.values, width, index),
    normed: row(normed.values, width, index),
    hidden: row(hidden.values, hidden.shape[1], index),
  };
}
