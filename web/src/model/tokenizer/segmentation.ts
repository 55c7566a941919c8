// How a text is segmented: normalised text, pieces, bytes of characters without a piece, merges in order.
import type { Merge, Segmentation, TokenPiece } from "../../api/types";
import { byteOf, SPACE_MARK, type SentencePieceModel } from "./sentencePiece";

const MERGES_UP_TO = 400; // characters; the list of merges grows with the square of the text's length

export function segment(vocabulary: SentencePieceModel, text: string, lowercase: boolean): Segmentation {
  const cased = lowercase ? text.toLowerCase() : text;
  const pieces = describe(vocabulary, vocabulary.encode(cased));
  const normalised = vocabulary.normalise(cased);
  const isReplayed = vocabulary.kind === "bpe" && [...normalised].length <= MERGES_UP_TO;
  return { text, normalised, pieces, ...(isReplayed ? replayMerges(vocabulary, pieces) : { start: [], merges: [] }) };
}

/** Each piece with its text and kind. A character that is encoded as bytes is the text of the first of them. */
function describe(vocabulary: SentencePieceModel, ids: number[]): TokenPiece[] {
  const found: TokenPiece[] = [];
  let first: TokenPiece | null = null;
  let decoder = new TextDecoder();
  for (const id of ids) {
    const [piece, kind] = [vocabulary.piece(id), vocabulary.kindOf(id)];
    const token: TokenPiece = { id, piece, text: kind === "normal" ? piece.replaceAll(SPACE_MARK, " ") : "", kind };
    found.push(token);
    if (kind !== "byte") {
      [first, decoder] = [null, new TextDecoder()];
      continue;
    }
    first ??= token;
    const character = decoder.decode(Uint8Array.of(byteOf(piece)), { stream: true });
    if (character) [first.text, first] = [character, null];
  }
  return found;
}

/** The characters, and the merges that turn them into these pieces; nothing if they do not. */
function replayMerges(vocabulary: SentencePieceModel, pieces: TokenPiece[]): Pick<Segmentation, "start" | "merges"> {
  const start: string[] = [];
  const wanted: string[] = [];
  for (const { kind, piece, text } of pieces) {
    if (kind === "normal") {
      start.push(...piece);
      wanted.push(piece);
    } else if (text || kind !== "byte") {
      start.push(text || piece); // a character that is never merged
      wanted.push(text || piece);
    }
  }
  const symbols = [...start];
  const merges: Merge[] = [];
  for (;;) {
    const place = bestPair(vocabulary, symbols);
    if (place < 0) break;
    const [left, right] = [symbols[place], symbols[place + 1]];
    symbols.splice(place, 2, left + right);
    merges.push({ left, right, result: left + right, place, symbols: [...symbols] });
  }
  return symbols.join("\0") === wanted.join("\0") ? { start, merges } : { start: [], merges: [] };
}

/** The index of the pair that is merged next, the leftmost of equals; −1: none. */
function bestPair(vocabulary: SentencePieceModel, symbols: string[]): number {
  let [place, lowest] = [-1, Infinity];
  for (let i = 0; i + 1 < symbols.length; i++) {
    const rank = vocabulary.rankOf(symbols[i] + symbols[i + 1]) ?? Infinity;
    if (rank < lowest) [place, lowest] = [i, rank];
  }
  return place;
}
