// Beam search for one sentence by the paper's rule (section 6.1): the same search as decode/beam.py.
//
// Each step takes the `beam` best continuations; those that end in EOS are finished, the others stay active. An active
// hypothesis is pruned as soon as it could not enter the n best even if every following token had probability 1. Finished
// hypotheses rank before those that were cut at the maximum length.
import { ModelError } from "../config";
import { entry } from "../tensor";
import { BOS, EOS } from "../tokenizer/sentencePiece";
import type { Transformer } from "../transformer";
import { allow, selectBest } from "./constraints";
import { EMPTY, extend, lengthPenaltyDivisor, toHypothesis, topHypotheses, type Active, type Hypothesis } from "./hypotheses";

/** One step, as passed to an observer. */
export interface BeamStep {
  active: Active[];
  /** Per active hypothesis: its best next tokens, and their log-probabilities; forbidden ones are −∞. */
  next: { ids: number[]; logProbs: number[] }[];
  /** The candidates taken, best first. */
  taken: Candidate[];
  /** The indices of those that stay active. */
  kept: number[];
}

export interface Candidate {
  hypothesis: Active;
  /** The index of the active hypothesis that it extends. */
  parent: number;
  ended: boolean;
  /** It has the maximum length and has not ended. */
  cut: boolean;
}

export interface BeamOptions {
  beam: number;
  lengthPenalty: number;
  /** Of the translation in tokens, prefix and EOS included. */
  maxLength: number;
  nBest: number;
  noRepeatNgram: number;
  prefix: number[];
}

/** The `nBest` translations found, best first. `observe` may wait, so that a long search does not block. */
export async function beamSearch(
  model: Transformer,
  src: number[],
  options: BeamOptions,
  observe: (step: BeamStep) => Promise<void> | void = () => {},
): Promise<Hypothesis[]> {
  const { beam, lengthPenalty, maxLength, nBest, prefix } = options;
  if (prefix.length >= maxLength)
    throw new ModelError(`the forced prefix has ${prefix.length} tokens, which leaves no room within the maximum length of ${maxLength}`);
  const largestDivisor = lengthPenaltyDivisor(maxLength, lengthPenalty);
  let finished: Hypothesis[] = [];
  const cut: Hypothesis[] = [];
  const caches = model.begin(src);
  let active: Active[] = [EMPTY];
  for (let position = 0; position < maxLength && active.length; position++) {
    const logits_B1V = model.step(active.map(({ ids }) => ids.at(-1) ?? BOS), caches); // prettier-ignore
    const next = active.map(({ ids }, row) => {
      const logProbs_V = allow(entry(logits_B1V, row).values, ids, prefix[position], options.noRepeatNgram);
      const { best, index } = selectBest(logProbs_V, beam);
      return { ids: index, logProbs: best };
    });
    const taken = takeBest(active, next, beam, position + 1 === maxLength);
    if (!taken.length) cut.push(...active.map((one) => toHypothesis(one, false, lengthPenalty)));
    for (const { hypothesis, ended, cut: isCut } of taken) {
      if (ended) finished = topHypotheses([...finished, toHypothesis(hypothesis, true, lengthPenalty)], nBest);
      if (isCut) cut.push(toHypothesis(hypothesis, false, lengthPenalty));
    }
    const worst = finished.length === nBest ? finished[nBest - 1].score : -Infinity;
    const canEnter = (one: Active): boolean => Math.fround(one.total / Math.fround(largestDivisor)) > Math.fround(worst);
    const kept = [...taken.keys()].filter((i) => !taken[i].ended && !taken[i].cut && canEnter(taken[i].hypothesis));
    await observe({ active, next, taken, kept });
    const parents = kept.map((i) => taken[i].parent);
    if (parents.length !== active.length || parents.some((parent, i) => parent !== i)) caches.reorder(parents);
    active = kept.map((i) => taken[i].hypothesis);
  }
  return [...finished, ...topHypotheses(cut, nBest)].slice(0, nBest);
}

/** The best one-token continuations, best first. */
function takeBest(active: Active[], next: BeamStep["next"], beam: number, isLast: boolean): Candidate[] {
  const totals = active.flatMap(({ total }, row) => next[row].logProbs.map((logProb) => Math.fround(total + logProb)));
  const { best, index } = selectBest(totals, beam);
  const columns = next[0]?.ids.length ?? 0;
  return index
    .filter((_, rank) => best[rank] > -Infinity)
    .map((place) => {
      const [parent, choice] = [Math.floor(place / columns), place % columns];
      const id = next[parent].ids[choice];
      const hypothesis = extend(active[parent], id, next[parent].logProbs[choice]);
      return { hypothesis, parent, ended: id === EOS, cut: id !== EOS && isLast };
    });
}
