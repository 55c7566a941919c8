// The unigram language model (Kudo 2018): the segmentation whose pieces have the largest sum of log-probabilities.

const UNKNOWN_PENALTY = 10; // below the lowest score of a piece

export interface UnigramPiece {
  piece: string;
  score: number;
}

/** The best segmentation of these characters; a character without a piece stands alone. Sums are float32, as in SentencePiece. */
export function bestSegmentation(characters: readonly string[], pieces: ReadonlyMap<string, number>, longest: number, lowest: number): string[] {
  const unknown = Math.fround(lowest - UNKNOWN_PENALTY);
  const best = new Float32Array(characters.length + 1).fill(-Infinity);
  const start = new Int32Array(characters.length + 1);
  best[0] = 0;
  for (let from = 0; from < characters.length; from++) {
    const propose = (end: number, score: number): void => {
      const total = Math.fround(best[from] + score);
      if (total > best[end]) [best[end], start[end]] = [total, from];
    };
    let piece = "";
    let isSingleKnown = false;
    for (let end = from + 1; end <= Math.min(from + longest, characters.length); end++) {
      piece += characters[end - 1];
      const score = pieces.get(piece);
      if (score === undefined) continue;
      isSingleKnown ||= end === from + 1;
      propose(end, score);
    }
    if (!isSingleKnown) propose(from + 1, unknown);
  }
  const found: string[] = [];
  for (let end = characters.length; end > 0; end = start[end]) found.push(characters.slice(start[end], end).join(""));
  return found.reverse();
}
