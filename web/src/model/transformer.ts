// The Transformer of "Attention Is All You Need" (Vaswani et al. 2017), for one sentence at a time.
//
// The encoder maps the source to vectors; the decoder generates the target token by token, attending to the tokens so far
// and to the encoder's output. The same model as models/transformer.py, with the same names of weights and taps.
//
// Shapes: B rows (1 in a pass over a sentence, one per hypothesis in a search), L target length, M source length, D model,
// V vocabulary.
import { GrowingCache, MultiHeadAttention, type FixedCache } from "./attention";
import type { TransformerConfig } from "./config";
import { FeedForward } from "./feedForward";
import { buildNorm, type Norm } from "./norms";
import { buildPositions, type Positions } from "./positions";
import { Residual } from "./residual";
import { Taps, type Tap } from "./taps";
import { linear, zeros, type Tensor } from "./tensor";
import type { Weights } from "./weights";

/** Self-attention over the source, then the feed-forward network. */
class EncoderLayer {
  readonly attention: MultiHeadAttention;
  private readonly ffn: FeedForward;
  private readonly aroundAttention: Residual;
  private readonly aroundFfn: Residual;

  constructor(config: TransformerConfig, weights: Weights, taps: Taps, path: string) {
    this.attention = new MultiHeadAttention(config, weights, taps, `${path}.attention`);
    this.ffn = new FeedForward(config, weights, taps, `${path}.ffn`);
    this.aroundAttention = new Residual(config, weights, taps, `${path}.around_attention`);
    this.aroundFfn = new Residual(config, weights, taps, `${path}.around_ffn`);
  }

  forward(x_1MD: Tensor, positions: Positions, bias_HMM: Tensor | null): Tensor {
    const attended = this.attention.toSelf(this.aroundAttention.before(x_1MD), positions, bias_HMM, false, null);
    x_1MD = this.aroundAttention.after(x_1MD, attended);
    return this.aroundFfn.after(x_1MD, this.ffn.forward(this.aroundFfn.before(x_1MD)));
  }
}

/** Masked self-attention over the target, cross-attention to the source, then the feed-forward network. */
class DecoderLayer {
  readonly attention: MultiHeadAttention;
  readonly cross: MultiHeadAttention;
  private readonly ffn: FeedForward;
  private readonly aroundAttention: Residual;
  private readonly aroundCross: Residual;
  private readonly aroundFfn: Residual;

  constructor(config: TransformerConfig, weights: Weights, taps: Taps, path: string) {
    this.attention = new MultiHeadAttention(config, weights, taps, `${path}.attention`);
    this.cross = new MultiHeadAttention(config, weights, taps, `${path}.cross`);
    this.ffn = new FeedForward(config, weights, taps, `${path}.ffn`);
    this.aroundAttention = new Residual(config, weights, taps, `${path}.around_attention`);
    this.aroundCross = new Residual(config, weights, taps, `${path}.around_cross`);
    this.aroundFfn = new Residual(config, weights, taps, `${path}.around_ffn`);
  }

  /** `own`: the cache of a search; null in a pass over all tokens. */
  forward(x_BLD: Tensor, memory: FixedCache, positions: Positions, bias_HLM: Tensor | null, own: GrowingCache | null): Tensor {
    const attended = this.attention.toSelf(this.aroundAttention.before(x_BLD), positions, bias_HLM, own === null, own);
    x_BLD = this.aroundAttention.after(x_BLD, attended);
    x_BLD = this.aroundCross.after(x_BLD, this.cross.toMemory(this.aroundCross.before(x_BLD), memory));
    return this.aroundFfn.after(x_BLD, this.ffn.forward(this.aroundFfn.before(x_BLD)));
  }
}

/** What a search stores between two steps: per layer, the keys and values of the tokens so far, and of the source. */
export class DecoderCaches {
  constructor(
    readonly own: GrowingCache[],
    readonly memories: FixedCache[],
  ) {}

  get length(): number {
    return this.own[0].length;
  }

  reorder(rows: number[]): void {
    for (const own of this.own) own.reorder(rows);
  }
}

/** ids to logits. `encode` and `decode` are its halves; `begin` and `step` decode token by token. */
export class Transformer {
  readonly taps = new Taps();
  /** Interventions replace these. */
  srcPositions: Positions;
  tgtPositions: Positions;
  readonly embeddings: { src: Tensor; tgt: Tensor; output: Tensor };
  readonly embeddingScale: number;
  private readonly encoder: EncoderLayer[];
  private readonly decoder: DecoderLayer[];
  private readonly encoderNorm: Norm;
  private readonly decoderNorm: Norm;
  private readonly outputBias: Float32Array | null;
  private readonly srcEmbedded: Tap;
  private readonly tgtEmbedded: Tap;
  private readonly memory: Tap;
  private readonly logits: Tap;

