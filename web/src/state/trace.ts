// One sentence inside the model: what came with the first answer, and the exact arrays, fetched when looked at.
import { part, type NumberArray } from "../api/arrays";
import * as api from "../api/client";
import type { Alternative, Intervention, LikelyPiece, Next, Piece, Translation } from "../api/types";
import { KINDS, whereOf, type Kind } from "./places";

export const END = "</s>";
/** What every translation begins with; the tokenizer gives it this id. */
export const BEGIN: Piece = { id: 2, piece: "<s>" };

export function idsOf(alternative: Alternative): number[] {
  return alternative.tokens.filter((token) => token.piece !== END).map((token) => token.id);
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
  /** Its end was written. After a translation that the search has cut, it is only looked at. */
  readonly finished: boolean;
  private readonly thumbnails: Map<string, NumberArray>;
  private readonly exact = new Map<string, Promise<NumberArray>>();
  private readonly nexts = new Map<number, Promise<Next>>();

  constructor(
    raw: api.RawTrace,
    readonly model: string,
    /** What the search found, be it this translation or not. */
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

  /** The translation without its end, as the server is asked for it. */
  get ids(): number[] {
    return this.tgt.slice(0, -1).map((token) => token.id);
  }

  /** What the model wrote: of a translation that was cut, all but the end; of an empty one, the end alone. */
  get written(): LikelyPiece[] {
    return this.finished || this.tgt.length === 1 ? this.tgt : this.tgt.slice(0, -1);
  }

  /** Whether a change of this kind, which needs no place, is in force. */
  lacks(kind: "scale" | "mask" | "positions"): boolean {
    return this.interventions.some((one) => one.kind === kind);
  }

  /** What the decoder is fed: the beginning, then the translation shifted by one place. */
  get fed(): Piece[] {
    return [BEGIN, ...this.tgt.slice(0, -1)];
  }

  queries(kind: Kind): Piece[] {
    return kind === "encoder" ? this.src : this.fed;
  }

  keys(kind: Kind): Piece[] {
    return kind === "decoder" ? this.fed : this.src;
  }

  /** How many layers have this attention; a recurrent model has only the cross-attention, in one. */
  layers(kind: Kind): number {
    let layer = 0;
    while (this.thumbnails.has(`${whereOf(kind, layer)}.weights`)) layer++;
    return layer;
  }

  get kinds(): Kind[] {
    return KINDS.filter((kind) => this.layers(kind) > 0);
  }

  heads(kind: Kind, layer: number): number {
    return this.all(kind, layer).shape[0];
  }

  /** Weights of one head in 255 steps: enough for a picture, never printed. */
  thumbnail(kind: Kind, layer: number, head: number): NumberArray {
    return part(this.all(kind, layer), head);
  }

  private all(kind: Kind, layer: number): NumberArray {
    const array = this.thumbnails.get(`${whereOf(kind, layer)}.weights`);
    if (!array) throw new Error(`the trace has no weights of ${whereOf(kind, layer)}`);
    return array;
  }

  /** How much the token at `step` looked at each source piece: the mean over all layers and heads. */
  looksAt(step: number): number[] {
    const shares = new Array<number>(this.src.length).fill(0);
    let count = 0;
    for (let layer = 0; layer < this.layers("cross"); layer++)
      for (let head = 0; head < this.heads("cross", layer); head++, count++) {
        const { values } = this.thumbnail("cross", layer, head);
        for (let place = 0; place < shares.length; place++) shares[place] += values[step * shares.length + place] / 255;
      }
    return shares.map((share) => share / Math.max(count, 1));
  }

  has(path: string): boolean {
    return path in this.taps;
  }

  tensor(path: string, head?: number): Promise<NumberArray> {
    return remember(this.exact, `${path} ${head ?? ""}`, () => api.tensor(this.id, path, head));
  }

  next(step: number): Promise<Next> {
    return remember(this.nexts, step, () => api.next(this.id, step));
  }
}

/** Ask once; a failure is forgotten, so that it can be asked again. */
function remember<Key, Answer>(asked: Map<Key, Promise<Answer>>, key: Key, ask: () => Promise<Answer>): Promise<Answer> {
  let answer = asked.get(key);
  if (!answer) {
    answer = ask();
    asked.set(key, answer);
    answer.catch(() => asked.delete(key));
  }
  return answer;
}
