// Kernels where PyTorch needs several passes over memory: one pass here. Plain C++ that the compiler vectorises,
// behind a C interface, compiled on first use by native.py. Every kernel has a PyTorch twin that it must agree with, but
// for those of int8.h.

#include "int8.h"
#include "common.h"
#include "short_attention.h"

#include <omp.h>

namespace {

// exp(logits − max) into `weights`; returns their sum and sets `highest`.
template <typename T>
float exponentials(const T* logits, float* weights, int64_t size, float& highest) {
  float top = -INFINITY;
#pragma omp simd reduction(max : top)
  for (int64_t v = 0; v < size; ++v) top = std::max(top, read(logits[v]));
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t v = 0; v < size; ++v) {
    float weight = fast_exp(read(logits[v]) - top);
    weights[v] = weight;
    sum += weight;
  }
  highest = top;
  return sum;
}

// A row of logits becomes the gradient of its smoothed cross-entropy, but for the even part of the smoothing.
template <typename T>
void loss_rows(T* logits, const int64_t* targets, float right, float* logp_right, float* log_sum, int64_t rows,
               int64_t size) {
#pragma omp parallel
  {
    std::vector<float> buffer(size);
    float* weights = buffer.data();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      T* line = logits + row * size;
      float highest;
      float sum = exponentials(line, weights, size, highest);
      int64_t target = targets[row];
      log_sum[row] = highest + std::log(sum);
      logp_right[row] = read(line[target]) - log_sum[row];
      float scale = 1.0f / sum;
#pragma omp simd
      for (int64_t v = 0; v < size; ++v) write(line[v], weights[v] * scale);
      write(line[target], weights[target] * scale - right);
    }
  }
}

// The same for R-Drop: row i of the first half and row i of the second are two predictions of one position.
template <typename T>
void paired_loss_rows(T* logits, const int64_t* targets, float right, float strength, float* logp_right,
                      float* log_sum, float* divergence, int64_t pairs, int64_t size) {
#pragma omp parallel
  {
    std::vector<float> buffer(3 * size);
    float *p = buffer.data(), *q = p + size, *gap = q + size;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < pairs; ++i) {
      int64_t rows[2] = {i, i + pairs};
      T *a = logits + rows[0] * size, *b = logits + rows[1] * size;
      float highest[2];
      float sums[2] = {exponentials(a, p, size, highest[0]), exponentials(b, q, size, highest[1])};
      for (int side = 0; side < 2; ++side) {
        T* line = side ? b : a;
        log_sum[rows[side]] = highest[side] + std::log(sums[side]);
        logp_right[rows[side]] = read(line[targets[rows[side]]]) - log_sum[rows[side]];
      }
      float scale_p = 1.0f / sums[0], scale_q = 1.0f / sums[1], shift = log_sum[rows[0]] - log_sum[rows[1]];
      float kl_pq = 0, kl_qp = 0;
#pragma omp simd reduction(+ : kl_pq, kl_qp)
      for (int64_t v = 0; v < size; ++v) {
        p[v] *= scale_p;
        q[v] *= scale_q;
        gap[v] = read(a[v]) - read(b[v]) - shift;
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
        write(a[v], p[v] * (base_p + strength * gap[v]) - strength * q[v]);
        write(b[v], q[v] * (base_q - strength * gap[v]) - strength * p[v]);
      }
      write(a[target_a], right_a);
      write(b[target_b], right_b);
    }
  }
}

// normed = (r − mean) / deviation · gain + bias, where r = x + dropout(change) is kept for the backward pass.
template <typename T>
void add_norm_rows(const T* x, const T* change, const float* gain, const float* bias, float eps, int dropout_threshold,
                   uint64_t seed, T* resid, T* normed, float* means, float* rates, int64_t rows, int64_t size) {
#pragma omp parallel
  {
    auto buffer = reserve<float>(in_groups(size));
    float* r = buffer.get();
    RowDropout dropout(dropout_threshold, seed, size);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T *x_row = x + row * size, *change_row = change + row * size;
      T *resid_row = resid + row * size, *normed_row = normed + row * size;
      dropout.sample(row);
      Floats sum = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats changed = read_some(x_row + d, count) + read_some(change_row + d, count) * dropout.factors(d);
        write_some(changed, resid_row + d, count);
        const Floats kept = read_some(resid_row + d, count);  // as the backward pass will have it
        write_vector(kept, r + d);
        sum += kept;
      }
      const float mean = total(sum) / size;
      Floats square = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats off = only_some(read_vector(r + d) - mean, size - d);
        square += off * off;
      }
      const float rate = 1.0f / std::sqrt(total(square) / size + eps);
      means[row] = mean;
      rates[row] = rate;
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats unit = (read_vector(r + d) - mean) * rate;
        write_some(unit * read_some(gain + d, count) + read_some(bias + d, count), normed_row + d, count);
      }
    }
  }
}

