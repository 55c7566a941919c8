// The library of a training step: the C interface of the kernels in the headers below. Each does in one pass over memory what
// PyTorch does in several; plain C++ that the compiler vectorises, compiled on first use by loader.py.
//
//   loss.h             logits to the gradient of the loss         train/loss_kernels.py
//   add_norm.h         residual addition, dropout, LayerNorm      core/residual.py
//   relu_dropout.h     ReLU and dropout                           core/feedforward.py
//   rotation.h         rotary positions                           core/rotation.py
//   short_attention.h  attention over short sequences             core/attention/short.py
//   gemm.h             int8 matrix products                       core/int8.py
//
// Every function exists for float32 and bfloat16 and returns a Status (boundary.h). training.py lists the arguments.

#include "add_norm.h"
#include "boundary.h"
#include "gemm.h"
#include "loss.h"
#include "relu_dropout.h"
#include "rotation.h"
#include "short_attention.h"

#define EXPORT_KERNELS(T, suffix)                                                                                     \
  int32_t regard_loss_##suffix(T* logits, const int64_t* targets, float right, float* logp_right, float* log_sum,     \
                               int64_t rows, int64_t size) {                                                          \
    return guarded([=] { loss_rows(logits, targets, right, logp_right, log_sum, rows, size); });                      \
  }                                                                                                                   \
  int32_t regard_paired_loss_##suffix(T* logits, const int64_t* targets, float right, float strength,                 \
                                      float* logp_right, float* log_sum, float* divergence, int64_t pairs,            \
                                      int64_t size) {                                                                 \
    return guarded([=] {                                                                                              \
      paired_loss_rows(logits, targets, right, strength, logp_right, log_sum, divergence, pairs, size);               \
    });                                                                                                               \
  }                                                                                                                   \
  int32_t regard_add_norm_##suffix(const T* x, const T* change, const float* gain, const float* bias, float eps,      \
                                   int32_t threshold, uint64_t seed, T* resid, T* normed, float* means, float* rates, \
                                   int64_t rows, int64_t size) {                                                      \
    return guarded([=] {                                                                                              \
      add_norm_rows(x, change, gain, bias, eps, threshold, seed, resid, normed, means, rates, rows, size);            \
    });                                                                                                               \
  }                                                                                                                   \
  int32_t regard_add_norm_backward_##suffix(const T* grad, const T* resid, const float* gain, const float* means,     \
                                            const float* rates, int32_t threshold, uint64_t seed, T* grad_x,          \
                                            T* grad_change, float* grad_gain, float* grad_bias, int64_t rows,         \
                                            int64_t size) {                                                           \
    return guarded([=] {                                                                                              \
      add_norm_backward_rows(grad, resid, gain, means, rates, threshold, seed, grad_x, grad_change, grad_gain,        \
                             grad_bias, rows, size);                                                                  \
    });                                                                                                               \
  }                                                                                                                   \
  int32_t regard_relu_dropout_##suffix(const T* x, T* out, int32_t threshold, uint64_t seed, int64_t rows,            \
                                       int64_t size) {                                                                \
    return guarded([=] { relu_dropout_rows(x, out, threshold, seed, rows, size); });                                  \
  }                                                                                                                   \
  int32_t regard_relu_dropout_backward_##suffix(const T* grad, const T* out, float scale, T* grad_x, int64_t count) { \
    return guarded([=] { relu_dropout_backward(grad, out, scale, grad_x, count); });                                  \
  }                                                                                                                   \
  int32_t regard_attention_##suffix(const AttentionCall<T>* call, T* weights, T* out) {                               \
    return guarded([=] { attend(*call, weights, out); });                                                             \
  }                                                                                                                   \
  int32_t regard_attention_backward_##suffix(const AttentionCall<T>* call, const T* weights, const T* grad_out,       \
                                             T* grad_q, T* grad_k, T* grad_v) {                                       \
    return guarded([=] { attend_backward(*call, weights, grad_out, grad_q, grad_k, grad_v); });                       \
  }                                                                                                                   \
  int32_t regard_rotate_##suffix(const RotationCall<T>* call, T* out) {                                               \
    return guarded([=] { rotate_heads(*call, out); });                                                                \
  }                                                                                                                   \
  int32_t regard_pack_rows_##suffix(const T* matrix, bool left, uint64_t seed, const PackedMatrix* to,                \
                                    int32_t* column_largest, float* column_sum) {                                     \
    return guarded([=] { pack_rows(matrix, left, seed, *to, {column_largest, column_sum}); });                        \
  }                                                                                                                   \
  int32_t regard_pack_columns_##suffix(const T* matrix, bool left, uint64_t seed, const PackedMatrix* to,             \
                                       const int32_t* column_largest) {                                               \
    return guarded([=] { pack_columns(matrix, left, seed, *to, column_largest); });                                   \
  }                                                                                                                   \
  int32_t regard_multiply_packed_##suffix(const PackedMatrix* left, const PackedMatrix* right, const float* bias,     \
                                          bool add, T* out) {                                                         \
    return guarded([=] { multiply_packed(*left, *right, bias, add, out); });                                          \
  }

extern "C" {
EXPORT_KERNELS(float, float32)
EXPORT_KERNELS(bf16, bfloat16)
}

static_assert(sizeof(AttentionCall<float>) == sizeof(AttentionCall<bf16>), "Python has one structure for both types");
static_assert(sizeof(RotationCall<float>) == sizeof(RotationCall<bf16>), "Python has one structure for both types");

using Rows = HeadRows<float>;
using Attention = AttentionCall<float>;
using Rotation = RotationCall<float>;
EXPORT_LAYOUT(HeadRows, Rows, FIELD(Rows, data), FIELD(Rows, sentence_stride), FIELD(Rows, head_stride),
              FIELD(Rows, row_stride))
EXPORT_LAYOUT(AttentionMask, AttentionMask, FIELD(AttentionMask, data), FIELD(AttentionMask, sentence_stride),
              FIELD(AttentionMask, query_stride), FIELD(AttentionMask, key_stride))
EXPORT_LAYOUT(AttentionCall, Attention, FIELD(Attention, q), FIELD(Attention, k), FIELD(Attention, v),
              FIELD(Attention, mask), FIELD(Attention, sentences), FIELD(Attention, heads), FIELD(Attention, queries),
              FIELD(Attention, keys), FIELD(Attention, size), FIELD(Attention, scale),
              FIELD(Attention, dropout_threshold), FIELD(Attention, seed))
EXPORT_LAYOUT(RotationCall, Rotation, FIELD(Rotation, x), FIELD(Rotation, sentences), FIELD(Rotation, heads),
              FIELD(Rotation, rows), FIELD(Rotation, size), FIELD(Rotation, cos), FIELD(Rotation, sin))
EXPORT_LAYOUT(PackedMatrix, PackedMatrix, FIELD(PackedMatrix, words), FIELD(PackedMatrix, scale),
              FIELD(PackedMatrix, total), FIELD(PackedMatrix, lines), FIELD(PackedMatrix, length))
