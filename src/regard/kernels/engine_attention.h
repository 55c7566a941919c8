// Attention of one row in the engine, per head: softmax(q kᵀ · scale + bias) v, with each key and value anywhere in memory.
//
// A head is read a vector at a time. The products of sixteen keys with the query are summed together, because a horizontal
// sum is expensive and sixteen of them can share their steps. Each key's products are summed in the same order wherever
// it is in the group.
//
// Called by engine_state.h.
#pragma once

#include <type_traits>

#include "gemm.h"

// Keys and values are stored in float32 or bf16, never in int8.
template <typename NumberFormat>
using CacheValue = std::conditional_t<std::is_same_v<NumberFormat, Float32>, float, bf16>;

// Added to the scores of a row: number j of a head is for its j-th key, and a vector more than there are keys can be read.
struct ScoreBias {
  const float* of_first_key;  // null: nothing is added
  int64_t head_stride;
};

// Working memory, used again for every row.
template <typename Cached>
struct AttentionScratch {
  Buffer<float> weights;
  Buffer<Cached> query;
  Buffer<const Cached*> keys;
};

// A vector of packed numbers; if there are fewer bytes, the rest is zero.
inline Words load_words(const void* from, int64_t bytes = sizeof(Words)) {
  Words words = {};
  std::memcpy(&words, from, bytes);
  return words;
}

// The horizontal sum of each of sixteen vectors, which are overwritten: the second half is added to the first until one
// number is left.
inline Floats horizontal_sums(Floats (&rows)[LANES]) {
#if defined(__AVX512F__)
  // Two rows become one vector: the first halves of what is left of both, plus the second halves, `left` further on.
  constexpr Words FIRST[] = {{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
                             {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27},
                             {0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29},
                             {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}};
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    const int left = LANES >> (step + 1);
#pragma GCC unroll 8
    for (int i = 0; i < left; ++i) {
      const __m512 one = __m512(rows[2 * i]), other = __m512(rows[2 * i + 1]);
      rows[i] = Floats(_mm512_permutex2var_ps(one, __m512i(FIRST[step]), other)) +
                Floats(_mm512_permutex2var_ps(one, __m512i(FIRST[step] + left), other));
    }
  }
  return rows[0];
#else
  Floats sums;
  for (int row = 0; row < LANES; ++row) {
    float lanes[LANES];
    std::memcpy(lanes, &rows[row], sizeof lanes);
    for (int left = LANES / 2; left > 0; left /= 2) {
      for (int i = 0; i < left; ++i) lanes[i] += lanes[i + left];
    }
    sums[row] = lanes[0];
  }
  return sums;
#endif
}

// weights_HJ = q kᵀ · scale + bias. The keys fill whole groups of LANES: the last one is repeated, with a score of −∞.
template <typename Cached>
void score(const Cached* query, const Cached* const* keys, int64_t count, float scale, ScoreBias bias, int64_t size,
           int64_t heads, float* weights) {
  using NumberFormat = std::conditional_t<std::is_same_v<Cached, float>, Float32, Bfloat16>;
  constexpr int64_t STEP = sizeof(Words) / sizeof(Cached);
  const int64_t head_size = size / heads, padded = round_up(count);
  for (int64_t first = 0; first < count; first += LANES) {
    for (int64_t h = 0; h < heads; ++h) {
      Floats sums[LANES] = {};
      int64_t at = h * head_size;
      const int64_t end = at + head_size;
      for (; at + STEP <= end; at += STEP) {
        const Words part = load_words(query + at);
#pragma GCC unroll 16
        for (int j = 0; j < LANES; ++j) NumberFormat::add(sums[j], part, load_words(keys[first + j] + at));
      }
      if (at < end) {
        const int64_t bytes = (end - at) * sizeof(Cached);
        const Words part = load_words(query + at, bytes);
        for (int j = 0; j < LANES; ++j) NumberFormat::add(sums[j], part, load_words(keys[first + j] + at, bytes));
      }
      Floats scores = horizontal_sums(sums) * scale;
      if (bias.of_first_key) scores += load_vector(bias.of_first_key + h * bias.head_stride + first);
      std::memcpy(weights + h * padded + first, &scores, sizeof scores);
    }
  }
  for (int64_t h = 0; h < heads; ++h) std::fill(weights + h * padded + count, weights + (h + 1) * padded, -INFINITY);
}

// A vector of keys or values as float32 vectors: one, or for bf16 two, of the even and of the odd numbers.
template <typename Cached>
constexpr int PARTS = sizeof(float) / sizeof(Cached);

template <typename Cached>
Floats part_of(Words words, int part) {
  if constexpr (std::is_same_v<Cached, float>) return Floats(words);
  return Floats(part == 0 ? words << 16 : words & static_cast<int32_t>(0xffff0000u));
}

// out_D = weights v; a value is `size` after its key.
template <typename Cached>
void mix_values(const float* weights, const Cached* const* keys, int64_t count, int64_t size, int64_t heads, float* out) {
  constexpr int64_t STEP = sizeof(Words) / sizeof(Cached);
  const int64_t head_size = size / heads, padded = round_up(count);
  for (int64_t h = 0; h < heads; ++h) {
    const float* weight = weights + h * padded;
    for (int64_t i = 0; i < head_size; i += STEP) {
      const int64_t at = h * head_size + i, numbers = std::min(STEP, head_size - i);
      Floats sums[PARTS<Cached>] = {};
      for (int64_t j = 0; j < count; ++j) {
        const Cached* from = keys[j] + size + at;
        const Words value = numbers == STEP ? load_words(from) : load_words(from, numbers * sizeof(Cached));
        for (int part = 0; part < PARTS<Cached>; ++part) sums[part] += part_of<Cached>(value, part) * weight[j];
      }
      float lanes[PARTS<Cached>][LANES], mixed[STEP];
      std::memcpy(lanes, sums, sizeof lanes);
      for (int n = 0; n < LANES; ++n) {
        for (int part = 0; part < PARTS<Cached>; ++part) mixed[n * PARTS<Cached> + part] = lanes[part][n];
      }
      std::copy_n(mixed, numbers, out + at);
    }
  }
}

// `key(j)` points to the j-th of `count` keys; its value is `size` further on.
template <typename Cached, typename Key>
void attend_row(const float* q, Key key, int64_t count, float scale, ScoreBias bias, int64_t size, int64_t heads,
                AttentionScratch<Cached>& scratch, float* out) {
  const int64_t padded = round_up(count);
  float* weights = scratch.weights.at_least(heads, padded);
  Cached* query = scratch.query.at_least(size);
  const Cached** keys = scratch.keys.at_least(padded);
  convert_row(q, query, size);
  for (int64_t j = 0; j < padded; ++j) keys[j] = key(std::min(j, count - 1));
  score(query, keys, count, scale, bias, size, heads, weights);
  for (int64_t h = 0; h < heads; ++h) softmax(weights + h * padded, padded);
  mix_values(weights, keys, count, size, heads, out);
}
