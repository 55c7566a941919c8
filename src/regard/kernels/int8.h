// A training step's matrix products in int8: numbers become bytes, with a scale for each row or column of a matrix.
//
// What is about to be multiplied is *packed*: a line of bytes for every row (or column), along which the product adds up,
// in panels of 16 lines, four bytes to a word, as tiles.h wants its columns; here both factors stand like that. Rounding
// is to the nearest, or by chance, so that the mean is right: gradients are many small numbers beside a few large ones,
// and to the nearest all small ones would be nothing.
#pragma once

#include <omp.h>

#include "tiles.h"

struct Packed {
  Words* words;    // [lines / 16][length / 4]
  float* scale;    // a line: what a step of its bytes is worth
  int32_t* total;  // a line of the right factor: of its numbers
  int64_t lines, length;

  int64_t depth() const { return in_groups(length, 4) / 4; }
  Words* panel(int64_t line) const { return words + line / LANES * depth(); }
};

// Of every column: its largest magnitude, as bits; and its sum, unless nobody asks.
struct ColumnFigures {
  int32_t* most;
  float* sum;
};

inline Ints read_ints(const int32_t* from) {
  Ints numbers;
  std::memcpy(&numbers, from, sizeof numbers);
  return numbers;
}
inline void write_ints(Ints numbers, int32_t* to) { std::memcpy(to, &numbers, sizeof numbers); }

inline Ints to_nearest(Floats x) {
#if defined(__AVX512F__)
  return Ints(_mm512_cvtps_epi32(__m512(x)));
#else
  return __builtin_convertvector(nearest(x), Ints);
#endif
}

inline Ints downwards(Floats x) {
#if defined(__AVX512F__)
  return Ints(_mm512_cvt_roundps_epi32(__m512(x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
#else
  for (int lane = 0; lane < LANES; ++lane) x[lane] = std::floor(x[lane]);
  return __builtin_convertvector(x, Ints);
#endif
}

// How numbers are rounded. By chance: sixteen of Marsaglia's xorshift generators (2003) side by side, begun anew at known
// places, so that the outcome does not depend on who computes it. Half of what they draw, 16 bits, is enough for a number.
template <bool STOCHASTIC>
class Rounding {
 public:
  Rounding(uint64_t seed, uint64_t place) {
    if constexpr (STOCHASTIC) {
      for (int pair = 0; pair < LANES / 2; ++pair) {
        const uint64_t bits = eight_bytes(seed, place * (LANES / 2) + pair) | 0x100000001;  // none may begin as 0
        std::memcpy(reinterpret_cast<char*>(&state_) + 8 * pair, &bits, 8);
      }
    }
  }
  // The vectors from there on: `which` is 0, 1, …
  Ints operator()(Floats x, int64_t which) {
    if constexpr (!STOCHASTIC) return to_nearest(x);
    if (which % 2 == 0) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 17;
      state_ ^= state_ << 5;
    }
    // A number from 1 to 2 by the bits of its fraction: sixteen of them, and the middle of what they leave open.
    const Unsigned bits = which % 2 == 0 ? state_ << 7 : state_ >> 9;
    return downwards(x + Floats((bits & 0x7fff80) | 0x3f800040)) - 1;
  }

 private:
  using Unsigned = uint32_t __attribute__((vector_size(64)));
  Unsigned state_;
};

// The largest magnitude of a line becomes this: so far below 127 that what is rounded up by chance is never 128.
constexpr float MOST = 126.99f;

inline float byte_factor(float most) { return most < 1e-36f ? 0.0f : MOST / most; }  // NaN stays
inline float byte_scale(float most) { return most * (1 / MOST); }

template <bool LEFT>
constexpr int ZERO = LEFT ? 128 : 0;

// Sixteen lines of sixteen numbers become their bytes, as a panel has them: the first word of every line, the second, …
inline void interleave(const Ints (&numbers)[LANES], Words (&words)[4]) {
#if defined(__AVX512BW__)
  const __m512i turned = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m512i four[4];  // of four lines each: their first words, then the second ones, …
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Ints* some = numbers + 4 * i;
    const Ints bytes = (some[0] & 255) | (some[1] & 255) << 8 | (some[2] & 255) << 16 | some[3] << 24;
    four[i] = _mm512_shuffle_epi8(__m512i(bytes), turned);
  }
  constexpr int EVEN = 0x88, ODD = 0xdd;  // which quarters to take of each
  const __m512i even = _mm512_shuffle_i32x4(four[0], four[1], EVEN), odd = _mm512_shuffle_i32x4(four[0], four[1], ODD);
  const __m512i more_even = _mm512_shuffle_i32x4(four[2], four[3], EVEN);
  const __m512i more_odd = _mm512_shuffle_i32x4(four[2], four[3], ODD);
  words[0] = Words(_mm512_shuffle_i32x4(even, more_even, EVEN));
  words[1] = Words(_mm512_shuffle_i32x4(odd, more_odd, EVEN));
  words[2] = Words(_mm512_shuffle_i32x4(even, more_even, ODD));
  words[3] = Words(_mm512_shuffle_i32x4(odd, more_odd, ODD));
#else
  for (int k = 0; k < 4; ++k) {
    for (int line = 0; line < LANES; ++line) {
      const Bytes bytes = __builtin_convertvector(numbers[line], Bytes);
      std::memcpy(reinterpret_cast<char*>(&words[k]) + 4 * line, reinterpret_cast<const char*>(&bytes) + 4 * k, 4);
    }
  }
#endif
}

// Sixteen rows become a panel. Their columns' figures go on from what they are.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_sixteen(const T* const (&rows)[LANES], int64_t first, uint64_t seed, const Packed& to, int32_t* most,
                  float* sum) {
  Ints top[LANES] = {};
  for (int64_t i = 0; i < to.length; i += LANES) {
    Ints column = read_ints(most + i);
    Floats column_sum = sum ? read_vector(sum + i) : Floats{};
#pragma GCC unroll 16
    for (int r = 0; r < LANES; ++r) {
      const Floats some = read_some(rows[r] + i, to.length - i);
      const Ints size = magnitude(some);
      top[r] = larger(top[r], size);
      column = larger(column, size);
      column_sum += some;
    }
    write_ints(column, most + i);
    if (sum) write_vector(column_sum, sum + i);
  }
  float factor[LANES];
  for (int r = 0; r < LANES; ++r) {
    const float largest = largest_magnitude(top[r]);
    factor[r] = byte_factor(largest);
    to.scale[first + r] = byte_scale(largest);
  }
  Rounding<STOCHASTIC> rounding(seed, first);
  Ints totals[LANES] = {};
  for (int64_t i = 0; i < to.length; i += LANES) {
    Ints numbers[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; ++r) {
      numbers[r] = rounding(read_some(rows[r] + i, to.length - i) * factor[r], r);
      if (!LEFT) totals[r] += numbers[r];
      numbers[r] += ZERO<LEFT>;
    }
    Words words[4];
    interleave(numbers, words);
    std::memcpy(to.panel(first) + i / 4, words, std::min<int64_t>(4, to.depth() - i / 4) * sizeof(Words));
  }
  for (int r = 0; r < LANES; ++r) {
    int32_t total = 0;
    for (int lane = 0; lane < LANES; ++lane) total += totals[r][lane];
    to.total[first + r] = total;
  }
}

