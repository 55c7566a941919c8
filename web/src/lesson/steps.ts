// The guided lesson: fourteen steps from a sentence to its translation, and the parts of the diagram each one highlights.

export interface LessonStep {
  id: (typeof IDS)[number];
  focus: string[];
}

const IDS = [
  "tokens",
  "embedding",
  "position",
  "qkv",
  "score",
  "scale",
  "mask",
  "softmax",
  "heads",
  "norm",
  "ffn",
  "cross",
  "next",
  "loop",
] as const;

const FOCUS: Record<LessonStep["id"], string[]> = {
  tokens: ["source-tokens"],
  embedding: ["source-tokens", "source-embedded"],
  position: ["source-tokens", "source-embedded"],
  qkv: ["source-tokens", "source-embedded", "encoder-attention-0"],
  score: ["source-tokens", "encoder-attention-0"],
  scale: ["source-tokens", "encoder-attention-0"],
  mask: ["target-tokens", "decoder-attention"],
  softmax: ["source-tokens", "encoder-attention-0"],
  heads: ["encoder-attention", "decoder-attention", "cross"],
  norm: ["source-embedded", "encoder-attention-0", "encoder-out-0"],
  ffn: ["encoder-out"],
  cross: ["source-tokens", "memory", "encoder-decoder-links", "cross", "target-tokens"],
  next: ["target-tokens", "decoder-out", "probabilities"],
  loop: ["target-tokens", "probabilities", "feedback"],
};

export const LESSON: LessonStep[] = IDS.map((id) => ({ id, focus: FOCUS[id] }));
