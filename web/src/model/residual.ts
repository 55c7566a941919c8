// Add & norm (the paper, section 3.1): the residual connection and the norm around every sublayer.
import type { TransformerConfig } from "./config";
import { buildNorm, type Norm } from "./norms";
import type { Tap, Taps } from "./taps";
import { add, type Tensor } from "./tensor";
import type { Weights } from "./weights";

/** post: norm(x + f(x)), the paper's.   pre: x + f(norm(x)). */
export class Residual {
  private readonly isPre: boolean;
  private readonly norm: Norm;
  private readonly resid: Tap;
  private readonly normed: Tap;

  constructor(config: TransformerConfig, weights: Weights, taps: Taps, path: string) {
    this.isPre = config.norm_order === "pre";
    this.norm = buildNorm(config, weights, `${path}.norm`);
    this.resid = taps.at(`${path}.resid`);
    this.normed = taps.at(`${path}.normed`);
  }

  /** The sublayer's input. */
  before(x: Tensor): Tensor {
    return this.isPre ? this.normed.pass(this.norm(x)) : x;
  }

  /** The output, given the sublayer's output `change`. */
  after(x: Tensor, change: Tensor): Tensor {
    const sum = this.resid.pass(add(x, change));
    return this.isPre ? sum : this.normed.pass(this.norm(sum));
  }
}
