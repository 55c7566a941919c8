// Constraints on the next token: no special tokens, no repeated n-gram, and a forced prefix. They do not renormalise.
import { ModelError } from "../config";
import { logSoftmax } from "../tensor";
import { BOS, PAD, UNK } from "../tokenizer/sentencePiece";

const SUPPRESSED = [PAD, UNK, BOS];

/** The log-probabilities of the next token after `ids`, with every forbidden token at −∞. */
export function allow(logits_V: Float32Array, ids: number[], forced: number | undefined, noRepeatNgram: number): Float32Array {
  const logProbs_V = logSoftmax(logits_V);
  if (Number.isNaN(logProbs_V[0]))
    throw new ModelError(`the model produced NaN or infinity at target token ${ids.length + 1}: its weights are corrupt`);
  if (forced !== undefined) {
    const logProb = logProbs_V[forced];
    logProbs_V.fill(-Infinity)[forced] = logProb;
    return logProbs_V;
  }
  for (const id of SUPPRESSED) logProbs_V[id] = -Infinity;
  if (noRepeatNgram) blockRepeats(logProbs_V, ids, noRepeatNgram);
  return logProbs_V;
}

/** Forbid, in place, each token that would complete an n-gram that is already there. */
function blockRepeats(logProbs_V: Float32Array, ids: number[], n: number): void {
  const last = ids.slice(ids.length - n + 1);
  for (let start = 0; start + n <= ids.length; start++)
    if (last.every((id, i) => ids[start + i] === id)) logProbs_V[ids[start + n - 1]] = -Infinity;
}

/** The k largest values, largest first, and their indices; of equals the lower index first. −∞ counts, too. */
export function selectBest(values: ArrayLike<number>, k: number): { best: number[]; index: number[] } {
  const index: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (index.length === k && !(values[i] > values[index[k - 1]])) continue;
    let at = index.length;
    while (at > 0 && values[i] > values[index[at - 1]]) at--;
    index.splice(at, 0, i);
    if (index.length > k) index.pop();
  }
  return { best: index.map((i) => values[i]), index };
}