// Gradients by x and change; those by gain and bias are added to float32 sums.
template <typename T>
void add_norm_backward_rows(const T* grad, const T* resid, const float* gain, const float* means, const float* rates,
                            int dropout_threshold, uint64_t seed, T* grad_x, T* grad_change, float* grad_gain,
                            float* grad_bias, int64_t rows, int64_t size) {
#pragma omp parallel
  {
    const int64_t padded = in_groups(size);
    auto buffer = reserve<float>(4 * padded);
    float *units = buffer.get(), *scaled = units + padded, *own_gain = scaled + padded, *own_bias = own_gain + padded;
    std::fill_n(own_gain, 2 * padded, 0.0f);
    RowDropout dropout(dropout_threshold, seed, size);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T *grad_row = grad + row * size, *resid_row = resid + row * size;
      T *x_row = grad_x + row * size, *change_row = grad_change + row * size;
      const float mean = means[row], rate = rates[row];
      Floats sum = {}, product = {};
      for (int64_t d = 0; d < size; d += LANES) {
        const int64_t count = size - d;
        const Floats g = read_some(grad_row + d, count), unit = (read_some(resid_row + d, count) - mean) * rate;
        const Floats part = g * read_some(gain + d, count);
        write_vector(unit, units + d);
        write_vector(part, scaled + d);
        write_vector(read_vector(own_gain + d) + g * unit, own_gain + d);
        write_vector(read_vector(own_bias + d) + g, own_bias + d);
        sum += part;
        product += part * unit;
      }
      const float mean_sum = total(sum) / size, mean_product = total(product) / size;
      dropout.sample(row);
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats value = rate * (read_vector(scaled + d) - mean_sum - read_vector(units + d) * mean_product);
        write_some(value, x_row + d, size - d);
        write_some(value * dropout.factors(d), change_row + d, size - d);
      }
    }
    // One thread after the other in the order of their numbers, so that the sums never depend on who was first.
#pragma omp for ordered schedule(static, 1)
    for (int thread = 0; thread < omp_get_num_threads(); ++thread) {
#pragma omp ordered
      for (int64_t d = 0; d < size; ++d) {
        grad_gain[d] += own_gain[d];
        grad_bias[d] += own_bias[d];
      }
    }
  }
}

// out = dropout(relu(x))
template <typename T>
void relu_dropout_rows(const T* x, T* out, int dropout_threshold, uint64_t seed, int64_t rows, int64_t size) {
#pragma omp parallel
  {
    RowDropout dropout(dropout_threshold, seed, size);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x + row * size;
      T* to = out + row * size;
      dropout.sample(row);
      for (int64_t d = 0; d < size; d += LANES) {
        const Floats some = read_some(from + d, size - d);
        write_some((some < 0.0f ? Floats{} : some) * dropout.factors(d), to + d, size - d);
      }
    }
  }
}

// Its gradient. What came out says all about the mask: it is positive just where an element was, and was kept.
template <typename T>
void relu_dropout_backward(const T* grad, const T* out, float scale, T* grad_x, int64_t count) {
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) write(grad_x[i], read(out[i]) > 0.0f ? read(grad[i]) * scale : 0.0f);
}

template <typename T>
struct RotationCall {
  HeadRows<T> x;
  int64_t sentences, heads, rows, size;
  const float *cos, *sin;  // a row of size / 2 a place
};

// Every head turned by the angles of its place, as BLHK.
template <typename T>
void rotate_heads(const RotationCall<T>& c, T* out) {
  const int64_t half = c.size / 2;
#pragma omp parallel for collapse(2) schedule(static)
  for (int64_t b = 0; b < c.sentences; ++b) {
    for (int64_t l = 0; l < c.rows; ++l) {
      T* to = out + (b * c.rows + l) * c.heads * c.size;
      for (int64_t h = 0; h < c.heads; ++h) {
        rotate(c.x.of(b, h) + l * c.x.row, to + h * c.size, c.size, c.cos + l * half, c.sin + l * half);
      }
    }
  }
}

}  // namespace

