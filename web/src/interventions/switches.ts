// Every component that can be switched off.
import type { Intervention, Model } from "../api/types";
import { attentionPath } from "../state/attention";
import type { Trace } from "../state/trace";

export type WholeModel = "scale" | "mask" | "positions";

/** Switches for the whole model; not every model has a scale, a causal mask or a positional encoding. */
export function modelSwitches(trace: Trace, model: Model): WholeModel[] {
  return (["scale", "mask", "positions"] as const).filter((kind) => {
    switch (kind) {
      case "scale":
        return model.score_scale !== null && model.score_scale !== 1;
      case "mask":
        return trace.kinds.includes("decoder");
      case "positions":
        return (model.config.position ?? "none") !== "none";
    }
  });
}

export function allSwitches(trace: Trace, model: Model): Intervention[] {
  const found: Intervention[] = modelSwitches(trace, model).map((kind) => ({ kind }));
  for (const kind of trace.kinds)
    for (let layer = 0; layer < trace.layers(kind); layer++) {
      const where = attentionPath(kind, layer);
      if (trace.has(`${where}.attn_out`)) found.push({ kind: "attention", where });
      for (let head = 0; head < trace.heads(kind, layer); head++) found.push({ kind: "head", where, head });
    }
  for (const side of ["encoder", "decoder"] as const)
    for (let layer = 0; trace.has(`${side}.${layer}.around_ffn.resid`); layer++) {
      const where = `${side}.${layer}`;
      found.push({ kind: "layer", where }, { kind: "residual", where });
      if (trace.has(`${where}.ffn.ffn_out`)) found.push({ kind: "ffn", where });
    }
  return found;
}

export const switchName = (one: Intervention): string => JSON.stringify(one);
