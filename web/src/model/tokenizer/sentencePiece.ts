// SentencePiece: text to ids and back, as tokenizers/sentencepiece.py.
//
// Characters that are not in the vocabulary are encoded as bytes, so no text is unknown.
import { ModelError } from "../config";
import { mergePairs } from "./bpe";
import { readProto, type SentencePieceProto, type VocabularyPiece } from "./modelProto";
import { normalise, type Folding } from "./normalise";
import { bestSegmentation } from "./unigram";

export const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
export const SPACE_MARK = "▁";
const UNKNOWN_TEXT = " ⁇ ";

export type PieceKind = "normal" | "byte" | "control" | "unknown";

export class SentencePieceModel {
  readonly kind: SentencePieceProto["kind"];
  readonly size: number;
  private readonly pieces: VocabularyPiece[];
  private readonly addDummyPrefix: boolean;
  private readonly ids = new Map<string, number>();
  /** The pieces that a text can be split into, with the scores that decide how. */
  private readonly scores = new Map<string, number>();
  /** Pieces that are never split or merged, such as [MASK]; the longest first. */
  private readonly fixed: string[];
  private readonly longest: number;
  private readonly lowest: number;

  constructor(
    file: Uint8Array,
    private readonly folding: Folding,
  ) {
    const proto = readProto(file);
    this.kind = proto.kind;
    this.pieces = proto.pieces;
    this.size = proto.pieces.length;
    this.addDummyPrefix = proto.addDummyPrefix;
    this.pieces.forEach(({ piece, score, type }, id) => {
      this.ids.set(piece, id);
      if (type === "normal" || type === "user-defined") this.scores.set(piece, score);
    });
    this.fixed = this.pieces.filter(({ type }) => type === "user-defined").map(({ piece }) => piece);
    this.fixed.sort((a, b) => b.length - a.length);
    const normal = this.pieces.filter(({ type }) => type === "normal");
    this.longest = normal.reduce((most, { piece }) => Math.max(most, [...piece].length), 1);
    this.lowest = normal.reduce((least, { score }) => Math.min(least, score), Infinity);
    const special = [PAD, UNK, BOS, EOS].map((id) => this.pieces[id]?.type).join();
    if (special !== "control,unknown,control,control") throw new ModelError("the tokenizer's first pieces are not pad, unk, bos and eos");
  }

  normalise(text: string): string {
    return normalise(text, this.folding);
  }

  /** The ids of a text after normalisation, without BOS and EOS. */
  encode(text: string): number[] {
    const normalised = this.normalise(text);
    if (!normalised) return [];
    const marked = ((this.addDummyPrefix ? " " : "") + normalised).replaceAll(" ", SPACE_MARK);
    return this.split(marked).flatMap((piece) => this.idsOf(piece));
  }

  /** Fixed pieces as they are; the text between them segmented, by BPE across them as single symbols that never merge. */
  private split(marked: string): string[] {
    const parts = this.cutAtFixed(marked);
    if (this.kind === "unigram") {
      return parts.flatMap((part) => (part.isFixed ? [part.text] : bestSegmentation([...part.text], this.scores, this.longest, this.lowest)));
    }
    return parts.flatMap((part) => (part.isFixed ? [part.text] : mergePairs([...part.text], (piece) => this.rankOf(piece))));
  }

  private cutAtFixed(text: string): { text: string; isFixed: boolean }[] {
    if (!this.fixed.length) return [{ text, isFixed: false }];
    const found: { text: string; isFixed: boolean }[] = [];
    let plain = "";
    for (let at = 0; at < text.length; ) {
      const fixed = this.fixed.find((piece) => text.startsWith(piece, at));
      if (fixed && plain) found.push({ text: plain, isFixed: false });
      if (fixed) [found[found.length], plain] = [{ text: fixed, isFixed: true }, ""];
      else plain += text[at];
      at += fixed?.length ?? 1;
    }
    if (plain) found.push({ text: plain, isFixed: false });
    return found;
  }

  /** The order of merges: the lowest first. Undefined: no piece that merges can produce. */
  rankOf(piece: string): number | undefined {
    const score = this.scores.get(piece);
    return score === undefined ? undefined : -score;
  }

  private idsOf(piece: string): number[] {
    const id = this.scores.has(piece) ? this.ids.get(piece) : undefined;
    if (id !== undefined) return [id];
    return Array.from(new TextEncoder().encode(piece), (byte) => this.ids.get(byteName(byte)) ?? UNK);
  }

  /** The piece as SentencePiece writes it: "▁" for a space, "<0xE4>" for a byte. */
  piece(id: number): string {
    return this.pieces[id].piece;
  }

  kindOf(id: number): PieceKind {
    switch (this.pieces[id].type) {
      case "byte":
        return "byte";
      case "unknown":
        return "unknown";
      case "control":
        return "control";
      case "normal":
      case "user-defined":
      case "unused":
        return "normal";
    }
  }

  /** The text of these ids, normalised: bytes can form line breaks and invisible characters. */
  decode(ids: readonly number[]): string {
    let text = "";
    let bytes: number[] = [];
    for (const id of [...ids, PAD]) {
      const kind = this.kindOf(id);
      if (kind === "byte") {
        bytes.push(byteOf(this.piece(id)));
        continue;
      }
      text += decodeBytes(bytes);
      bytes = [];
      if (kind === "unknown") text += UNKNOWN_TEXT;
      else if (kind === "normal") text += this.piece(id).replaceAll(SPACE_MARK, " ");
    }
    return this.normalise(text);
  }
}

const byteName = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;

/** The byte of a piece such as "<0xE4>". */
export const byteOf = (piece: string): number => parseInt(piece.slice(3, 5), 16);

/** UTF-8, with U+FFFD for each byte that is not part of a character. */
function decodeBytes(bytes: number[]): string {
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const size = [4, 3, 2, 1].find((size) => at + size <= bytes.length && isCharacter(bytes.slice(at, at + size)));
    text += size ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.slice(at, at + size))) : "\ufffd";
    at += size ?? 1;
  }
  return text;
}

function isCharacter(bytes: number[]): boolean {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
    return [...text].length === 1;
  } catch {
    return false;
  }
}
