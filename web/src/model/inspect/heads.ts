// Statistics of an attention map, to sort and compare heads by: the same as inspect/heads.py.
import type { HeadFigures } from "../../api/types";
import type { Tensor } from "../tensor";

/** One per head of the attention at `where`; for cross-attention, `mean_LM` is the mean over all layers and heads. */
export function headFigures(weights_HLM: Tensor, where: string, mean_LM: Float64Array | null): HeadFigures[] {
  const [H, L, M] = weights_HLM.shape;
  return Array.from({ length: H }, (_, head) => {
    const weights_LM = weights_HLM.values.subarray(head * L * M, (head + 1) * L * M);
    let [entropy, diagonality, end, peak] = [0, 0, 0, 0];
    for (let row = 0; row < L; row++) {
      let most = -Infinity;
      for (let column = 0; column < M; column++) {
        const weight = weights_LM[row * M + column];
        if (weight > 0) entropy -= weight * Math.log(weight);
        diagonality += weight * (1 - Math.abs(scaled(row, L) - scaled(column, M)));
        most = Math.max(most, weight);
      }
      end += weights_LM[row * M + M - 1];
      peak += most;
    }
    const alignment = mean_LM && alignmentOf(weights_LM, mean_LM, L, M);
    return { where, head, entropy: entropy / L, diagonality: diagonality / L, end: end / L, peak: peak / L, alignment };
  });
}

/** From 0, the first, to 1, the last. */
const scaled = (index: number, count: number): number => (count > 1 ? index / (count - 1) : 0);

/** The share of rows whose largest weight is where that of the mean is; the row of the end token is left out. */
function alignmentOf(weights_LM: Float32Array, mean_LM: Float64Array, L: number, M: number): number {
  if (L < 2) return 0;
  let agreeing = 0;
  for (let row = 0; row < L - 1; row++) {
    const own = largest(weights_LM, row * M, M);
    if (own === largest(mean_LM, row * M, M) && weights_LM[row * M + own] > 0) agreeing++;
  }
  return agreeing / (L - 1);
}

function largest(values: ArrayLike<number>, from: number, count: number): number {
  let best = 0;
  for (let i = 1; i < count; i++) if (values[from + i] > values[from + best]) best = i;
  return best;
}
