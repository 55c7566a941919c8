// The panels, and the places in the model that can be chosen.
export const PANELS = [
  "translate",
  "tokens",
  "walk",
  "input",
  "atlas",
  "head",
  "block",
  "output",
  "beam",
  "whatif",
  "compare",
  "training",
] as const;
export type Panel = (typeof PANELS)[number];

export const KINDS = ["encoder", "decoder", "cross"] as const;
export type Kind = (typeof KINDS)[number];

/** Where an attention stands in the model, by the name of its taps. */
export function whereOf(kind: Kind, layer: number): string {
  switch (kind) {
    case "encoder":
      return `encoder.${layer}.attention`;
    case "decoder":
      return `decoder.${layer}.attention`;
    case "cross":
      return `decoder.${layer}.cross`;
  }
}

export function placeOf(where: string): { kind: Kind; layer: number } {
  const [side, layer, name] = where.split(".");
  const kind: Kind = side === "encoder" ? "encoder" : name === "cross" ? "cross" : "decoder";
  return { kind, layer: Number(layer) };
}
