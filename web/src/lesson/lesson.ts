// The guided lesson: fourteen steps from a sentence to its translation, and the part of the picture each is about.

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
  tokens: ["source-words"],
  embedding: ["source-words", "source-embedded"],
  position: ["source-words", "source-embedded"],
  qkv: ["source-words", "source-embedded", "encoder-attention-0"],
  score: ["source-words", "encoder-attention-0"],
  scale: ["source-words", "encoder-attention-0"],
  mask: ["target-words", "decoder-attention"],
  softmax: ["source-words", "encoder-attention-0"],
  heads: ["encoder-attention", "decoder-attention", "cross"],
  norm: ["source-embedded", "encoder-attention-0", "encoder-out-0"],
  ffn: ["encoder-out"],
  cross: ["source-words", "memory", "bus", "cross", "target-words"],
  next: ["target-words", "decoder-out", "probabilities"],
  loop: ["target-words", "probabilities", "loop"],
};

export const LESSON: LessonStep[] = IDS.map((id) => ({ id, focus: FOCUS[id] }));