template <bool LEFT, bool STOCHASTIC, typename T>
void pack_rows(const T* matrix, uint64_t seed, const Packed& to, const ColumnFigures& columns) {
  std::fill_n(columns.most, to.length, 0);
  if (columns.sum) std::fill_n(columns.sum, to.length, 0.0f);
  const std::vector<T> nothing(to.length);  // fills the last panel
#pragma omp parallel
  {
    const int64_t size = in_groups(to.length);
    auto most = reserve<int32_t>(size);
    auto sum = columns.sum ? reserve<float>(size) : nullptr;
    std::fill_n(most.get(), size, 0);
    if (sum) std::fill_n(sum.get(), size, 0.0f);
#pragma omp for schedule(static)
    for (int64_t first = 0; first < to.lines; first += LANES) {
      const T* rows[LANES];
      for (int r = 0; r < LANES; ++r) {
        rows[r] = first + r < to.lines ? matrix + (first + r) * to.length : nothing.data();
      }
      pack_sixteen<LEFT, STOCHASTIC>(rows, first, seed, to, most.get(), sum.get());
    }
    // One thread after the other in the order of their numbers, so that the sums never depend on who was first.
#pragma omp for ordered schedule(static, 1)
    for (int thread = 0; thread < omp_get_num_threads(); ++thread) {
#pragma omp ordered
      for (int64_t i = 0; i < to.length; ++i) {
        columns.most[i] = std::max(columns.most[i], most[i]);
        if (sum) columns.sum[i] += sum[i];
      }
    }
  }
}

// Sixteen columns from `first` on, words `begin` up to `end` of them. `totals` goes on from what it is.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_panel(const T* matrix, int64_t first, int64_t begin, int64_t end, Floats factor, Rounding<STOCHASTIC> rounding,
                const Packed& to, Ints& totals) {
  const int64_t rows = to.length, columns = to.lines;
  for (int64_t k = begin; k < end; ++k) {
    Words word = {};
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte) {
      const int64_t row = 4 * k + byte;
      Ints numbers = {};
      if (row < rows) numbers = rounding(read_some(matrix + row * columns + first, columns - first) * factor, byte);
      if (!LEFT) totals += numbers;
      word |= ((numbers + ZERO<LEFT>) & 255) << (8 * byte);
    }
    to.panel(first)[k] = word;
  }
}

// The columns become lines; `most` is their largest magnitudes. A few rows at a time, so that a line of the cache is still
// there when the next panel asks for the rest of it.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_columns(const T* matrix, uint64_t seed, const Packed& to, const int32_t* most) {
  constexpr int64_t BLOCK = 16;  // words
  const int64_t panels = in_groups(to.lines) / LANES, depth = to.depth();
