// A SentencePiece model file, which is a protocol buffer: its pieces and the settings that decide how a text is split.
//
// Field numbers are those of sentencepiece_model.proto: ModelProto has pieces (1), trainer_spec (2), normalizer_spec (3).
import { ModelError } from "../config";

export type PieceType = "normal" | "unknown" | "control" | "user-defined" | "unused" | "byte";
const PIECE_TYPES: readonly (PieceType | undefined)[] = [undefined, "normal", "unknown", "control", "user-defined", "unused", "byte"];

export interface VocabularyPiece {
  piece: string;
  score: number;
  type: PieceType;
}

export interface SentencePieceProto {
  kind: "bpe" | "unigram";
  pieces: VocabularyPiece[];
  /** A space mark is put before every text. */
  addDummyPrefix: boolean;
}

type Value = number | Uint8Array;

/** The fields of a message, in order. */
function* fields(message: Uint8Array): Generator<[field: number, value: Value]> {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let power = 1; at < message.length; power *= 128) {
      const byte = message[at++];
      value += (byte & 0x7f) * power;
      if (byte < 0x80) return value;
    }
    throw new ModelError("the tokenizer is damaged: it is cut off");
  };
  while (at < message.length) {
    const key = varint();
    switch (key & 7) {
      case 0:
        yield [key >>> 3, varint()];
        break;
      case 1:
        at += 8;
        break;
      case 2: {
        const size = varint();
        if (at + size > message.length) throw new ModelError("the tokenizer is damaged: it is cut off");
        yield [key >>> 3, message.subarray(at, at + size)];
        at += size;
        break;
      }
      case 5:
        yield [key >>> 3, view.getFloat32(at, true)];
        at += 4;
        break;
      default:
        throw new ModelError("the tokenizer is damaged: it is not a protocol buffer");
    }
  }
}

export function readProto(file: Uint8Array): SentencePieceProto {
  const pieces: VocabularyPiece[] = [];
  const trainer = new Map<number, Value>();
  const normaliser = new Map<number, Value>();
  for (const [field, value] of fields(file)) {
    if (!(value instanceof Uint8Array)) continue;
    if (field === 1) pieces.push(readPiece(value));
    else if (field === 2) for (const [inner, setting] of fields(value)) trainer.set(inner, setting);
    else if (field === 3) for (const [inner, setting] of fields(value)) normaliser.set(inner, setting);
  }
  const kind = trainer.get(3) ?? 1;
  if (kind !== 1 && kind !== 2) throw unsupported("neither BPE nor unigram");
  if (!trainer.get(35)) throw unsupported("without byte fallback");
  if (trainer.get(24)) throw unsupported("with the space mark behind words");
  const charsmap = normaliser.get(2);
  if (charsmap instanceof Uint8Array && charsmap.length) throw unsupported("with rules of normalisation of its own");
  if (normaliser.get(5) === 0) throw unsupported("that does not mark spaces");
  if (pieces.some(({ type }) => type === "unused")) throw unsupported("with unused pieces");
  return { kind: kind === 2 ? "bpe" : "unigram", pieces, addDummyPrefix: normaliser.get(3) !== 0 };
}

function readPiece(message: Uint8Array): VocabularyPiece {
  const found: VocabularyPiece = { piece: "", score: 0, type: "normal" };
  for (const [field, value] of fields(message)) {
    if (field === 1) found.piece = new TextDecoder().decode(value as Uint8Array);
    else if (field === 2) found.score = value as number;
    else if (field === 3) found.type = PIECE_TYPES[value as number] ?? "unused";
  }
  return found;
}

function unsupported(what: string): ModelError {
  return new ModelError(`the page's own model does not support a tokenizer ${what}`);
}
