// Rotary positions (Su et al. 2021) of whole tensors: with (a, b) the pair (k, k + K/2) of a head at position l,
//
//   (a, b) → (a cos θ − b sin θ, b cos θ + a sin θ),   θ = angle[l, k]
//
// Called through training.cpp by core/rotation.py; the PyTorch fallback is rotate_plainly in core/positions.py.
#pragma once

#include "common.h"

template <typename T>
struct RotationCall {
  HeadRows<T> x;
  int64_t sentences, heads, rows, size;
  const float *cos, *sin;  // [rows][size / 2]
};

// out_BLHK.
template <typename T>
void rotate_heads(const RotationCall<T>& c, T* out) {
  const int64_t half = c.size / 2;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < c.sentences; ++b) {
    for (int64_t l = 0; l < c.rows; ++l) {
      T* to = out + (b * c.rows + l) * c.heads * c.size;
      for (int64_t h = 0; h < c.heads; ++h) {
        rotate(c.x.head_of(b, h) + l * c.x.row_stride, to + h * c.size, c.size, c.cos + l * half, c.sin + l * half);
      }
    }
  }
}
