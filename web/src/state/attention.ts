// The three kinds of attention in an encoder-decoder model, and the tap paths of their layers.
export const ATTENTION_KINDS = ["encoder", "decoder", "cross"] as const;
export type AttentionKind = (typeof ATTENTION_KINDS)[number];

/** The prefix of an attention sublayer's taps: `decoder.0.cross`. */
export function attentionPath(kind: AttentionKind, layer: number): string {
  switch (kind) {
    case "encoder":
      return `encoder.${layer}.attention`;
    case "decoder":
      return `decoder.${layer}.attention`;
    case "cross":
      return `decoder.${layer}.cross`;
  }
}

export function parseAttentionPath(path: string): { kind: AttentionKind; layer: number } {
  const [side, layer, name] = path.split(".");
  const kind: AttentionKind = side === "encoder" ? "encoder" : name === "cross" ? "cross" : "decoder";
  return { kind, layer: Number(layer) };
}
