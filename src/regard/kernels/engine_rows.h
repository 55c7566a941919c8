// What the engine computes between two matrix products, one row at a time: LayerNorm and RMSNorm, the activations, and the
// most probable next tokens.
//
// Called by engine_stream.h and the searches. Shapes: D model, V vocabulary.
#pragma once

#include "common.h"

// The numbers are the places in ACTIVATIONS of decode/engine.py.
enum Activation { RELU = 0, GELU = 1, SWIGLU = 2, SWISH = 3, GELU_TANH = 4, GEGLU = 5 };

inline bool is_gated(int64_t activation) { return activation == SWIGLU || activation == GEGLU; }

// x Φ(x) by the approximation with tanh (Hendrycks & Gimpel 2016), which is x times a sigmoid.
inline float gelu_tanh(float x) {
  return x / (1.0f + fast_exp(-1.5957691216f * (x + 0.044715f * x * x * x)));
}

// (x − mean) / √(variance + eps) · gain + bias; RMSNorm takes the mean as zero.
struct Norm {
  const float* gain = nullptr;  // null: no norm
  const float* bias = nullptr;
  float eps = 0;
  bool centred = false;  // true for LayerNorm, false for RMSNorm

  void operator()(const float* from, float* to, int64_t size) const {
    float total = 0;
    if (centred) {
#pragma omp simd reduction(+ : total)
      for (int64_t d = 0; d < size; ++d) total += from[d];
    }
    float mean = total / size, square = 0;
#pragma omp simd reduction(+ : square)
    for (int64_t d = 0; d < size; ++d) square += (from[d] - mean) * (from[d] - mean);
    float rate = 1.0f / std::sqrt(square / size + eps);
    if (bias) {
#pragma omp simd
      for (int64_t d = 0; d < size; ++d) to[d] = (from[d] - mean) * rate * gain[d] + bias[d];
    } else {
#pragma omp simd
      for (int64_t d = 0; d < size; ++d) to[d] = (from[d] - mean) * rate * gain[d];
    }
  }
};

// In place; SwiGLU and GEGLU leave their result in the first half.
inline void activate(float* h, int64_t size, Activation kind) {
  switch (kind) {
    case RELU:  // part of the product
      break;
    case GELU:
      for (int64_t i = 0; i < size; ++i) h[i] *= 0.5f * (1.0f + std::erf(h[i] * 0.70710678f));
      break;
    case SWIGLU:
#pragma omp simd
      for (int64_t i = 0; i < size / 2; ++i) h[i] = h[i] / (1.0f + fast_exp(-h[i])) * h[size / 2 + i];
      break;
    case SWISH:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) h[i] = h[i] / (1.0f + fast_exp(-h[i]));
      break;
    case GELU_TANH:
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) h[i] = gelu_tanh(h[i]);
      break;
    case GEGLU:
#pragma omp simd
      for (int64_t i = 0; i < size / 2; ++i) h[i] = gelu_tanh(h[i]) * h[size / 2 + i];
      break;
  }
}

constexpr int64_t BLOCK = 4 * LANES;

// The largest of BLOCK values. Written with vectors because a compiler turns the plain loop into a chain of comparisons.
inline float largest_of_block(const float* values) {
  Floats four[4];
  std::memcpy(four, values, sizeof four);
  for (int i = 1; i < 4; ++i) four[0] = four[i] > four[0] ? four[i] : four[0];
  float largest = four[0][0];
  for (int lane = 1; lane < LANES; ++lane) largest = std::max(largest, four[0][lane]);
  return largest;
}

// log Σ exp of a row of logits; NaN if one of them is NaN or +∞. `highest` has space for the largest of every BLOCK, which
// `largest_tokens` needs.
inline float log_sum_exp(const float* line, int64_t size, float* highest) {
  const int64_t whole = size / BLOCK;
  float top = -INFINITY;
  for (int64_t block = 0; block < whole; ++block) {
    highest[block] = largest_of_block(line + block * BLOCK);
    top = std::max(top, highest[block]);
  }
  highest[whole] = -INFINITY;
  for (int64_t v = whole * BLOCK; v < size; ++v) highest[whole] = std::max(highest[whole], line[v]);
  top = std::max(top, highest[whole]);
  Floats sums[4] = {};
  for (int64_t v = 0; v < whole * BLOCK; v += BLOCK) {
    for (int i = 0; i < 4; ++i) sums[i] += fast_exp(load_vector(line + v + i * LANES) - top);
  }
  for (int64_t v = whole * BLOCK; v < size; v += LANES) {
    sums[0] += zero_beyond(fast_exp(load_partial(line + v, size - v) - top), size - v);
  }
  return top + std::log(reduce_add((sums[0] + sums[1]) + (sums[2] + sums[3])));
}

// The `width` largest numbers of a row above −∞, largest first, the lower token first among equals. No number of a block is
// above its `highest`: most blocks need no look.
inline void largest_tokens(const float* line, int64_t size, const float* highest, int64_t width, float* best,
                           int64_t* token) {
  std::fill_n(best, width, -INFINITY);
  std::fill_n(token, width, 0);
  for (int64_t block = 0; block <= size / BLOCK; ++block) {
    if (!(highest[block] > best[width - 1])) continue;
    for (int64_t v = block * BLOCK; v < std::min(size, (block + 1) * BLOCK); ++v) {
      if (!(line[v] > best[width - 1])) continue;
      int64_t place = width - 1;
      for (; place > 0 && best[place - 1] < line[v]; --place) {
        best[place] = best[place - 1];
        token[place] = token[place - 1];
      }
      best[place] = line[v];
      token[place] = v;
    }
  }
}
