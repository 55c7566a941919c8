// Where a word looks: its attention to every other word, over all layers and heads.
import type { Intervention } from "../api/types";
import { readingUnits } from "../format/labels";
import type { Word } from "../format/words";
import { attentionPath, type AttentionKind } from "../state/attention";
import type { Trace } from "../state/trace";

export interface HeadLink {
  kind: AttentionKind;
  key: Word;
  layer: number;
  head: number;
  /** The share of the attention of the word's pieces, on average, that is on all pieces of the other word. */
  weight: number;
  /** Sets just these weights to zero. */
  cut: Intervention[];
}

export interface Link {
  kind: AttentionKind;
  key: Word;
  /** The mean over all layers and heads. */
  attention: number;
  strongest: HeadLink;
  heads: HeadLink[];
  /** Sets these weights to zero in all layers and heads. */
  cut: Intervention[];
}

/** The links of a word, the strongest first: of a source word to the source, of an output word to the source and to what was written before. */
export function findLinks(trace: Trace, side: "src" | "tgt", word: Word): Link[] {
  const kinds = trace.kinds.filter((kind) => (kind === "encoder") === (side === "src"));
  const links = kinds.flatMap((kind) => {
    const keys = readingUnits(trace.columnPieces(kind)).filter((key) => kind !== "decoder" || trace.isDisabled("mask") || key.from <= word.from);
    // The first token of the translation can only look at the beginning.
    return keys.length > 1 ? keys.map((key) => linkOf(trace, kind, word, key)) : [];
  });
  return links.toSorted((a, b) => b.attention - a.attention);
}

function linkOf(trace: Trace, kind: AttentionKind, query: Word, key: Word): Link {
  const heads: HeadLink[] = [];
  for (let layer = 0; layer < trace.layers(kind); layer++)
    for (let head = 0; head < trace.heads(kind, layer); head++) {
      const { values, shape } = trace.thumbnail(kind, layer, head);
      const cut: Intervention[] = [];
      let sum = 0;
      for (let row = query.from; row < query.to; row++)
        for (let column = key.from; column < key.to; column++) {
          sum += values[row * shape[1] + column] / 255;
          if (kind !== "decoder" || column <= row) cut.push({ kind: "weight", where: attentionPath(kind, layer), head, row, column, value: 0 });
        }
      heads.push({ kind, key, layer, head, weight: sum / (query.to - query.from), cut });
    }
  const attention = heads.reduce((sum, one) => sum + one.weight, 0) / Math.max(heads.length, 1);
  const strongest = heads.reduce((a, b) => (b.weight > a.weight ? b : a));
  return { kind, key, attention, strongest, heads, cut: heads.flatMap((one) => one.cut) };
}
