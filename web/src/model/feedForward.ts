// The position-wise feed-forward network (the paper, section 3.3), and the gated variants of Shazeer 2020.
import type { TransformerConfig } from "./config";
import type { Tap, Taps } from "./taps";
import { linear, width, type Tensor } from "./tensor";
import type { Weights } from "./weights";

/**
 * relu, gelu, gelu_tanh, swish:  W₂ f(W₁ x + b₁) + b₂.
 * swiglu, geglu:  W₂ (f(W_gate x + b_gate) · (W_up x + b_up)) + b₂; gate and up are one matrix.
 */
export class FeedForward {
  private readonly kind: TransformerConfig["ffn"];
  private readonly up: Tensor;
  private readonly upBias: Float32Array;
  private readonly down: Tensor;
  private readonly downBias: Float32Array;
  private readonly hidden: Tap;
  private readonly out: Tap;

  constructor({ ffn, d_model, d_ff }: TransformerConfig, weights: Weights, taps: Taps, path: string) {
    this.kind = ffn;
    const n_up = ffn === "swiglu" || ffn === "geglu" ? 2 * d_ff : d_ff;
    this.up = weights.take(`${path}.up.weight`, n_up, d_model);
    this.upBias = weights.take(`${path}.up.bias`, n_up).values;
    this.down = weights.take(`${path}.down.weight`, d_model, d_ff);
    this.downBias = weights.take(`${path}.down.bias`, d_model).values;
    this.hidden = taps.at(`${path}.ffn_hidden`);
    this.out = taps.at(`${path}.ffn_out`);
  }

  forward(x: Tensor): Tensor {
    const hidden = this.hidden.pass(activate(this.kind, linear(x, this.up, this.upBias)));
    return this.out.pass(linear(hidden, this.down, this.downBias));
  }
}

function activate(kind: TransformerConfig["ffn"], x: Tensor): Tensor {
  switch (kind) {
    case "relu":
      return { shape: x.shape, values: x.values.map((value) => Math.max(value, 0)) };
    case "gelu":
      return { shape: x.shape, values: x.values.map(gelu) };
    case "gelu_tanh":
      return { shape: x.shape, values: x.values.map(geluTanh) };
    case "swish":
      return { shape: x.shape, values: x.values.map(silu) };
    case "swiglu":
      return gated(x, silu);
    case "geglu":
      return gated(x, geluTanh);
  }
}

/** The first half of each row, activated, times the second. */
function gated(x: Tensor, activation: (value: number) => number): Tensor {
  const n = width(x) / 2;
  const values = new Float32Array(x.values.length / 2);
  for (let row = 0; row < values.length / n; row++)
    for (let i = 0; i < n; i++) values[row * n + i] = Math.fround(activation(x.values[2 * row * n + i])) * x.values[(2 * row + 1) * n + i];
  return { shape: [...x.shape.slice(0, -1), n], values };
}

const silu = (x: number): number => x / (1 + Math.exp(-x));
const geluTanh = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));
const gelu = (x: number): number => 0.5 * x * (1 + erf(x / Math.SQRT2));

/** The error function: 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (1·3·…·(2n+1)), whose terms are all of one sign. */
function erf(x: number): number {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) sum += term *= (2 * x * x) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}
