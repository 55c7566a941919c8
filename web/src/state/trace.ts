// The trace of one translation. It comes with 8-bit attention weights; exact arrays are fetched when needed.
import { sliceFirstAxis, type NumberArray } from "../api/arrays";
import * as api from "../api/client";
import type { Alternative, Intervention, LikelyPiece, Next, Piece, Translation } from "../api/types";
import { describeStep, readingUnits, wordOf } from "../format/labels";
import type { Word } from "../format/words";
import { ATTENTION_KINDS, attentionPath, type AttentionKind } from "./attention";

export const EOS = "</s>";
/** The first decoder input; its id is the same in all tokenizers. */
export const BOS: Piece = { id: 2, piece: "<s>" };

export function idsOf(alternative: Alternative): number[] {
  return alternative.tokens.filter((token) => token.piece !== EOS).map((token) => token.id);
}

export class Trace {
  readonly id: string;
  readonly kernel: string;
  readonly text: string;
  readonly translation: string;
  readonly src: Piece[];
  readonly tgt: LikelyPiece[];
  readonly taps: Record<string, number[]>;
  readonly interventions: Intervention[];
  /** Whether the search reached the end token; `tgt` ends with one in either case. */
  readonly finished: boolean;
  private readonly thumbnails: Map<string, NumberArray>;
  private readonly exact = new Map<string, Promise<NumberArray>>();
  private readonly nexts = new Map<number, Promise<Next>>();

  constructor(
    raw: api.RawTrace,
    readonly model: string,
    /** The search result; this translation need not be part of it. */
    readonly found: Translation,
  ) {
    this.id = raw.header.trace;
    this.kernel = raw.header.kernel;
    this.text = raw.header.text;
    this.translation = raw.header.translation;
    this.src = raw.header.src;
    this.tgt = raw.header.tgt;
    this.taps = raw.header.taps;
    this.interventions = raw.header.interventions;
    this.thumbnails = raw.arrays;
    const ids = this.ids.join();
    this.finished = found.alternatives.find((one) => idsOf(one).join() === ids)?.finished ?? true;
  }

  /** Token ids without the end token, as the API expects them. */
  get ids(): number[] {
    return this.tgt.slice(0, -1).map((token) => token.id);
  }

  /** Tokens that the model generated: without the end token if the search was truncated. Never empty. */
  get outputTokens(): LikelyPiece[] {
    return this.finished || this.tgt.length === 1 ? this.tgt : this.tgt.slice(0, -1);
  }

  /** Whether an intervention disables this in the whole model. */
  isDisabled(kind: "scale" | "mask" | "positions"): boolean {
    return this.interventions.some((one) => one.kind === kind);
  }

  /** BOS, then the translation shifted by one position. */
  get decoderInput(): Piece[] {
    return [BOS, ...this.tgt.slice(0, -1)];
  }

  queries(kind: AttentionKind): Piece[] {
    return kind === "encoder" ? this.src : this.decoderInput;
  }

  /** The labels of the rows of an attention map: in the decoder, the token that is written there. */
  rowPieces(kind: AttentionKind): string[] {
    return (kind === "encoder" ? this.src : this.tgt).map((token) => token.piece);
  }

  columnPieces(kind: AttentionKind): string[] {
    return this.keys(kind).map((token) => token.piece);
  }

  /** A row in words: the source word, or "after I, writing love". */
  describeRow(kind: AttentionKind, row: number): string {
    return kind === "encoder" ? this.srcWord(row) : describeStep(this.decoderInput, this.tgt, row);
  }

  describeColumn(kind: AttentionKind, column: number): string {
    return wordOf(this.keys(kind), column);
  }

  /** The words of the source, and those of the translation as far as it was generated. */
  get srcWords(): Word[] {
    return readingUnits(this.src.map((token) => token.piece));
  }

  get tgtWords(): Word[] {
    return readingUnits(this.outputTokens.map((token) => token.piece));
  }

  wordProbability(word: Word): number {
    return this.tgt.slice(word.from, word.to).reduce((product, token) => product * token.probability, 1);
  }

  srcWord(position: number): string {
    return wordOf(this.src, position);
  }

  tgtWord(step: number): string {
    return wordOf(this.tgt, step);
  }

  keys(kind: AttentionKind): Piece[] {
    return kind === "decoder" ? this.decoderInput : this.src;
  }

  /** How many layers have this attention. A recurrent model only has cross-attention, in one layer. */
  layers(kind: AttentionKind): number {
    let layer = 0;
    while (this.thumbnails.has(`${attentionPath(kind, layer)}.weights`)) layer++;
    return layer;
  }

  get kinds(): AttentionKind[] {
    return ATTENTION_KINDS.filter((kind) => this.layers(kind) > 0);
  }

  heads(kind: AttentionKind, layer: number): number {
    return this.weights(kind, layer).shape[0];
  }

  /** Weights of one head in 8 bits, 255 meaning 1: for drawing, never shown as numbers. */
  thumbnail(kind: AttentionKind, layer: number, head: number): NumberArray {
    return sliceFirstAxis(this.weights(kind, layer), head);
  }

  private weights(kind: AttentionKind, layer: number): NumberArray {
    const array = this.thumbnails.get(`${attentionPath(kind, layer)}.weights`);
    if (!array) throw new Error(`the trace has no weights for ${attentionPath(kind, layer)}`);
    return array;
  }

  /** Cross-attention weights from the output token at `step` to each source token, averaged over all layers and heads. */
  crossAttention(step: number): number[] {
    const weights = new Array<number>(this.src.length).fill(0);
    let count = 0;
    for (let layer = 0; layer < this.layers("cross"); layer++)
      for (let head = 0; head < this.heads("cross", layer); head++, count++) {
        const { values } = this.thumbnail("cross", layer, head);
        for (let i = 0; i < weights.length; i++) weights[i] += values[step * weights.length + i] / 255;
      }
    return weights.map((weight) => weight / Math.max(count, 1));
  }

  has(path: string): boolean {
    return path in this.taps;
  }

  tensor(path: string, head?: number): Promise<NumberArray> {
    return cached(this.exact, `${path} ${head ?? ""}`, () => api.tensor(this.id, path, head));
  }

  next(step: number): Promise<Next> {
    return cached(this.nexts, step, () => api.next(this.id, step));
  }
}

/** Failed requests are not cached, so that they can be repeated. */
function cached<Key, Value>(cache: Map<Key, Promise<Value>>, key: Key, request: () => Promise<Value>): Promise<Value> {
  let response = cache.get(key);
  if (!response) {
    response = request();
    cache.set(key, response);
    response.catch(() => cache.delete(key));
  }
  return response;
}
