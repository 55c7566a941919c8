// Kernels where PyTorch needs several passes over memory: one pass here. Plain C++ that the compiler vectorises,
// behind a C interface, compiled on first use by native.py. Every kernel has a PyTorch twin that it must agree with.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using bf16 = uint16_t;

inline float read(float x) { return x; }
inline float read(bf16 x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Round to nearest, ties to even, as PyTorch does.
inline void write(float& to, float value) { to = value; }
inline void write(bf16& to, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  to = static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// e^x to about 1e-7 relative: 2^n by the exponent bits, the rest by a polynomial. Branchless, so that it vectorises.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  float scaled = x * 1.44269504f;
  float whole = std::nearbyint(scaled);
  float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * rest * rest + rest + 1.0f;
  int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return p * power;
}

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

extern "C" {
EXPORT(float, float32)
EXPORT(bf16, bfloat16)
}
