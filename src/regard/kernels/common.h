// What the kernels share: memory, numbers in float32 and bf16, vectors of them, a quick exponential, dropout.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

using bf16 = uint16_t;
constexpr int LANES = 16;
using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));
using Halves = uint16_t __attribute__((vector_size(32)));
using Bytes = uint8_t __attribute__((vector_size(16)));

inline int64_t in_groups(int64_t count, int64_t of = LANES) { return (count + of - 1) / of * of; }

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using Memory = std::unique_ptr<T[], FreeMemory>;

// Aligned to the lines of the cache, not initialised.
template <typename T>
Memory<T> reserve(int64_t count) {
  size_t bytes = (count * sizeof(T) + 63) / 64 * 64;
  return Memory<T>(static_cast<T*>(std::aligned_alloc(64, std::max<size_t>(bytes, 64))));
}

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

// A vector of numbers, from their form and into it.
inline Floats read_vector(const float* from) {
  Floats numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}
inline Floats read_vector(const bf16* from) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
#if defined(__AVX512F__)
  return Floats(Ints(_mm512_cvtepu16_epi32(__m256i(halves))) << 16);  // which the line below does in two halves
#else
  return Floats(__builtin_convertvector(halves, Ints) << 16);
#endif
}

inline void write_vector(Floats numbers, float* to) { std::memcpy(to, &numbers, sizeof numbers); }
inline void write_vector(Floats numbers, bf16* to) {
#if defined(__AVX512BF16__)
  const __m256bh rounded = _mm512_cvtneps_pbh(__m512(numbers));
  std::memcpy(to, &rounded, sizeof rounded);
#else
  for (int lane = 0; lane < LANES; ++lane) write(to[lane], numbers[lane]);
#endif
}

// The last vector of a row may be a part of one: beyond it are zeros.
template <typename T>
inline Floats read_some(const T* from, int64_t count) {
  if (count >= LANES) return read_vector(from);
  Floats some = {};
  for (int64_t lane = 0; lane < count; ++lane) some[lane] = read(from[lane]);
  return some;
}
template <typename T>
inline void write_some(Floats numbers, T* to, int64_t count) {
  if (count >= LANES) return write_vector(numbers, to);
  for (int64_t lane = 0; lane < count; ++lane) write(to[lane], numbers[lane]);
}
inline Floats only_some(Floats numbers, int64_t count) {
  if (count >= LANES) return numbers;
  for (int64_t lane = count; lane < LANES; ++lane) numbers[lane] = 0;
  return numbers;
}

// A row of numbers, likewise.
template <typename T>
void load(const T* from, float* to, int64_t size) {
  int64_t i = 0;
  for (; i + LANES <= size; i += LANES) write_vector(read_vector(from + i), to + i);
  for (; i < size; ++i) to[i] = read(from[i]);
}

template <typename T>
void store(const float* from, T* to, int64_t size) {
  int64_t i = 0;
  for (; i + LANES <= size; i += LANES) write_vector(read_vector(from + i), to + i);
  for (; i < size; ++i) write(to[i], from[i]);
}

// Element (sentence, head, row, i) stands at data + the strides of the first three + i.
template <typename T>
struct HeadRows {
  const T* of(int64_t b, int64_t h) const { return data + b * sentence + h * head; }

  const T* data;
  int64_t sentence, head, row;
};

// A head's pairs (k, k + K/2) turned by the angles of its place (rotary positions); `to` may be `from`.
template <typename T>
void rotate(const T* from, T* to, int64_t K, const float* cos, const float* sin) {
  const int64_t half = K / 2;
#pragma omp simd
  for (int64_t k = 0; k < half; ++k) {
    const float first = read(from[k]), second = read(from[k + half]);
    write(to[k], first * cos[k] - second * sin[k]);
    write(to[k + half], second * cos[k] + first * sin[k]);
  }
}

inline float largest(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps(__m512(x));
#else
  float most = x[0];
  for (int lane = 1; lane < LANES; ++lane) most = std::max(most, x[lane]);
  return most;
#endif
}

