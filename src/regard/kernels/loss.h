// From logits to the gradient of the label-smoothed cross-entropy, in place, one pass per row:
//
//   grad = softmax(logits) − right · [target],   right = 1 − ε
//   logp_right = logits[target] − log Σ exp(logits),   log_sum = log Σ exp(logits)
//
// and the same with R-Drop (Liang et al. 2021), which adds strength · (KL(p‖q) + KL(q‖p)) of two predictions p and q of one
// position; with gap = log p − log q, its gradient by the logits of p is p · (gap − KL(p‖q)) + p − q. The uniform part of
// the smoothing does not touch the logits: train/loss.py adds it.
//
// Called through training.cpp by train/loss_kernels.py, which has the PyTorch fallbacks.
#pragma once

#include "common.h"
#include "parallel.h"

// exp(logits − max) into `weights`; returns their sum and sets `highest`. A NaN or +∞ among the logits makes the sum NaN.
template <typename T>
float exponentials(const T* logits, float* weights, int64_t size, float& highest) {
  float top = -INFINITY;
#pragma omp simd reduction(max : top)
  for (int64_t v = 0; v < size; ++v) top = std::max(top, to_float(logits[v]));
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t v = 0; v < size; ++v) {
    float weight = fast_exp(to_float(logits[v]) - top);
    weights[v] = weight;
    sum += weight;
  }
  highest = top;
  return sum;
}

template <typename T>
void loss_rows(T* logits, const int64_t* targets, float right, float* logp_right, float* log_sum, int64_t rows,
               int64_t size) {
  check_indices(targets, rows, size, "target token");
  const PerThread<Buffer<float>> buffers;
  buffers.for_each([=](Buffer<float>& buffer) { buffer.at_least(size); });
#pragma omp parallel
  {
    float* weights = buffers.current().get();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      T* line = logits + row * size;
      float highest;
      float sum = exponentials(line, weights, size, highest);
      int64_t target = targets[row];
      log_sum[row] = highest + std::log(sum);
      logp_right[row] = to_float(line[target]) - log_sum[row];
      float scale = 1.0f / sum;
#pragma omp simd
      for (int64_t v = 0; v < size; ++v) store_value(weights[v] * scale, line[v]);
      store_value(weights[target] * scale - right, line[target]);
    }
  }
}

// With R-Drop: rows i and i + pairs are two predictions of one position. divergence = KL(p‖q) + KL(q‖p).
template <typename T>
void paired_loss_rows(T* logits, const int64_t* targets, float right, float strength, float* logp_right,
                      float* log_sum, float* divergence, int64_t pairs, int64_t size) {
  check_indices(targets, 2 * pairs, size, "target token");
  const PerThread<Buffer<float>> buffers;
  buffers.for_each([=](Buffer<float>& buffer) { buffer.at_least(3, size); });
#pragma omp parallel
  {
    float *p = buffers.current().get(), *q = p + size, *gap = q + size;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < pairs; ++i) {
      int64_t rows[2] = {i, i + pairs};
      T *a = logits + rows[0] * size, *b = logits + rows[1] * size;
      float highest[2];
      float sums[2] = {exponentials(a, p, size, highest[0]), exponentials(b, q, size, highest[1])};
      for (int side = 0; side < 2; ++side) {
        T* line = side ? b : a;
        log_sum[rows[side]] = highest[side] + std::log(sums[side]);
        logp_right[rows[side]] = to_float(line[targets[rows[side]]]) - log_sum[rows[side]];
      }
      float scale_p = 1.0f / sums[0], scale_q = 1.0f / sums[1], shift = log_sum[rows[0]] - log_sum[rows[1]];
      float kl_pq = 0, kl_qp = 0;
#pragma omp simd reduction(+ : kl_pq, kl_qp)
      for (int64_t v = 0; v < size; ++v) {
        p[v] *= scale_p;
        q[v] *= scale_q;
        gap[v] = to_float(a[v]) - to_float(b[v]) - shift;
        kl_pq += p[v] * gap[v];
        kl_qp -= q[v] * gap[v];
      }
      divergence[i] = kl_pq + kl_qp;
      float base_p = 1 + strength - strength * kl_pq, base_q = 1 + strength - strength * kl_qp;
      int64_t target_a = targets[rows[0]], target_b = targets[rows[1]];
      float right_a = p[target_a] * (base_p + strength * gap[target_a]) - strength * q[target_a] - right;
      float right_b = q[target_b] * (base_q - strength * gap[target_b]) - strength * p[target_b] - right;
#pragma omp simd
      for (int64_t v = 0; v < size; ++v) {
        store_value(p[v] * (base_p + strength * gap[v]) - strength * q[v], a[v]);
        store_value(q[v] * (base_q - strength * gap[v]) - strength * p[v], b[v]);
      }
      store_value(right_a, a[target_a]);
      store_value(right_b, b[target_b]);
    }
  }
}