  constructor(
    readonly config: TransformerConfig,
    weights: Weights,
  ) {
    const { d_model, tie_embeddings, src_vocab_size, tgt_vocab_size } = config;
    const tgt = weights.take("tgt_embedding.weight", tgt_vocab_size, d_model);
    const src = tie_embeddings === "all" ? tgt : weights.take("src_embedding.weight", src_vocab_size, d_model);
    const output = tie_embeddings === "none" ? weights.take("output.weight", tgt_vocab_size, d_model) : tgt;
    this.embeddings = { src, tgt, output };
    this.embeddingScale = Math.sqrt(d_model);
    const layers = (count: number): number[] => [...Array(count).keys()];
    this.encoder = layers(config.n_encoder_layers).map((i) => new EncoderLayer(config, weights, this.taps, `encoder.${i}`));
    this.decoder = layers(config.n_decoder_layers).map((i) => new DecoderLayer(config, weights, this.taps, `decoder.${i}`));
    this.srcPositions = buildPositions(config, weights, "src_positions", true);
    this.tgtPositions = buildPositions(config, weights, "tgt_positions", false);
    const lastNorm = (path: string): Norm => (config.norm_order === "pre" ? buildNorm(config, weights, path) : (x) => x);
    this.encoderNorm = lastNorm("encoder_norm");
    this.decoderNorm = lastNorm("decoder_norm");
    this.outputBias = config.output_bias ? weights.take("output_bias", tgt_vocab_size).values : null;
    this.srcEmbedded = this.taps.at("src_embedded");
    this.tgtEmbedded = this.taps.at("tgt_embedded");
    this.memory = this.taps.at("memory");
    this.logits = this.taps.at("logits");
    weights.checkAllTaken();
  }

  /** Every attention of the model, by its path. */
  get attentions(): Map<string, MultiHeadAttention> {
    const found = new Map<string, MultiHeadAttention>();
    this.encoder.forEach((layer, i) => found.set(`encoder.${i}.attention`, layer.attention));
    this.decoder.forEach((layer, i) => found.set(`decoder.${i}.attention`, layer.attention).set(`decoder.${i}.cross`, layer.cross));
    return found;
  }

  /** The maximum length of a target, in tokens; null: no limit. */
  get longestTarget(): number | null {
    return this.config.position === "learned" ? this.config.max_positions : null;
  }

  /** logits_1LV of the token after each target position. */
  forward(src: number[], tgt: number[]): Tensor {
    return this.project(this.decode(tgt, this.encode(src)));
  }

  /** memory_1MD: the encoder's output, one vector per source token. */
  encode(src: number[]): Tensor {
    let x_1MD = this.srcEmbedded.pass(this.embed(this.embeddings.src, this.srcPositions, [src], 0));
    const bias = this.srcPositions.bias(src.length, src.length);
    for (const layer of this.encoder) x_1MD = layer.forward(x_1MD, this.srcPositions, bias);
    return this.memory.pass(this.encoderNorm(x_1MD));
  }

  /** hidden_1LD at all target positions, with causal self-attention. */
  decode(tgt: number[], memory_1MD: Tensor): Tensor {
    let x_1LD = this.tgtEmbedded.pass(this.embed(this.embeddings.tgt, this.tgtPositions, [tgt], 0));
    const bias = this.tgtPositions.bias(tgt.length, tgt.length);
    for (const layer of this.decoder) x_1LD = layer.forward(x_1LD, layer.cross.keysAndValues(memory_1MD), this.tgtPositions, bias, null);
    return this.finish(x_1LD);
  }

  /** From the residual stream after the last layer to the input of the output projection. */
  finish(x_BLD: Tensor): Tensor {
    return this.decoderNorm(x_BLD);
  }

  project(hidden_BLD: Tensor): Tensor {
    return this.logits.pass(this.unembed(hidden_BLD));
  }

  /** The projection to the vocabulary, without its tap. */
  unembed(hidden_BLD: Tensor): Tensor {
    return linear(hidden_BLD, this.embeddings.output, this.outputBias);
  }

  /** Encode, and create the caches of a search that begins with one hypothesis. */
  begin(src: number[]): DecoderCaches {
    const memory_1MD = this.encode(src);
    const own = this.decoder.map(({ attention }) => new GrowingCache(1, attention.nHeads, attention.headSize));
    return new DecoderCaches(
      own,
      this.decoder.map(({ cross }) => cross.keysAndValues(memory_1MD)),
    );
  }

  /** Feed one token per row; logits_B1V of the next. */
  step(tokens: number[], caches: DecoderCaches): Tensor {
    const start = caches.length;
    const rows = tokens.map((token) => [token]);
    let x_B1D = this.tgtEmbedded.pass(this.embed(this.embeddings.tgt, this.tgtPositions, rows, start));
    const bias = this.tgtPositions.bias(1, start + 1);
    this.decoder.forEach((layer, i) => {
      x_B1D = layer.forward(x_B1D, caches.memories[i], this.tgtPositions, bias, caches.own[i]);
    });
    return this.project(this.finish(x_B1D));
  }

  /** Embeddings times √D (the paper, section 3.4), with positions. */
  private embed(embedding: Tensor, positions: Positions, ids: number[][], start: number): Tensor {
    const D = this.config.d_model;
    const x_BLD = zeros(ids.length, ids[0].length, D);
    ids.flat().forEach((id, row) => {
      for (let i = 0; i < D; i++) x_BLD.values[row * D + i] = embedding.values[id * D + i] * this.embeddingScale;
    });
    return positions.add(x_BLD, start);
  }
}
