// Hypotheses of a search for one sentence. Log-probabilities are added in float32, as in Python, so that ties are the same.

/** An active hypothesis: ids without BOS. */
export interface Active {
  ids: number[];
  logProbs: number[];
  total: number;
}

/** One translation: ids without BOS and EOS, and the log-probability of each token, EOS included. */
export interface Hypothesis {
  ids: number[];
  score: number;
  logProb: number;
  tokenLogProbs: number[];
  /** It ended with EOS, rather than at the maximum length. */
  finished: boolean;
}

export const EMPTY: Active = { ids: [], logProbs: [], total: 0 };

/** ((5 + n) / 6)^α: the paper, section 6.1, after Wu et al. 2016, equation 14. */
export const lengthPenaltyDivisor = (length: number, alpha: number): number => ((5 + length) / 6) ** alpha;

export function extend(parent: Active, id: number, logProb: number): Active {
  return { ids: [...parent.ids, id], logProbs: [...parent.logProbs, logProb], total: Math.fround(parent.total + logProb) };
}

/** The last token of a finished hypothesis is its EOS. */
export function toHypothesis({ ids, logProbs, total }: Active, finished: boolean, alpha: number): Hypothesis {
  return {
    ids: finished ? ids.slice(0, -1) : ids,
    score: total / lengthPenaltyDivisor(ids.length, alpha),
    logProb: total,
    tokenLogProbs: logProbs,
    finished,
  };
}

/** The n with the highest scores, highest first; among equals, the one found first. */
export const topHypotheses = (found: Hypothesis[], n: number): Hypothesis[] => found.toSorted((a, b) => b.score - a.score).slice(0, n);
