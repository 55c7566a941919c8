// What the server says, as the page reads it. Indices count from 0; L target length, M source length, H heads.

export interface ModelConfig {
  family?: string;
  d_model: number;
  n_heads: number;
  d_ff: number;
  n_encoder_layers: number;
  n_decoder_layers: number;
  norm_order: "pre" | "post";
  /** A recurrent model has none. */
  position?: string;
  ffn: string;
  tie_embeddings?: string;
}

export interface Model {
  id: string;
  name: string;
  src_lang: string;
  tgt_lang: string;
  parameters: number;
  config: ModelConfig;
  decode: DecodeOptions;
  vocabulary: number;
  tokenizer?: "bpe" | "unigram";
  /** The same for the same tokenizer: ids then mean the same. */
  tokenizer_hash: string;
  /** What a row of the embeddings is multiplied by: √d_model in the paper. */
  embedding_scale: number;
  /** What Q Kᵀ is multiplied by: 1 / √head_size in the paper. Null: no such attention. */
  score_scale: number | null;
  head_size: number | null;
  card: string;
  /** It remembers how its attention took shape. */
  recorded?: boolean;
}

export interface DecodeOptions {
  method?: string;
  beam?: number;
  length_penalty?: number;
  temperature?: number;
  top_k?: number;
  top_p?: number;
  seed?: number;
}

export interface Limits {
  characters: number;
  pieces: number;
  beam: number;
  n_best: number;
}

export interface Piece {
  id: number;
  piece: string;
}

export interface TokenPiece extends Piece {
  text: string;
  kind: "normal" | "byte" | "control" | "unknown";
}

export interface Merge {
  left: string;
  right: string;
  result: string;
  /** Where the result stands among the symbols. */
  place: number;
  symbols: string[];
}

export interface Tokens {
  text: string;
  normalised: string;
  pieces: TokenPiece[];
  start: string[];
  merges: Merge[];
}

export interface ScoredPiece extends Piece {
  log_prob: number;
}

export interface Alternative {
  text: string;
  score: number;
  log_prob: number;
  /** It ended by itself, rather than being cut at the longest length. */
  finished: boolean;
  tokens: ScoredPiece[];
}

export interface Translation {
  source: string;
  src: Piece[];
  alternatives: Alternative[];
}

/** A translation while it is written: so many tokens still stand, and these come after them; at last, all of it. */
export type Line = { kept: number; added: ScoredPiece[] } | { translation: Translation } | { error: string; hint: string };

export interface LikelyPiece extends Piece {
  probability: number;
}

export interface TraceHeader {
  trace: string;
  kernel: string;
  text: string;
  translation: string;
  src: Piece[];
  tgt: LikelyPiece[];
  /** Those in force. */
  interventions: Intervention[];
  taps: Record<string, number[]>;
}

export interface LensLayer {
  layer: number;
  entropy: number;
  top: LikelyPiece[];
  chosen_rank: number;
  chosen_probability: number;
}

export interface Next {
  top: (LikelyPiece & { logit: number })[];
  entropy: number;
  chosen: LikelyPiece & { rank: number };
  lens: LensLayer[];
}

export interface BeamNode {
  node: number;
  parent: number | null;
  step: number;
  id: number;
  piece: string;
  log_prob: number;
  total: number;
  score: number;
  state: "alive" | "pruned" | "finished" | "cut" | "best";
}

export interface Beam {
  nodes: BeamNode[];
  left_out: number;
  beam: number;
  length_penalty: number;
  /** What a score is divided by: the paper's ((5 + n) / 6)^α, or n^α. */
  beam_rule: "paper" | "huggingface";
  alternatives: (Alternative & { node: number | null })[];
}

/** Lengths of vectors: what came in, what the sublayer adds, their sum, what goes on. */
export interface Stage {
  where: string;
  before: number;
  change: number;
  resid: number;
  after: number;
  cosine: number;
}

export interface Block {
  embedded: number;
  stages: Stage[];
  units: { unit: number; value: number }[];
}

export interface HeadFigures {
  where: string;
  head: number;
  entropy: number;
  diagonality: number;
  end: number;
  peak: number;
  /** Of a cross-attention only. */
  alignment: number | null;
}

export type Intervention =
  | { kind: "head"; where: string; head: number }
  | { kind: "attention" | "ffn" | "layer" | "residual"; where: string }
  | { kind: "scale" | "mask" | "positions" }
  | { kind: "weight"; where: string; head: number; row: number; column: number; value: number };

export interface Run {
  name: string;
  step: number;
  live: boolean;
  model: boolean;
  checkpoints: number[];
  /** It has kept the attention over its probes. */
  recorded: boolean;
}

export interface ToyState {
  run: string;
  running: boolean;
  error: string | null;
}

export interface MetricsRow {
  kind: "step" | "validation";
  step: number;
  loss?: number;
  nll?: number;
  lr?: number;
  grad_norm?: number;
  tokens_per_second?: number;
  bleu?: number;
  chrf?: number;
  samples?: { source: string; reference: string; output: string }[];
}

/** A sentence that is looked at through a training. */
export interface Probe {
  text: string;
  src: string[];
}

/** What was made of a probe: pieces, and the probability of each. */
export interface Written {
  tgt: string[];
  probabilities: number[];
}

export interface Film {
  name: string;
  /** What was written is a given reference, and not the model's own translation. */
  forced: boolean;
  probes: Probe[];
  moments: { step: number; written: Written[] }[];
}
