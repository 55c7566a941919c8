// Which text of a step fits the model, and the values of its simple placeholders.
import type { Model } from "../api/types";
import { pieceNames, wordOf } from "../format/labels";
import { fixed, percent } from "../format/numbers";
import { addsPositionBias, scoreScale } from "../head/headValues";
import { argmax, mean, standardDeviation } from "../maths/vectors";
import type { Trace } from "../state/trace";
import type { LessonValues } from "./lessonValues";
import type { Condition, Step } from "./parse";

function holds(condition: Condition, trace: Trace, model: Model): boolean {
  const { norm_order, position, ffn } = model.config;
  switch (condition) {
    case "unscaled-embedding":
      return model.embedding_scale === 1;
    case "other-positions":
      return position !== "sinusoidal";
    case "other-scale":
      return scoreScale(trace, model) === 1 || addsPositionBias(trace, model, "encoder");
    case "no-mask":
      return trace.isDisabled("mask");
    case "pre-norm":
      return norm_order === "pre";
    case "other-ffn":
      return ffn !== "relu";
  }
}

export function chooseText(step: Step, trace: Trace, model: Model): { text: string; isMain: boolean } {
  const other = step.texts.find(({ when }) => when !== null && holds(when, trace, model));
  return other ? { text: other.text, isMain: false } : { text: step.texts[0].text, isMain: true };
}

export function textValues(trace: Trace, model: Model, index: number, output: number, numbers: LessonValues | null): Record<string, string | number> {
  const names = pieceNames(trace.src.map((token) => token.piece));
  const attention = trace.crossAttention(output);
  const size = model.head_size ?? 0;
  const best = numbers ? argmax(numbers.weights) : 0;
  return {
    token: names[index],
    id: trace.src[index].id,
    position: index + 1,
    count: trace.src.length - 1,
    vocabulary: model.vocabulary.toLocaleString(),
    d: model.config.d_model,
    h: model.config.n_heads,
    dk: size,
    root: fixed(Math.sqrt(size), 2),
    dff: model.config.d_ff,
    layers: model.config.n_encoder_layers,
    best: names[best],
    product: numbers ? fixed(numbers.products[best], 2) : "…",
    score: numbers ? fixed(numbers.scores[best], 2) : "…",
    weight: numbers ? percent(numbers.weights[best]) : "…",
    mean: numbers ? fixed(mean(numbers.normed), 2) : "…",
    deviation: numbers ? fixed(standardDeviation(numbers.normed), 2) : "…",
    active: numbers ? numbers.hidden.filter((value) => value > 0).length : "…",
    previous: wordOf(trace.decoderInput, output),
    next: trace.tgtWord(output),
    probability: percent(trace.tgt[output].probability),
    attended: trace.srcWord(argmax(attention)),
    share: percent(attention[argmax(attention)]),
  };
}
