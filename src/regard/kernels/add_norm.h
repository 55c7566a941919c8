// Add & norm with dropout, forward and backward, one pass per row:
//
//   resid = x + dropout(change),   normed = (resid − mean) · rate · gain + bias,   rate = 1 / √(variance + eps)
//   dresid = rate · (g − mean(g) − unit · mean(g · unit)),   g = dnormed · gain,   unit = (resid − mean) · rate
//
// Called through training.cpp by core/residual.py, which has the PyTorch fallback.
#pragma once

#include "common.h"
#include "parallel.h"

// A thread's row of float32 and its dropout.
struct NormRow {
  NormRow(int threshold, uint64_t seed, int64_t size)
      : numbers(allocate<float>(round_up(size))), dropout(threshold, seed, size) {}

  AlignedArray<float> numbers;
  RowDropout dropout;
};

// `resid`, `means` and `rates` are for the backward pass.
template <typename T>
void add_norm_rows(const T* x, const T* change, const float* gain, const float* bias, float eps, int threshold,
                   uint64_t seed, T* resid, T* normed, float* means, float* rates, int64_t rows, int64_t size) {
  const PerThread<NormRow> threads(threshold, seed, size);
#pragma omp parallel
  {
    float* r = threads.current().numbers.get();
    RowDropout& dropout = threads.current().dropout;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T *x_row = x + row * size, *change_row = change + row * size;
      T *resid_row = resid + row * size, *normed_row = normed + row * size;
      dropout.sample(row);
      Floats sum = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats added = load_partial(x_row + d, count) + load_partial(change_row + d, count) * dropout.factors(d);
        store_partial(added, resid_row + d, count);
        const Floats stored = load_partial(resid_row + d, count);  // rounded as the backward pass will read it
        store_vector(stored, r + d);
        sum += stored;
      }
      const float mean = reduce_add(sum) / size;
      Floats square = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats centred = zero_beyond(load_vector(r + d) - mean, size - d);
        square += centred * centred;
      }
      const float rate = 1.0f / std::sqrt(reduce_add(square) / size + eps);
      means[row] = mean;
      rates[row] = rate;
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats unit = (load_vector(r + d) - mean) * rate;
        store_partial(unit * load_partial(gain + d, count) + load_partial(bias + d, count), normed_row + d, count);
      }
    }
  }
}

// A thread's rows, dropout and sums of the gradients by gain and bias.
struct NormGradients {
  NormGradients(int threshold, uint64_t seed, int64_t size)
      : padded(round_up(size)), numbers(allocate<float>(4, padded)), units(numbers.get()), scaled(units + padded),
        gain(scaled + padded), bias(gain + padded), dropout(threshold, seed, size) {}
  void clear() {
    std::fill_n(gain, 2 * padded, 0.0f);
    used = true;
  }

  int64_t padded;
  AlignedArray<float> numbers;
  float *units, *scaled, *gain, *bias;
  RowDropout dropout;
  bool used = false;
};

// Gradients by x and change; those by gain and bias are added to float32 sums.
template <typename T>
void add_norm_backward_rows(const T* grad, const T* resid, const float* gain, const float* means, const float* rates,
                            int threshold, uint64_t seed, T* grad_x, T* grad_change, float* grad_gain,
                            float* grad_bias, int64_t rows, int64_t size) {
  const PerThread<NormGradients> threads(threshold, seed, size);
#pragma omp parallel
  {
    NormGradients& own = threads.current();
    own.clear();
    float *units = own.units, *scaled = own.scaled, *own_gain = own.gain, *own_bias = own.bias;
    RowDropout& dropout = own.dropout;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T *grad_row = grad + row * size, *resid_row = resid + row * size;
      T *x_row = grad_x + row * size, *change_row = grad_change + row * size;
      const float mean = means[row], rate = rates[row];
      Floats sum = {}, product = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats g = load_partial(grad_row + d, count), unit = (load_partial(resid_row + d, count) - mean) * rate;
        const Floats part = g * load_partial(gain + d, count);
        store_vector(unit, units + d);
        store_vector(part, scaled + d);
        store_vector(load_vector(own_gain + d) + g * unit, own_gain + d);
        store_vector(load_vector(own_bias + d) + g, own_bias + d);
        sum += part;
        product += part * unit;
      }
      const float mean_sum = reduce_add(sum) / size, mean_product = reduce_add(product) / size;
      dropout.sample(row);
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats value = rate * (load_vector(scaled + d) - mean_sum - load_vector(units + d) * mean_product);
        store_partial(value, x_row + d, size - d);
        store_partial(value * dropout.factors(d), change_row + d, size - d);
      }
    }
  }
  threads.for_each([=](const NormGradients& thread) {
    for (int64_t d = 0; thread.used && d < size; ++d) {
      grad_gain[d] += thread.gain[d];
      grad_bias[d] += thread.bias[d];
    }
  });
}
