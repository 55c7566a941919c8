// Normalisation of each token's vector: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang & Sennrich 2019).
import type { TransformerConfig } from "./config";
import { width, type Tensor } from "./tensor";
import type { Weights } from "./weights";

export type Norm = (x: Tensor) => Tensor;

/** y = (x − mean) / √(variance + ε) · gain + bias */
function layerNorm(gain: Float32Array, bias: Float32Array): Norm {
  return (x) => {
    const n = width(x);
    const values = new Float32Array(x.values.length);
    for (let from = 0; from < values.length; from += n) {
      let sum = 0;
      for (let i = 0; i < n; i++) sum += x.values[from + i];
      const mean = sum / n;
      let squares = 0;
      for (let i = 0; i < n; i++) squares += (x.values[from + i] - mean) ** 2;
      const rate = 1 / Math.sqrt(squares / n + 1e-5);
      for (let i = 0; i < n; i++) values[from + i] = (x.values[from + i] - mean) * rate * gain[i] + bias[i];
    }
    return { shape: x.shape, values };
  };
}

/** y = x / √(mean of x² + ε) · gain */
function rmsNorm(gain: Float32Array): Norm {
  return (x) => {
    const n = width(x);
    const values = new Float32Array(x.values.length);
    for (let from = 0; from < values.length; from += n) {
      let squares = 0;
      for (let i = 0; i < n; i++) squares += x.values[from + i] ** 2;
      const rate = 1 / Math.sqrt(squares / n + 1e-6);
      for (let i = 0; i < n; i++) values[from + i] = x.values[from + i] * rate * gain[i];
    }
    return { shape: x.shape, values };
  };
}

export function buildNorm(config: TransformerConfig, weights: Weights, path: string): Norm {
  const gain = weights.take(`${path}.weight`, config.d_model).values;
  switch (config.norm) {
    case "layernorm":
      return layerNorm(gain, weights.take(`${path}.bias`, config.d_model).values);
    case "rmsnorm":
      return rmsNorm(gain);
  }
}
