// What matrix products share whose sums stay in registers: forms of numbers, and the inner loop of a tile.
//
// A *form* is how numbers reach a product: float32; bf16, two to a word; int8, four to a word, where one factor's bytes
// have 128 for zero (the instruction multiplies unsigned bytes by signed ones). The right factor's columns stand as
// [columns / 16][words][16], so that one load gives a word of 16 columns, and one word of a row meets all of them in one
// instruction.
#pragma once

#include "common.h"

using Words = Ints;

// All but the sign. As integers such bits have the order of the numbers, with NaN the last, so that none is overlooked.
inline Ints magnitude(Floats x) { return Ints(x) & 0x7fffffff; }
inline Ints larger(Ints a, Ints b) { return a > b ? a : b; }

inline float as_float(int32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline float largest_magnitude(Ints magnitudes) {
  int32_t bits = 0;
  for (int lane = 0; lane < LANES; ++lane) bits = std::max<int32_t>(bits, magnitudes[lane]);
  return as_float(bits);
}

struct Float32 {
  using Value = float;
  using Sum = Floats;
  static void add(Sum& sum, Words row, Words column) { sum += Floats(row) * Floats(column); }
};

struct Bfloat16 {
  using Value = bf16;
  using Sum = Floats;
  static void add(Sum& sum, Words row, Words column) {
#if defined(__AVX512BF16__)
    sum = Floats(_mm512_dpbf16_ps(__m512(sum), __m512bh(row), __m512bh(column)));
#else
    const Words upper = Words{} + static_cast<int32_t>(0xffff0000u);
    sum += Floats(row << 16) * Floats(column << 16);
    sum += Floats(row & upper) * Floats(column & upper);
#endif
  }
};

struct Int8 {
  using Value = uint8_t;
  using Sum = Words;
  static void add(Sum& sum, Words row, Words column) {
#if defined(__AVX512VNNI__)
    sum = Words(_mm512_dpbusd_epi32(__m512i(sum), __m512i(row), __m512i(column)));
#else
    for (int byte = 0; byte < 4; ++byte) {
      Words x = (row >> (8 * byte)) & 255, w = (column << (24 - 8 * byte)) >> 24;
      sum += x * w;
    }
#endif
  }
};

template <typename NumberFormat>
constexpr int PER_WORD = 4 / sizeof(typename NumberFormat::Value);

// The largest tile.
#if defined(__AVX512F__)
constexpr int TALL = 6, WIDE = 4;  // 24 of the 32 registers hold sums
#else
constexpr int TALL = 4, WIDE = 1;
#endif

// R rows, whose words are `step` bytes apart, by N vectors of columns. Each row is summed in the same order whatever its
// neighbours.
template <typename NumberFormat, int R, int N>
inline void add_up(const char* const (&rows)[R], int64_t step, const Words* const (&columns)[N], int64_t words,
                   typename NumberFormat::Sum (&sums)[R][N]) {
  for (int64_t k = 0; k < words; ++k) {
    Words column[N];
    for (int n = 0; n < N; ++n) column[n] = columns[n][k];
    for (int r = 0; r < R; ++r) {
      int32_t word;
      std::memcpy(&word, rows[r] + k * step, 4);
      const Words spread = Words{} + word;
      for (int n = 0; n < N; ++n) NumberFormat::add(sums[r][n], spread, column[n]);
    }
  }
}

// `use` gets the tile that has this height and so many vectors, as two numbers that the compiler knows.
template <int R = TALL, int N = WIDE, typename Use>
inline void with_tile(int64_t height, int64_t vectors, const Use& use) {
  if constexpr (R > 1) {
    if (height < R) return with_tile<R - 1, N>(height, vectors, use);
  }
  if constexpr (N > 1) {
    if (vectors < N) return with_tile<R, N - 1>(height, vectors, use);
  }
  use(std::integral_constant<int, R>(), std::integral_constant<int, N>());
}