#define EXPORT(type, suffix)                                                                                        \
  void regard_loss_##suffix(void* logits, const int64_t* targets, float right, float* logp_right, float* log_sum,   \
                            int64_t rows, int64_t size) {                                                           \
    loss_rows(static_cast<type*>(logits), targets, right, logp_right, log_sum, rows, size);                         \
  }                                                                                                                 \
  void regard_paired_loss_##suffix(void* logits, const int64_t* targets, float right, float strength,              \
                                   float* logp_right, float* log_sum, float* divergence, int64_t pairs,            \
                                   int64_t size) {                                                                  \
    paired_loss_rows(static_cast<type*>(logits), targets, right, strength, logp_right, log_sum, divergence, pairs,  \
                     size);                                                                                         \
  }

#define EXPORT_NORM(type, suffix)                                                                                   \
  void regard_add_norm_##suffix(const void* x, const void* change, const float* gain, const float* bias, float eps, \
                                int dropout_threshold, uint64_t seed, void* resid, void* normed, float* means,              \
                                float* rates, int64_t rows, int64_t size) {                                         \
    add_norm_rows(static_cast<const type*>(x), static_cast<const type*>(change), gain, bias, eps, dropout_threshold, seed,  \
                  static_cast<type*>(resid), static_cast<type*>(normed), means, rates, rows, size);                 \
  }                                                                                                                 \
  void regard_add_norm_backward_##suffix(const void* grad, const void* resid, const float* gain,                    \
                                         const float* means, const float* rates, int dropout_threshold, uint64_t seed,      \
                                         void* grad_x, void* grad_change, float* grad_gain, float* grad_bias,       \
                                         int64_t rows, int64_t size) {                                              \
    add_norm_backward_rows(static_cast<const type*>(grad), static_cast<const type*>(resid), gain, means, rates,     \
                           dropout_threshold, seed, static_cast<type*>(grad_x), static_cast<type*>(grad_change), grad_gain, \
                           grad_bias, rows, size);                                                                  \
  }

#define EXPORT_RELU(type, suffix)                                                                                   \
  void regard_relu_dropout_##suffix(const void* x, void* out, int dropout_threshold, uint64_t seed, int64_t rows,           \
                                    int64_t size) {                                                                 \
    relu_dropout_rows(static_cast<const type*>(x), static_cast<type*>(out), dropout_threshold, seed, rows, size);           \
  }                                                                                                                 \
  void regard_relu_dropout_backward_##suffix(const void* grad, const void* out, float scale, void* grad_x,          \
                                             int64_t count) {                                                       \
    relu_dropout_backward(static_cast<const type*>(grad), static_cast<const type*>(out), scale,                     \
                          static_cast<type*>(grad_x), count);                                                       \
  }

#define EXPORT_ATTENTION(type, suffix)                                                                              \
  void regard_attention_##suffix(const AttentionCall<type>* call, type* weights, type* out) {                       \
    attend(*call, weights, out);                                                                                    \
  }                                                                                                                 \
  void regard_attention_backward_##suffix(const AttentionCall<type>* call, const type* weights,                     \
                                          const type* grad_out, type* grad_q, type* grad_k, type* grad_v) {         \
    attend_backward(*call, weights, grad_out, grad_q, grad_k, grad_v);                                              \
  }

#define EXPORT_ROTATION(type, suffix) \
  void regard_rotate_##suffix(const RotationCall<type>* call, type* out) { rotate_heads(*call, out); }

#define EXPORT_INT8(type, suffix)                                                                                   \
  void regard_pack_rows_##suffix(const type* matrix, bool left, uint64_t seed, const Packed* to, int32_t* most,     \
                                 float* sum) {                                                                      \
    pack_rows(matrix, left, seed, *to, {most, sum});                                                                \
  }                                                                                                                 \
  void regard_pack_columns_##suffix(const type* matrix, bool left, uint64_t seed, const Packed* to,                 \
                                    const int32_t* most) {                                                          \
    pack_columns(matrix, left, seed, *to, most);                                                                    \
  }                                                                                                                 \
  void regard_multiply_packed_##suffix(const Packed* left, const Packed* right, const float* bias, bool add,        \
                                       type* out) {                                                                 \
    multiply_packed(*left, *right, bias, add, out);                                                                 \
  }

extern "C" {
EXPORT_NORM(float, float32)
EXPORT_NORM(bf16, bfloat16)
EXPORT(float, float32)
EXPORT(bf16, bfloat16)
EXPORT_RELU(float, float32)
EXPORT_RELU(bf16, bfloat16)
EXPORT_ATTENTION(float, float32)
EXPORT_ATTENTION(bf16, bfloat16)
EXPORT_ROTATION(float, float32)
EXPORT_ROTATION(bf16, bfloat16)
EXPORT_INT8(float, float32)
EXPORT_INT8(bf16, bfloat16)
}
