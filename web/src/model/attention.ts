// Multi-head attention (the paper, section 3.2), and the keys and values that a search caches.
//
// Shapes: B rows (1 in a pass over a sentence, one per hypothesis in a search), L query length, M memory length,
// D model, H heads, K head size. In a search all rows share one sentence, so the memory has a single row.
import type { TransformerConfig } from "./config";
import type { Positions } from "./positions";
import type { Tap, Taps } from "./taps";
import { linear, rowsOf, softmax, zeros, type Tensor } from "./tensor";
import type { Weights } from "./weights";

/** Keys and values of self-attention: each step appends one token per row. */
export class GrowingCache {
  private k: Float32Array;
  private v: Float32Array;
  length = 0;

  constructor(
    private nRows: number,
    private readonly nHeads: number,
    private readonly headSize: number,
    private capacity = 32,
  ) {
    this.k = new Float32Array(nRows * nHeads * capacity * headSize);
    this.v = new Float32Array(this.k.length);
  }

  /** All keys and values so far, including the new ones, as BHMK. */
  append(k_BH1K: Tensor, v_BH1K: Tensor): [Tensor, Tensor] {
    if (this.length === this.capacity) this.copyRows([...Array(this.nRows).keys()], 2 * this.capacity);
    const K = this.headSize;
    for (let group = 0; group < this.nRows * this.nHeads; group++) {
      const to = (group * this.capacity + this.length) * K;
      this.k.set(k_BH1K.values.subarray(group * K, (group + 1) * K), to);
      this.v.set(v_BH1K.values.subarray(group * K, (group + 1) * K), to);
    }
    this.length++;
    return [this.written(this.k), this.written(this.v)];
  }

  private written(from: Float32Array): Tensor {
    const found = zeros(this.nRows, this.nHeads, this.length, this.headSize);
    const size = this.length * this.headSize;
    for (let group = 0; group < this.nRows * this.nHeads; group++) {
      const start = group * this.capacity * this.headSize;
      found.values.set(from.subarray(start, start + size), group * size);
    }
    return found;
  }

  /** Select these rows, in this order. */
  reorder(rows: number[]): void {
    this.copyRows(rows, this.capacity);
  }

  private copyRows(rows: number[], capacity: number): void {
    const [before, after] = [this.capacity * this.headSize, capacity * this.headSize];
    const copy = (from: Float32Array): Float32Array => {
      const to = new Float32Array(rows.length * this.nHeads * after);
      rows.forEach((row, index) => {
        for (let head = 0; head < this.nHeads; head++) {
          const start = (row * this.nHeads + head) * before;
          to.set(from.subarray(start, start + this.length * this.headSize), (index * this.nHeads + head) * after);
        }
      });
      return to;
    };
    [this.k, this.v] = [copy(this.k), copy(this.v)];
    [this.nRows, this.capacity] = [rows.length, capacity];
  }
}

/** Keys and values of cross-attention: those of the encoder's output, computed once. */
export interface FixedCache {
  k_BHMK: Tensor;
  v_BHMK: Tensor;
}

/**
 * concat(head_1 … head_H) W_O, head_i = softmax(q kᵀ · scale + bias) v, with q = x W_Q, k = m W_K, v = m W_V, and m = x in
 * self-attention. W_Q, W_K and W_V are one matrix.
 */
export class MultiHeadAttention {
  /** 1 / √K; an intervention changes it. */
  scale: number;
  readonly nHeads: number;
  readonly headSize: number;
  private readonly inner: number;
  private readonly qkv: Tensor;
  private readonly qkvBias: Float32Array;
  private readonly out: Tensor;
  private readonly outBias: Float32Array;
  private readonly q: Tap;
  private readonly k: Tap;
  private readonly v: Tap;
  private readonly scores: Tap;
  private readonly weights: Tap;
  private readonly headOut: Tap;
  private readonly attnOut: Tap;

  constructor({ d_model, n_heads }: TransformerConfig, weights: Weights, taps: Taps, path: string) {
    this.nHeads = n_heads;
    this.headSize = d_model / n_heads;
    this.inner = d_model;
    this.scale = this.headSize ** -0.5;
    this.qkv = weights.take(`${path}.qkv.weight`, 3 * d_model, d_model);
    this.qkvBias = weights.take(`${path}.qkv.bias`, 3 * d_model).values;
    this.out = weights.take(`${path}.out.weight`, d_model, d_model);
    this.outBias = weights.take(`${path}.out.bias`, d_model).values;
    this.q = taps.at(`${path}.q`);
    this.k = taps.at(`${path}.k`);
    this.v = taps.at(`${path}.v`);
    this.scores = taps.at(`${path}.scores`);
    this.weights = taps.at(`${path}.weights`);
    this.headOut = taps.at(`${path}.head_out`);
    this.attnOut = taps.at(`${path}.attn_out`);
  }

  /** Attention of x to itself. `isCausal`: a query sees its own position and earlier ones. */
  toSelf(x_BLD: Tensor, positions: Positions, bias_HLM: Tensor | null, isCausal: boolean, cache: GrowingCache | null): Tensor {
    const start = cache?.length ?? 0;
    const q_BHLK = positions.rotate(this.project(x_BLD, 0), start);
    let k_BHMK = positions.rotate(this.project(x_BLD, 1), start);
    let v_BHMK = this.project(x_BLD, 2);
    if (cache) [k_BHMK, v_BHMK] = cache.append(k_BHMK, v_BHMK);
    return this.mix(q_BHLK, k_BHMK, v_BHMK, bias_HLM, isCausal);
  }

