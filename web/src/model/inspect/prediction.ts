// The distribution over the next token: the likeliest candidates, and the token that was chosen (inspect/next_token.py).
import { selectBest } from "../decode/constraints";
import { logSoftmax } from "../tensor";

export interface Likely {
  id: number;
  probability: number;
  logit: number;
}

export interface Prediction {
  top: Likely[];
  /** In nats. */
  entropy: number;
  chosen: Likely;
  /** Of the chosen token, from 1. */
  rank: number;
}

export function predict(logits_V: Float32Array, chosen: number, k: number): Prediction {
  const logProbs_V = logSoftmax(logits_V);
  const likely = (id: number): Likely => ({ id, probability: Math.exp(logProbs_V[id]), logit: logits_V[id] });
  let entropy = 0;
  for (const logProb of logProbs_V) if (logProb > -Infinity) entropy -= Math.exp(logProb) * logProb;
  let ahead = 0; // of equals, the lower id
  logits_V.forEach((logit, id) => {
    if (logit > logits_V[chosen] || (logit === logits_V[chosen] && id < chosen)) ahead++;
  });
  return { top: selectBest(logits_V, k).index.map(likely), entropy, chosen: likely(chosen), rank: ahead + 1 };
}