#pragma omp parallel
  {
    const int64_t share = (panels + omp_get_num_threads() - 1) / omp_get_num_threads();
    const int64_t begin = std::min(panels, omp_get_thread_num() * share), end = std::min(panels, begin + share);
    auto factors = reserve<Floats>(end - begin);
    auto totals = reserve<Ints>(end - begin);
    for (int64_t panel = begin; panel < end; ++panel) {
      Floats factor = {};
      for (int64_t lane = 0; lane < LANES; ++lane) {
        const int64_t line = panel * LANES + lane;
        const float largest = line < to.lines ? as_float(most[line]) : 0.0f;
        factor[lane] = byte_factor(largest);
        to.scale[line] = byte_scale(largest);
      }
      factors[panel - begin] = factor;
      totals[panel - begin] = Ints{};
    }
    for (int64_t k = 0; k < depth; k += BLOCK) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const Rounding<STOCHASTIC> rounding(seed, panel * depth + k);
        pack_panel<LEFT>(matrix, panel * LANES, k, std::min(depth, k + BLOCK), factors[panel - begin], rounding, to,
                         totals[panel - begin]);
      }
    }
    for (int64_t panel = begin; panel < end; ++panel) write_ints(totals[panel - begin], to.total + panel * LANES);
  }
}

// Calls `pack` with these two as constants. A seed of 0: to the nearest.
template <typename Pack>
void choose(bool left, uint64_t seed, const Pack& pack) {
  using Yes = std::true_type;
  using No = std::false_type;
  if (left) {
    seed ? pack(Yes(), Yes()) : pack(Yes(), No());
  } else {
    seed ? pack(No(), Yes()) : pack(No(), No());
  }
}

template <typename T>
void pack_rows(const T* matrix, bool left, uint64_t seed, const Packed& to, const ColumnFigures& columns) {
  choose(left, seed, [&](auto LEFT, auto STOCHASTIC) { pack_rows<LEFT, STOCHASTIC>(matrix, seed, to, columns); });
}

template <typename T>
void pack_columns(const T* matrix, bool left, uint64_t seed, const Packed& to, const int32_t* most) {
  choose(left, seed, [&](auto LEFT, auto STOCHASTIC) { pack_columns<LEFT, STOCHASTIC>(matrix, seed, to, most); });
}

// R rows from `row` on by N vectors of columns from `band` on.
template <int R, int N, typename Out>
void multiply_tile(const Packed& left, int64_t row, const Packed& right, int64_t band, const float* bias, bool add,
                   Out* out) {
  Words sums[R][N] = {};
  const char* lines[R];
  const Words* panels[N];
  for (int r = 0; r < R; ++r) lines[r] = reinterpret_cast<char*>(left.panel(row + r)) + (row + r) % LANES * 4;
  for (int n = 0; n < N; ++n) panels[n] = right.panel(band + n * LANES);
  add_up<Int8, R, N>(lines, sizeof(Words), panels, left.depth(), sums);
  Floats values[R][N];
#pragma GCC unroll 4  // with what is below: a sum must not leave its register before it is used
  for (int n = 0; n < N; ++n) {
    const int64_t at = band + n * LANES;
    const Ints zero = 128 * read_ints(right.total + at);  // what the left's zero has added
    const Floats scale = read_vector(right.scale + at);
    const Floats shift = bias ? read_some(bias + at, right.lines - at) : Floats{};
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      values[r][n] = __builtin_convertvector(sums[r][n] - zero, Floats) * (scale * left.scale[row + r]) + shift;
    }
  }
  const int64_t columns = right.lines;
  Out* to = out + row * columns + band;
  if (band + N * LANES <= columns && !add) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) write_vector(values[r][n], to + r * columns + n * LANES);
    }
    return;
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) {
      const int64_t at = n * LANES, count = columns - band - at;
      Out* place = to + r * columns + at;
      const Floats value = add ? values[r][n] + read_some(place, count) : values[r][n];
      write_some(value, place, count);
    }
  }
}

// out = left · right + bias, or added to what stands there; a row for a line of the left, a column for one of the right.
template <typename Out>
void multiply_packed(const Packed& left, const Packed& right, const float* bias, bool add, Out* out) {
  const int64_t rows = left.lines, columns = right.lines;
#pragma omp parallel
  {
    const int64_t share = in_groups((rows + omp_get_num_threads() - 1) / omp_get_num_threads(), TALL);
    const int64_t begin = std::min(rows, omp_get_thread_num() * share), end = std::min(rows, begin + share);
    for (int64_t band = 0; band < columns; band += WIDE * LANES) {
      for (int64_t row = begin; row < end; row += TALL) {
        with_tile(end - row, in_groups(columns - band) / LANES, [&](auto R, auto N) {
          multiply_tile<R, N>(left, row, right, band, bias, add, out);
        });
      }
    }
  }
}
