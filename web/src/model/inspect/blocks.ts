// The residual stream of one token: norms before and after each sublayer, and the most active units of a feed-forward
// network, as in inspect/blocks.py.
import type { Stage, Unit } from "../../api/types";
import { entry, type Tensor } from "../tensor";

type Values = ReadonlyMap<string, Tensor>;
type Side = "encoder" | "decoder";
const SUBLAYERS = [
  ["attention", "attn_out"],
  ["cross", "attn_out"],
  ["ffn", "ffn_out"],
] as const;

export const embeddedTap = (side: Side): string => (side === "encoder" ? "src_embedded" : "tgt_embedded");

/** Every sublayer of the encoder or the decoder at one position, in order. */
export function stages(values: Values, side: Side, nLayers: number, position: number, isPre: boolean): Stage[] {
  const at = (path: string): Float32Array => entry(values.get(path)!, position).values;
  let stream = at(embeddedTap(side));
  const found: Stage[] = [];
  for (let layer = 0; layer < nLayers; layer++)
    for (const [sublayer, tap] of SUBLAYERS) {
      const where = `${side}.${layer}.${sublayer}`;
      if (!values.has(`${where}.${tap}`)) continue; // an encoder has no cross-attention
      const change = at(`${where}.${tap}`);
      const resid = at(`${side}.${layer}.around_${sublayer}.resid`);
      const after = isPre ? resid : at(`${side}.${layer}.around_${sublayer}.normed`);
      const cosine = dot(stream, change) / (norm(stream) * norm(change) || 1);
      found.push({ where, before: norm(stream), change: norm(change), resid: norm(resid), after: norm(after), cosine });
      stream = after;
    }
  return found;
}

/** The units of a feed-forward network with the largest absolute activation, in order. */
export function mostActive(values: Values, side: Side, layer: number, position: number, count: number): Unit[] {
  const hidden = entry(values.get(`${side}.${layer}.ffn.ffn_hidden`)!, position).values;
  const units = Array.from(hidden, (value, unit) => ({ unit, value }));
  return units.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, count);
}

const dot = (x: Float32Array, y: Float32Array): number => x.reduce((sum, value, i) => sum + value * y[i], 0);
export const norm = (x: Float32Array): number => Math.sqrt(dot(x, x));
