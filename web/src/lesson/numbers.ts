// The real numbers that the lesson speaks of, for one word of the person's own sentence.
import type { Values } from "../api/arrays";
import type { Model } from "../api/types";
import { sinusoids } from "../maths/attention";
import { dot, row } from "../maths/numbers";
import type { Trace } from "../state/trace";

export interface LessonNumbers {
  place: number;
  embedded: Values;
  /** Only where the scheme is the paper's. */
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

/** All from the first encoder layer and the chosen head, except the mask, which only the decoder has. */
export async function lessonNumbers(trace: Trace, model: Model, place: number, head: number): Promise<LessonNumbers> {
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
  const query = row(q.values, size, place);
  return {
    place,
    embedded: row(embedded.values, width, place),
    position: model.config.position === "sinusoidal" && !trace.lacks("positions") ? row(sinusoids(place + 1, width), width, place) : null,
    q: query,
    k: row(k.values, size, place),
    v: row(v.values, size, place),
    size,
    products: trace.src.map((_, key) => dot(query, row(k.values, size, key))),
    scores: row(scores.values, count, place),
    weights: row(weights.values, count, place),
    mask: mask.values,
    attended: row(attended.values, width, place),
    resid: row(resid.values, width, place),
    normed: row(normed.values, width, place),
    hidden: row(hidden.values, hidden.shape[1], place),
  };
}
