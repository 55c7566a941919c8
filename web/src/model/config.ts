// The settings of a Transformer, as in its config.json, and those that this model can compute.
//
// `regard` refuses other models before it packs them, field by field. What is checked here is what this code branches on,
// so that a page and a model of different versions fail with a sentence.

export interface TransformerConfig {
  family: "transformer";
  d_model: number;
  n_heads: number;
  d_ff: number;
  n_encoder_layers: number;
  n_decoder_layers: number;
  position: "sinusoidal" | "learned" | "rotary" | "alibi" | "relative" | "none";
  max_positions: number;
  norm_order: "post" | "pre";
  norm: "layernorm" | "rmsnorm";
  ffn: "relu" | "gelu" | "gelu_tanh" | "swish" | "swiglu" | "geglu";
  tie_embeddings: "all" | "output" | "none";
  src_vocab_size: number;
  tgt_vocab_size: number;
  output_bias: boolean;
}

/** Something is wrong with a request or with a model. */
export class ModelError extends Error {
  constructor(
    message: string,
    readonly hint = "",
    readonly status = 400,
  ) {
    super(message);
  }
}

const CHOICES: Readonly<Record<string, readonly string[]>> = {
  family: ["transformer"],
  position: ["sinusoidal", "learned", "rotary", "alibi", "relative", "none"],
  norm_order: ["post", "pre"],
  norm: ["layernorm", "rmsnorm"],
  ffn: ["relu", "gelu", "gelu_tanh", "swish", "swiglu", "geglu"],
  tie_embeddings: ["all", "output", "none"],
};
const SIZES = ["d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "src_vocab_size", "tgt_vocab_size"];
const ATTENTIONS = ["attention", "decoder_attention", "cross_attention"];

/** The settings, or a ModelError for a model that cannot be computed here. */
export function checkConfig(config: Record<string, unknown>): TransformerConfig {
  for (const [name, values] of Object.entries(CHOICES))
    if (!values.includes(config[name] as string)) throw unsupported(name, config[name], values);
  for (const name of ATTENTIONS) {
    const { kind } = config[name] as { kind: string };
    if (kind !== "full") throw unsupported(`${name}.kind`, kind, ["full"]);
  }
  for (const name of SIZES) {
    const size = config[name];
    if (!Number.isInteger(size) || (size as number) < 1) throw new ModelError(`model.${name} = ${String(size)} must be a positive integer`);
  }
  return config as unknown as TransformerConfig;
}

function unsupported(name: string, value: unknown, values: readonly string[]): ModelError {
  return new ModelError(`the page's own model does not support model.${name} = '${String(value)}'; it supports ${values.join(", ")}`);
}
