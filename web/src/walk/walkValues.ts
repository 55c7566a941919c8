// The numbers that move in the walk: all of one layer and one head, from the trace.
import type { NumberArray } from "../api/arrays";
import type { Model } from "../api/types";
import { sinusoids } from "../maths/attention";
import { attentionPath, type AttentionKind } from "../state/attention";
import type { Trace } from "../state/trace";

export interface AttentionValues {
  q: NumberArray | null;
  k: NumberArray | null;
  v: NumberArray | null;
  /** Of this head. */
  scores: NumberArray | null;
  weights: NumberArray;
  /** The outputs of all heads: H × L × K. */
  heads: NumberArray | null;
  out: NumberArray | null;
}

export interface WalkValues {
  embedded: NumberArray | null;
  /** The embedding alone and the positional encoding, if the model adds sinusoids. */
  embedding: NumberArray | null;
  position: NumberArray | null;
  encoder: AttentionValues;
  encoderNormed: NumberArray | null;
  encoderHidden: NumberArray | null;
  encoderOut: NumberArray | null;
  memory: NumberArray | null;
  target: NumberArray | null;
  decoder: AttentionValues;
  decoderNormed: NumberArray | null;
  cross: AttentionValues;
  crossNormed: NumberArray | null;
  decoderHidden: NumberArray | null;
  decoderOut: NumberArray | null;
  decoderTop: NumberArray | null;
}

export interface Selection {
  encoderLayer: number;
  decoderLayer: number;
  head: number;
}

export async function loadWalkValues(trace: Trace, model: Model, { encoderLayer, decoderLayer, head }: Selection): Promise<WalkValues> {
  const { norm_order, n_decoder_layers, position } = model.config;
  const last = norm_order === "post" ? "normed" : "resid";
  // A file may lack some of the values: what is missing is not drawn.
  const tap = (path: string, of?: number): Promise<NumberArray | null> =>
    trace.has(path) ? trace.tensor(path, of).catch(() => null) : Promise.resolve(null);
  const attention = async (kind: AttentionKind, layer: number): Promise<AttentionValues> => {
    const where = attentionPath(kind, layer);
    const [q, k, v, scores, heads, out] = await Promise.all([
      ...["q", "k", "v", "scores"].map((name) => tap(`${where}.${name}`, head)),
      tap(`${where}.head_out`),
      tap(`${where}.attn_out`),
    ]);
    return { q, k, v, scores, weights: trace.thumbnail(kind, layer, head), heads, out };
  };
  const [encoder, decoder, cross] = await Promise.all([
    attention("encoder", encoderLayer),
    attention("decoder", decoderLayer),
    attention("cross", decoderLayer),
  ]);
  const [embedded, encoderNormed, encoderHidden, encoderOut, memory, target, decoderNormed, crossNormed, decoderHidden, decoderOut, decoderTop] =
    await Promise.all([
      tap("src_embedded"),
      tap(`encoder.${encoderLayer}.around_attention.${last}`),
      tap(`encoder.${encoderLayer}.ffn.ffn_hidden`),
      tap(`encoder.${encoderLayer}.around_ffn.${last}`),
      tap("memory"),
      tap("tgt_embedded"),
      tap(`decoder.${decoderLayer}.around_attention.${last}`),
      tap(`decoder.${decoderLayer}.around_cross.${last}`),
      tap(`decoder.${decoderLayer}.ffn.ffn_hidden`),
      tap(`decoder.${decoderLayer}.around_ffn.${last}`),
      tap(`decoder.${n_decoder_layers - 1}.around_ffn.${last}`),
    ]);
  const adds = position === "sinusoidal" && !trace.isDisabled("positions") && embedded !== null;
  const table = adds ? { shape: embedded.shape, values: sinusoids(embedded.shape[0], embedded.shape[1]) } : null;
  const embedding = table && embedded ? { shape: embedded.shape, values: embedded.values.map((value, i) => value - table.values[i]) } : embedded;
  return {
    ...{ embedded, embedding, position: table, encoder, encoderNormed, encoderHidden, encoderOut, memory, target },
    ...{ decoder, decoderNormed, cross, crossNormed, decoderHidden, decoderOut, decoderTop },
  };
}
