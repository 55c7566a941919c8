// What all kernels share: aligned memory, bf16 and float32 conversions, vectors of 16 numbers, a fast exponential, softmax,
// rotary positions and dropout.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#if defined(__AVX512F__)
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // of GCC 12's own header
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

using bf16 = uint16_t;
constexpr int LANES = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Unsigned = uint32_t __attribute__((vector_size(64)));  // for integer arithmetic that may wrap around
using Halves = uint16_t __attribute__((vector_size(32)));
using Bytes = uint8_t __attribute__((vector_size(16)));

inline int64_t round_up(int64_t count, int64_t multiple = LANES) { return (count + multiple - 1) / multiple * multiple; }

// ---- Memory

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using AlignedArray = std::unique_ptr<T[], FreeMemory>;

// rows · columns; throws std::bad_alloc where that is more than memory can hold.
inline int64_t element_count(int64_t rows, int64_t columns) {
  int64_t count;
  if (rows < 0 || columns < 0 || __builtin_mul_overflow(rows, columns, &count) || count > (int64_t{1} << 56)) {
    throw std::bad_alloc();
  }
  return count;
}

// Aligned to cache lines, not initialised. Throws std::bad_alloc.
template <typename T>
AlignedArray<T> allocate(int64_t rows, int64_t columns = 1) {
  constexpr int64_t LINE = 64;
  const int64_t bytes = element_count(rows, columns) * static_cast<int64_t>(sizeof(T));
  void* memory = std::aligned_alloc(LINE, std::max(round_up(bytes, LINE), LINE));
  if (memory == nullptr) throw std::bad_alloc();
  return AlignedArray<T>(static_cast<T*>(memory));
}

// An array that grows and is never cleared: its contents are written before they are read.
template <typename T>
class Buffer {
 public:
  T* at_least(int64_t rows, int64_t columns = 1) {
    const int64_t count = element_count(rows, columns);
    if (count > size_) {
      data_ = allocate<T>(count);
      size_ = count;
    }
    return data_.get();
  }
  T* get() const { return data_.get(); }

 private:
  AlignedArray<T> data_;
  int64_t size_ = 0;
};

// Throws std::out_of_range, which reaches Python as an IndexError, unless every index is below `size`.
inline void check_indices(const int64_t* indices, int64_t count, int64_t size, const char* what) {
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] >= 0 && indices[i] < size) continue;
    throw std::out_of_range(std::string(what) + " " + std::to_string(indices[i]) + " at position " + std::to_string(i) +
                            " is out of range: it must be from 0 to " + std::to_string(size - 1));
  }
}

// ---- Single numbers: float32, or bf16 rounded to nearest, ties to even, NaN to NaN, as in PyTorch

inline float to_float(float x) { return x; }
inline float to_float(bf16 x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline void store_value(float value, float& to) { to = value; }
inline void store_value(float value, bf16& to) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  to = static_cast<bf16>(value != value ? 0x7fc0 : rounded);
}

// ---- Vectors of numbers

inline Floats load_vector(const float* from) {
  Floats numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}
inline Floats load_vector(const bf16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
#if defined(__AVX512F__)
  return Floats(Ints(_mm512_cvtepu16_epi32(__m256i(halves))) << 16);  // GCC makes two halves of the line below
#else
  return Floats(__builtin_convertvector(halves, Ints) << 16);
#endif
}
inline Ints load_ints(const int32_t* from) {
  Ints numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}

inline void store_vector(Floats numbers, float* to) { std::memcpy(to, &numbers, sizeof numbers); }
inline void store_vector(Floats numbers, bf16* to) {
#if defined(__AVX512BF16__)
  const __m256bh rounded = _mm512_cvtneps_pbh(__m512(numbers));
  std::memcpy(to, &rounded, sizeof rounded);
#else
  for (int lane = 0; lane < LANES; ++lane) store_value(numbers[lane], to[lane]);
#endif
}
inline void store_ints(Ints numbers, int32_t* to) { std::memcpy(to, &numbers, sizeof numbers); }

// The last vector of a row may be partial, with `count` numbers: the lanes beyond are zero.
template <typename T>
inline Floats load_partial(const T* from, int64_t count) {
  if (count >= LANES) return load_vector(from);
  Floats numbers = {};
  for (int64_t lane = 0; lane < count; ++lane) numbers[lane] = to_float(from[lane]);
  return numbers;
}
template <typename T>
inline void store_partial(Floats numbers, T* to, int64_t count) {
  if (count >= LANES) return store_vector(numbers, to);
  for (int64_t lane = 0; lane < count; ++lane) store_value(numbers[lane], to[lane]);
}
inline Floats zero_beyond(Floats numbers, int64_t count) {
  if (count >= LANES) return numbers;
  for (int64_t lane = count; lane < LANES; ++lane) numbers[lane] = 0;
  return numbers;
}

// A row in one type becomes a row in another.
template <typename From, typename To>
void convert_row(const From* from, To* to, int64_t size) {
  int64_t i = 0;
  for (; i + LANES <= size; i += LANES) store_vector(load_vector(from + i), to + i);
  for (; i < size; ++i) store_value(to_float(from[i]), to[i]);
}