  /** Attention of x to the encoder's output. */
  toMemory(x_BLD: Tensor, { k_BHMK, v_BHMK }: FixedCache): Tensor {
    return this.mix(this.project(x_BLD, 0), k_BHMK, v_BHMK, null, false);
  }

  keysAndValues(memory_BMD: Tensor): FixedCache {
    return { k_BHMK: this.project(memory_BMD, 1), v_BHMK: this.project(memory_BMD, 2) };
  }

  /** x times W_Q (0), W_K (1) or W_V (2), split into heads. */
  private project(x_BLD: Tensor, part: 0 | 1 | 2): Tensor {
    const [first, last] = [part * this.inner, (part + 1) * this.inner];
    return this.split(linear(x_BLD, rowsOf(this.qkv, first, last), this.qkvBias.subarray(first, last)));
  }

  private mix(q_BHLK: Tensor, k_BHMK: Tensor, v_BHMK: Tensor, bias_HLM: Tensor | null, isCausal: boolean): Tensor {
    const [q, k, v] = [this.q.pass(q_BHLK), this.k.pass(k_BHMK), this.v.pass(v_BHMK)];
    const scores_BHLM = this.scores.pass(this.score(q, k, bias_HLM));
    const weights_BHLM = this.weights.pass(softmax(isCausal ? hideFuture(scores_BHLM) : scores_BHLM));
    const joined_BLD = this.join(this.headOut.pass(this.average(weights_BHLM, v)));
    return this.attnOut.pass(linear(joined_BLD, this.out, this.outBias));
  }

  private score(q_BHLK: Tensor, k_BHMK: Tensor, bias_HLM: Tensor | null): Tensor {
    const [B, H, L, K] = q_BHLK.shape;
    const M = k_BHMK.shape[2];
    const scores_BHLM = zeros(B, H, L, M);
    for (let b = 0; b < B; b++)
      for (let h = 0; h < H; h++)
        for (let l = 0; l < L; l++)
          for (let m = 0; m < M; m++) {
            const query = ((b * H + h) * L + l) * K;
            const key = ((k_BHMK.shape[0] === 1 ? h : b * H + h) * M + m) * K;
            let sum = 0;
            for (let i = 0; i < K; i++) sum += q_BHLK.values[query + i] * k_BHMK.values[key + i];
            const bias = bias_HLM ? bias_HLM.values[(h * L + l) * M + m] : 0;
            scores_BHLM.values[((b * H + h) * L + l) * M + m] = sum * this.scale + bias;
          }
    return scores_BHLM;
  }

  /** The sum of the values, each times its weight. */
  private average(weights_BHLM: Tensor, v_BHMK: Tensor): Tensor {
    const [B, H, L, M] = weights_BHLM.shape;
    const K = v_BHMK.shape[3];
    const out_BHLK = zeros(B, H, L, K);
    const sums = new Float64Array(K);
    for (let b = 0; b < B; b++)
      for (let h = 0; h < H; h++)
        for (let l = 0; l < L; l++) {
          sums.fill(0);
          const row = (b * H + h) * L + l;
          for (let m = 0; m < M; m++) {
            const weight = weights_BHLM.values[row * M + m];
            const value = ((v_BHMK.shape[0] === 1 ? h : b * H + h) * M + m) * K;
            for (let i = 0; i < K; i++) sums[i] += weight * v_BHMK.values[value + i];
          }
          out_BHLK.values.set(sums, row * K);
        }
    return out_BHLK;
  }

  /** BLD to BHLK. */
  private split(x_BLD: Tensor): Tensor {
    const [B, L] = x_BLD.shape;
    const [H, K] = [this.nHeads, this.headSize];
    const found = zeros(B, H, L, K);
    for (let b = 0; b < B; b++)
      for (let l = 0; l < L; l++)
        for (let h = 0; h < H; h++) {
          const from = ((b * L + l) * H + h) * K;
          found.values.set(x_BLD.values.subarray(from, from + K), ((b * H + h) * L + l) * K);
        }
    return found;
  }

  /** BHLK to BLD. */
  private join(x_BHLK: Tensor): Tensor {
    const [B, H, L, K] = x_BHLK.shape;
    const found = zeros(B, L, H * K);
    for (let b = 0; b < B; b++)
      for (let h = 0; h < H; h++)
        for (let l = 0; l < L; l++) {
          const from = ((b * H + h) * L + l) * K;
          found.values.set(x_BHLK.values.subarray(from, from + K), ((b * L + l) * H + h) * K);
        }
    return found;
  }
}

/** A query sees its own position and earlier ones; all queries are there. */
function hideFuture(scores_BHLM: Tensor): Tensor {
  const [, , L, M] = scores_BHLM.shape;
  const values = scores_BHLM.values.slice();
  for (let row = 0; row < values.length / M; row++) values.fill(-Infinity, row * M + (row % L) + 1, (row + 1) * M);
  return { shape: scores_BHLM.shape, values };
}
