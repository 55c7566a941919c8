// The labels of tokens, everywhere on the page. In the reading "words", the pieces of a word share one label.
import type { Piece } from "../api/types";
import { preferences, t } from "../state/preferences.svelte";
import { displayToken } from "./tokens";
import { joinPieces, wordAt, type Word } from "./words";

/** The words of a sentence, or its single pieces if those are to be seen. Reactive. */
export function readingUnits(pieces: readonly string[]): Word[] {
  if (preferences.reading === "words") return joinPieces(pieces);
  return pieces.map((piece, index) => ({ text: piece, from: index, to: index + 1 }));
}

/** The name of each piece in a list where every piece has its own row: parts of a word are marked with dots. */
export function pieceNames(pieces: readonly string[]): string[] {
  if (preferences.reading === "pieces") return [...pieces];
  return joinPieces(pieces).flatMap((word) => {
    const count = word.to - word.from;
    if (count === 1) return [word.text];
    return Array.from({ length: count }, (_, i) => {
      const text = displayToken(pieces[word.from + i]);
      return `${i > 0 ? "·" : ""}${text}${i < count - 1 ? "·" : ""}`;
    });
  });
}

/** The word that a piece belongs to, as text. */
export function wordOf(pieces: readonly Piece[], index: number): string {
  const texts = pieces.map((one) => one.piece);
  return wordAt(readingUnits(texts), index)?.text ?? "";
}

/** A decoder position is named by the word before it and the word that is written there. */
export function describeStep(decoderInput: readonly Piece[], tgt: readonly Piece[], step: number): string {
  const names = pieceNames(tgt.map((one) => one.piece));
  if (step === 0) return t("at-start-writing", { next: names[0] });
  const before = pieceNames(decoderInput.map((one) => one.piece));
  return t("after-writing", { previous: before[step], next: names[step] });
}