// Horizontal maximum and sum.
inline float reduce_max(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(__m512(x));
#else
  float largest = x[0];
  for (int lane = 1; lane < LANES; ++lane) largest = std::max(largest, x[lane]);
  return largest;
#endif
}
inline float reduce_add(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(__m512(x));
#else
  float sum = 0;
  for (int lane = 0; lane < LANES; ++lane) sum += x[lane];
  return sum;
#endif
}

// ---- Exponential and softmax

inline float round_nearest(float x) { return std::nearbyint(x); }
inline Floats round_nearest(Floats x) {
#if defined(__AVX512F__)
  return Floats(_mm512_roundscale_ps(__m512(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int lane = 0; lane < LANES; ++lane) x[lane] = std::nearbyint(x[lane]);
  return x;
#endif
}

// 2^exponent for a whole number: the exponent bits of a float32.
inline float power_of_two(float exponent) {
  const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(exponent) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}
inline Floats power_of_two(Floats exponent) {
  return Floats((__builtin_convertvector(exponent, Ints) + 127) << 23);
}

// e^x = 2^n e^r with a relative error of about 1e-7: n by the exponent bits, e^r by a polynomial. Branchless, so that it
// vectorises; for a number or a vector. NaN gives NaN. Always inline: a call per number takes several times longer.
template <typename F>
__attribute__((always_inline)) inline F fast_exp(F x) {
  const F least = F{} - 87.0f, most = F{} + 88.0f;
  x = x < least ? least : x;
  x = x > most ? most : x;
  const F n = round_nearest(x * 1.44269504f);
  const F r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  F p = F{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * power_of_two(n);
}

// scores = exp(scores − max) / Σ exp(scores − max), in place; `count` is a multiple of LANES. A score of −∞ gets weight 0.
// As in PyTorch, the whole row becomes NaN if all scores are −∞ or one is NaN or +∞.
inline void softmax(float* scores, int64_t count) {
  Floats largest = load_vector(scores), sum = {};
  for (int64_t m = LANES; m < count; m += LANES) {
    const Floats next = load_vector(scores + m);
    largest = next > largest ? next : largest;
  }
  const float top = reduce_max(largest);
  for (int64_t m = 0; m < count; m += LANES) {
    const Floats below = load_vector(scores + m) - top;
    const Floats weights = below < Floats{} - 87.0f ? Floats{} : fast_exp(below);
    store_vector(weights, scores + m);
    sum += weights;
  }
  const float scale = 1.0f / reduce_add(sum);
  for (int64_t m = 0; m < count; m += LANES) store_vector(load_vector(scores + m) * scale, scores + m);
}

// ---- Heads

// Element (sentence, head, row, i) is at data + sentence · stride + head · stride + row · stride + i.
template <typename T>
struct HeadRows {
  const T* head_of(int64_t sentence, int64_t head) const {
    return data + sentence * sentence_stride + head * head_stride;
  }

  const T* data;
  int64_t sentence_stride, head_stride, row_stride;
};

// Rotary positions: the pairs (k, k + K/2) of a head rotated by the angles of its position; `to` may be `from`.
template <typename T>
void rotate(const T* from, T* to, int64_t K, const float* cos, const float* sin) {
  const int64_t half = K / 2;
#pragma omp simd
  for (int64_t k = 0; k < half; ++k) {
    const float first = to_float(from[k]), second = to_float(from[k + half]);
    store_value(first * cos[k] - second * sin[k], to[k]);
    store_value(second * cos[k] + first * sin[k], to[k + half]);
  }
}

// ---- Dropout

// Eight random bytes from a counter (splitmix64, Steele et al. 2014). The same seed and counter give the same bytes, so that
// the backward pass computes the forward pass's mask again instead of storing it.
inline uint64_t random_bytes(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + counter * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Dropout of rows of `size` elements with probability threshold / 256 (core/dropout.py): an element is dropped if its random
// byte is below the threshold; the others are scaled by 256 / (256 − threshold).
class RowDropout {
 public:
  RowDropout(int threshold, uint64_t seed, int64_t size)
      : threshold_(threshold), scale_(256.0f / (256 - threshold)), seed_(seed), groups_((size + 7) / 8),
        words_(round_up(size) / 8) {
    if (threshold < 0 || threshold > 255) throw std::invalid_argument("a dropout threshold must be from 0 to 255");
  }

  // Computes the random bytes of a row; call it before `factors`.
  void sample(int64_t row) {
    if (threshold_ == 0) return;
    uint64_t* words = words_.data();
#pragma omp simd
    for (int64_t group = 0; group < groups_; ++group) {
      words[group] = random_bytes(seed_, static_cast<uint64_t>(row * groups_ + group));
    }
  }

  // For the vector of elements from d on: 0 where an element is dropped, else the scale.
  Floats factors(int64_t d) const {
    Bytes bytes;
    std::memcpy(&bytes, words_.data() + d / 8, sizeof bytes);
#if defined(__AVX512F__)
    const Ints numbers = Ints(_mm512_cvtepu8_epi32(__m128i(bytes)));
#else
    const Ints numbers = __builtin_convertvector(bytes, Ints);
#endif
    return numbers >= threshold_ ? Floats{} + scale_ : Floats{};
  }

 private:
  int threshold_;
  float scale_;
  uint64_t seed_;
  int64_t groups_;
  std::vector<uint64_t> words_;
};
