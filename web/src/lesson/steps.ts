// The guided lesson: fourteen steps from a sentence to its translation, and the stage of the walk that each one shows.
import type { Stage } from "../walk/stages";

export interface LessonStep {
  id: (typeof IDS)[number];
  stage: Stage;
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

const STAGES: Record<LessonStep["id"], Stage> = {
  tokens: "tokens",
  embedding: "embedding",
  position: "position",
  qkv: "project",
  score: "scores",
  scale: "scores",
  mask: "self",
  softmax: "softmax",
  heads: "heads",
  norm: "norm",
  ffn: "ffn",
  cross: "cross",
  next: "next",
  loop: "loop",
};

export const LESSON: LessonStep[] = IDS.map((id) => ({ id, stage: STAGES[id] }));
