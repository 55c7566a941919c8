// Positional encodings, of six kinds, as in core/positions.py: each kind overrides one of three methods.
//
// Shapes: B rows, L query length, M key length, D model, H heads, K head size.
import { ModelError, type TransformerConfig } from "./config";
import { entry, zeros, type Tensor } from "./tensor";
import type { Weights } from "./weights";

/** No positional encoding; the base class of the others. `start` is the position of the first token. */
export class Positions {
  add(x_BLD: Tensor, _start: number): Tensor {
    return x_BLD;
  }

  rotate(x_BHLK: Tensor, _start: number): Tensor {
    return x_BHLK;
  }

  /** bias_HLM added to the scores; the last query is at the position of the last key. */
  bias(_nQueries: number, _nKeys: number): Tensor | null {
    return null;
  }
}

/** x + one vector per position. */
abstract class AddedPositions extends Positions {
  protected abstract vector(position: number): Float32Array;

  override add(x_BLD: Tensor, start: number): Tensor {
    const [B, L, D] = x_BLD.shape;
    const values = x_BLD.values.slice();
    for (let l = 0; l < L; l++) {
      const added = this.vector(start + l);
      for (let b = 0; b < B; b++) for (let i = 0; i < D; i++) values[(b * L + l) * D + i] += added[i];
    }
    return { shape: x_BLD.shape, values };
  }
}

/** sin and cos of position / 10000^(2i/D), alternating (the paper, section 3.5). */
class SinusoidalPositions extends AddedPositions {
  private readonly rows: Float32Array[] = [];

  constructor(private readonly d_model: number) {
    super();
  }

  protected vector(position: number): Float32Array {
    return (this.rows[position] ??= this.compute(position));
  }

  private compute(position: number): Float32Array {
    return Float32Array.from({ length: this.d_model }, (_, i) => {
      const angle = position * Math.exp((i - (i % 2)) * (-Math.log(10_000) / this.d_model));
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }
}

/** One learned vector per position, up to a maximum length. */
class LearnedPositions extends AddedPositions {
  constructor(private readonly table_LD: Tensor) {
    super();
  }

  protected vector(position: number): Float32Array {
    const [longest] = this.table_LD.shape;
    if (position >= longest) throw new ModelError(`${position + 1} tokens, but this model has learned positions for only ${longest}`);
    return entry(this.table_LD, position).values;
  }
}

/** Rotate each pair of dimensions, i and i + K/2, by an angle proportional to the position (Su et al. 2021). */
class RotaryPositions extends Positions {
  override rotate(x_BHLK: Tensor, start: number): Tensor {
    const [, , L, K] = x_BHLK.shape;
    const half = K / 2;
    const values = new Float32Array(x_BHLK.values.length);
    for (let row = 0; row < values.length / K; row++)
      for (let i = 0; i < half; i++) {
        const frequency = Math.fround(10_000 ** Math.fround(-i / half));
        const angle = Math.fround((start + (row % L)) * frequency);
        const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
        const [first, second] = [x_BHLK.values[row * K + i], x_BHLK.values[row * K + half + i]];
        values[row * K + i] = first * cos - second * sin;
        values[row * K + half + i] = second * cos + first * sin;
      }
    return { shape: x_BHLK.shape, values };
  }
}

/** A number per head and distance (key position − query position) is added to the scores. */
abstract class BiasedPositions extends Positions {
  constructor(
    private readonly nHeads: number,
    protected readonly isTwoSided: boolean,
  ) {
    super();
  }

  protected abstract biasOf(head: number, offset: number): number;

  override bias(nQueries: number, nKeys: number): Tensor {
    const bias_HLM = zeros(this.nHeads, nQueries, nKeys);
    let at = 0;
    for (let head = 0; head < this.nHeads; head++)
      for (let query = nKeys - nQueries; query < nKeys; query++)
        for (let key = 0; key < nKeys; key++) bias_HLM.values[at++] = this.biasOf(head, key - query);
    return bias_HLM;
  }
}

/** −slope · distance, with one slope per head (Press et al. 2021); in an encoder, keys to the right count double. */
class AlibiPositions extends BiasedPositions {
  private readonly slopes: number[];

  constructor(nHeads: number, isTwoSided: boolean) {
    super(nHeads, isTwoSided);
    this.slopes = Array.from({ length: nHeads }, (_, head) => Math.fround(2 ** ((-8 * (head + 1)) / nHeads)));
  }

  protected biasOf(head: number, offset: number): number {
    return -this.slopes[head] * (this.isTwoSided && offset > 0 ? 2 * offset : Math.abs(offset));
  }
}

/** A learned bias per head and distance bucket: exact for small distances, logarithmic for large ones (T5). */
class RelativePositions extends BiasedPositions {
  constructor(
    private readonly table: Tensor,
    isTwoSided: boolean,
    private readonly maxDistance = 128,
  ) {
    super(table.shape[1], isTwoSided);
  }

  protected biasOf(head: number, offset: number): number {
    return this.table.values[this.bucket(offset) * this.table.shape[1] + head];
  }

  private bucket(offset: number): number {
    const n = this.isTwoSided ? this.table.shape[0] / 2 : this.table.shape[0];
    const side = this.isTwoSided && offset > 0 ? n : 0;
    const distance = this.isTwoSided ? Math.abs(offset) : Math.max(-offset, 0);
    const exact = Math.floor(n / 2);
    if (distance < exact) return side + distance;
    // Rounded as in Python, step by step: at a bucket's edge the last bit decides.
    const log = Math.fround(Math.log(Math.fround(distance / exact)));
    const ratio = Math.fround(log / Math.fround(Math.log(this.maxDistance / exact)));
    return side + Math.min(exact + Math.trunc(Math.fround(ratio * (n - exact))), n - 1);
  }
}

const N_BUCKETS = 32;

/** `isTwoSided`: the attention is bidirectional, as in an encoder. */
export function buildPositions(config: TransformerConfig, weights: Weights, path: string, isTwoSided: boolean): Positions {
  switch (config.position) {
    case "sinusoidal":
      return new SinusoidalPositions(config.d_model);
    case "learned":
      return new LearnedPositions(weights.take(`${path}.table_LD`, config.max_positions, config.d_model));
    case "rotary":
      return new RotaryPositions();
    case "alibi":
      return new AlibiPositions(config.n_heads, isTwoSided);
    case "relative":
      return new RelativePositions(weights.take(`${path}.table`, N_BUCKETS, config.n_heads), isTwoSided);
    case "none":
      return new Positions();
  }
}
