// The stages of the walk, in the order of the computation: the encoder once, then the decoder for each token.
import { union, type Column, type Figure, type Rect } from "./geometry";

export const ENCODER_STAGES = [
  "tokens",
  "embedding",
  "position",
  "project",
  "scores",
  "softmax",
  "mix",
  "heads",
  "norm",
  "ffn",
  "norm-ffn",
  "layers",
  "bus",
] as const;
export const DECODER_STAGES = [
  "target",
  "self",
  "self-norm",
  "cross",
  "cross-norm",
  "target-ffn",
  "target-norm",
  "target-layers",
  "linear",
  "next",
  "loop",
] as const;
export type Stage = (typeof ENCODER_STAGES)[number] | (typeof DECODER_STAGES)[number];

const MS: Record<Stage, number> = {
  tokens: 700,
  embedding: 1000,
  position: 1000,
  project: 1100,
  scores: 1500,
  softmax: 1000,
  mix: 1700,
  heads: 900,
  norm: 1000,
  ffn: 1300,
  "norm-ffn": 700,
  layers: 900,
  bus: 1300,
  target: 700,
  self: 1300,
  "self-norm": 500,
  cross: 1800,
  "cross-norm": 500,
  "target-ffn": 900,
  "target-norm": 500,
  "target-layers": 700,
  linear: 600,
  next: 1100,
  loop: 900,
};

/** A moment of the walk. */
export interface Moment {
  stage: Stage;
  /** The output token that is being generated. */
  step: number;
  /** From 0 to 1 within the stage. */
  progress: number;
}

export const START: Moment = { stage: "tokens", step: 0, progress: 0 };

export function isEncoder(stage: Stage): boolean {
  return (ENCODER_STAGES as readonly Stage[]).includes(stage);
}

/** The decoder goes faster after the first token. */
export function duration(stage: Stage, step: number): number {
  return step === 0 ? MS[stage] : MS[stage] * 0.45;
}

/** The stage after this one; null after the last token. */
export function following({ stage, step }: Moment, steps: number): Moment | null {
  const order: Stage[] = [...ENCODER_STAGES, ...DECODER_STAGES];
  const next = order[order.indexOf(stage) + 1];
  if (next) return stage === "next" && step === steps - 1 ? null : { stage: next, step, progress: 0 };
  return { stage: "target", step: step + 1, progress: 0 };
}

export function preceding({ stage, step }: Moment): Moment | null {
  const order: Stage[] = [...ENCODER_STAGES, ...DECODER_STAGES];
  if (stage === "target" && step > 0) return { stage: "loop", step: step - 1, progress: 1 };
  const before = order[order.indexOf(stage) - 1];
  return before ? { stage: before, step, progress: 1 } : null;
}

/** How far a stage is at this moment: 0 not begun, 1 done. */
export function progressOf(stage: Stage, now: Moment): number {
  const order: readonly Stage[] = isEncoder(stage) ? ENCODER_STAGES : DECODER_STAGES;
  if (!isEncoder(now.stage) && isEncoder(stage)) return 1;
  if (isEncoder(now.stage) && !isEncoder(stage)) return 0;
  const [at, current] = [order.indexOf(stage), order.indexOf(now.stage)];
  return at < current ? 1 : at > current ? 0 : now.progress;
}

/** The parts of the figure that can be opened, and what the camera shows of each. */
export type Part =
  | "tokens"
  | "embedding"
  | "encoder-attention"
  | "encoder-norm"
  | "encoder-ffn"
  | "bus"
  | "target"
  | "decoder-attention"
  | "cross"
  | "decoder-norm"
  | "decoder-ffn"
  | "output";

export function partRect(figure: Figure, part: Part): Rect {
  const { encoder, decoder } = figure;
  switch (part) {
    case "tokens":
    case "embedding":
      return inputRect(encoder);
    case "target":
      return inputRect(decoder);
    case "encoder-attention":
      return encoder.attention.box;
    case "encoder-norm":
      return union(encoder.attention.box, encoder.norms[0]);
    case "encoder-ffn":
      return union(encoder.norms[0], encoder.ffn, encoder.norms[1]);
    case "bus":
      return { x: encoder.rect.x, y: 30, width: figure.width - 80, height: 440 };
    case "decoder-attention":
      return decoder.attention.box;
    case "cross":
      return decoder.cross?.box ?? decoder.attention.box;
    case "decoder-norm":
      return union(decoder.attention.box, decoder.norms[0]);
    case "decoder-ffn":
      return union(decoder.ffn, decoder.norms[decoder.norms.length - 1]);
    case "output":
      return union(figure.softmax, figure.linear, { ...figure.softmax, y: figure.outputY - 16 });
  }
}

function inputRect(column: Column): Rect {
  return { x: column.rect.x, y: column.positionY - 14, width: column.rect.width, height: 110 };
}

/** The part that a stage happens in. */
export const PART_OF: Record<Stage, Part> = {
  tokens: "tokens",
  embedding: "embedding",
  position: "embedding",
  project: "encoder-attention",
  scores: "encoder-attention",
  softmax: "encoder-attention",
  mix: "encoder-attention",
  heads: "encoder-attention",
  norm: "encoder-norm",
  ffn: "encoder-ffn",
  "norm-ffn": "encoder-ffn",
  layers: "encoder-ffn",
  bus: "bus",
  target: "target",
  self: "decoder-attention",
  "self-norm": "decoder-norm",
  cross: "cross",
  "cross-norm": "cross",
  "target-ffn": "decoder-ffn",
  "target-norm": "decoder-ffn",
  "target-layers": "decoder-ffn",
  linear: "output",
  next: "output",
  loop: "output",
};