inline float total(Floats x) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps(__m512(x));
#else
  float sum = 0;
  for (int lane = 0; lane < LANES; ++lane) sum += x[lane];
  return sum;
#endif
}

inline float nearest(float x) { return std::nearbyint(x); }
inline Floats nearest(Floats x) {
#if defined(__AVX512F__)
  return Floats(_mm512_roundscale_ps(__m512(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
  for (int lane = 0; lane < LANES; ++lane) x[lane] = std::nearbyint(x[lane]);
  return x;
#endif
}

inline float power_of_two(float whole) {
  const int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return power;
}
inline Floats power_of_two(Floats whole) { return Floats((__builtin_convertvector(whole, Ints) + 127) << 23); }

// e^x to about 1e-7 relative: 2^n by the exponent bits, the rest by a polynomial. Branchless, so that it vectorises;
// of a number or of a vector.
template <typename F>
inline F fast_exp(F x) {
  const F least = F{} - 87.0f, most = F{} + 88.0f;
  x = x < least ? least : x;
  x = x > most ? most : x;
  const F whole = nearest(x * 1.44269504f);
  const F rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  F p = F{} + 1.9875691500e-4f;
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * rest * rest + rest + 1.0f;
  return p * power_of_two(whole);
}

// Scores become weights that add up to 1; those of −∞ have none, and if there are no others all are NaN, as in PyTorch.
// `count` is one of whole vectors.
inline void softmax(float* scores, int64_t count) {
  Floats best = read_vector(scores), sum = {};
  for (int64_t m = LANES; m < count; m += LANES) {
    const Floats next = read_vector(scores + m);
    best = next > best ? next : best;
  }
  const float top = largest(best);
  for (int64_t m = 0; m < count; m += LANES) {
    const Floats below = read_vector(scores + m) - top;
    const Floats weights = below < Floats{} - 87.0f ? Floats{} : fast_exp(below);
    write_vector(weights, scores + m);
    sum += weights;
  }
  const float share = 1.0f / total(sum);
  for (int64_t m = 0; m < count; m += LANES) write_vector(read_vector(scores + m) * share, scores + m);
}

// A byte for each of eight neighbours, from a counter: the same (seed, place) always gives the same bytes, so that
// the backward pass draws the forward pass's mask again instead of keeping it (splitmix64, Steele et al. 2014).
inline uint64_t eight_bytes(uint64_t seed, uint64_t place) {
  uint64_t z = seed + place * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Dropout of rows of `size` elements: a byte below `dropout_threshold` drops its element, and the others are scaled up for it.
class RowDropout {
 public:
  RowDropout(int dropout_threshold, uint64_t seed, int64_t size)
      : dropout_threshold_(dropout_threshold), scale_(256.0f / (256 - dropout_threshold)), seed_(seed), groups_((size + 7) / 8),
        words_(in_groups(size) / 8) {}

  // Before any of a row is asked for.
  void sample(int64_t row) {
    if (dropout_threshold_ == 0) return;
    uint64_t* words = words_.data();
#pragma omp simd
    for (int64_t group = 0; group < groups_; ++group) {
      words[group] = eight_bytes(seed_, static_cast<uint64_t>(row * groups_ + group));
    }
  }

  // Of a vector of elements from d on: 0 where one is dropped, else the scale.
  Floats factors(int64_t d) const {
    Bytes bytes;
    std::memcpy(&bytes, words_.data() + d / 8, sizeof bytes);
#if defined(__AVX512F__)
    const Ints numbers = Ints(_mm512_cvtepu8_epi32(__m128i(bytes)));
#else
    const Ints numbers = __builtin_convertvector(bytes, Ints);
#endif
    return numbers >= dropout_threshold_ ? Floats{} + scale_ : Floats{};
  }

 private:
  int dropout_threshold_;
  float scale_;
  uint64_t seed_;
  int64_t groups_;
  std::vector<uint64_t> words_;
};
