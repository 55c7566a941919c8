// ReLU and dropout, forward and backward: out = dropout(max(x, 0)).
//
// Called through training.cpp by core/feedforward.py, which has the PyTorch fallback.
#pragma once

#include "common.h"
#include "parallel.h"

template <typename T>
void relu_dropout_rows(const T* x, T* out, int threshold, uint64_t seed, int64_t rows, int64_t size) {
  const PerThread<RowDropout> threads(threshold, seed, size);
#pragma omp parallel
  {
    RowDropout& dropout = threads.current();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x + row * size;
      T* to = out + row * size;
      dropout.sample(row);
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats numbers = load_partial(from + d, size - d);
        // NaN < 0 is false: relu(NaN) = NaN, as in PyTorch.
        store_partial((numbers < 0.0f ? Floats{} : numbers) * dropout.factors(d), to + d, size - d);
      }
    }
  }
}

// The output tells the mask: an element is zero if it was negative or dropped. Where it is NaN, the gradient passes, as
// in PyTorch.
template <typename T>
void relu_dropout_backward(const T* grad, const T* out, float scale, T* grad_x, int64_t count) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    store_value(to_float(out[i]) <= 0.0f ? 0.0f : to_float(grad[i]) * scale, grad_x[i]);
  }
}
