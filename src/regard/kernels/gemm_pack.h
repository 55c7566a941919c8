// Quantising numbers to int8 and packing matrices for the products of gemm.h, which includes this file.
//
// A number x of a row becomes round(x / scale), where the row's scale is its largest magnitude divided by 127 (symmetric
// quantisation, Jacob et al. 2018). Rounding is to nearest for activations and weights, stochastic for gradients: these
// have many small numbers beside few large ones, and rounding to nearest would turn all small ones into zero.
//
// A NaN or an infinity makes the scale of its row NaN or infinite, so that no result of that row is finite.
//
// Called by training.cpp (pack_rows, pack_columns) and by PackedLinear in gemm.h (quantise_row, weight_scale).
#pragma once

#include "common.h"
#include "parallel.h"

// Packed numbers are read in 32-bit words: one float32, two bf16 or four int8. A vector has a word for each of 16 lanes.
using Words = Ints;

// ---- Quantise

// All bits but the sign. As integers they have the order of the magnitudes, with NaN above infinity.
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
// NaN if there is one. Written with vectors because a compiler turns the plain loop into a chain of comparisons.
inline float largest_magnitude(const float* values, int64_t size) {
  Ints largest = {};
  for (int64_t i = 0; i < size; i += LANES) largest = larger(largest, magnitude(load_partial(values + i, size - i)));
  return largest_magnitude(largest);
}

// A row of activations as unsigned bytes, where 128 stands for zero; returns the scale: x ≈ (byte − 128) · scale.
inline float quantise_row(const float* values, uint8_t* bytes, int64_t size) {
  const float largest = largest_magnitude(values, size);
  const float factor = largest > 0 ? 127.0f / largest : 0.0f;
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(values[i] * factor)) + 128);
  }
  return largest / 127.0f;
}

// The scale of a row of weights.
inline float weight_scale(const float* values, int64_t size) {
  return std::max(largest_magnitude(values, size) / 127.0f, 1e-12f);  // NaN stays NaN: std::max returns its first
}

inline Ints round_to_int(Floats x) {
#if defined(__AVX512F__)
  return Ints(_mm512_cvtps_epi32(__m512(x)));
#else
  return __builtin_convertvector(round_nearest(x), Ints);
#endif
}

inline Ints floor_to_int(Floats x) {
#if defined(__AVX512F__)
  return Ints(_mm512_cvt_roundps_epi32(__m512(x), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
#else
  for (int lane = 0; lane < LANES; ++lane) x[lane] = std::floor(x[lane]);
  return __builtin_convertvector(x, Ints);
#endif
}

// Rounding to nearest, or stochastic: floor(x + u) with u uniform in (0, 1). Sixteen xorshift generators (Marsaglia 2003)
// side by side give the random numbers, 16 bits each. They are seeded again at fixed positions of the matrix, so that the
// result does not depend on the number of threads.
template <bool STOCHASTIC>
class Rounding {
 public:
  Rounding(uint64_t seed, uint64_t position) {
    if constexpr (STOCHASTIC) {
      for (int pair = 0; pair < LANES / 2; ++pair) {
        const uint64_t bits = random_bytes(seed, position * (LANES / 2) + pair) | 0x100000001;  // no state may be 0
        std::memcpy(reinterpret_cast<char*>(&state_) + 8 * pair, &bits, 8);
      }
    }
  }
  // `index` counts the vectors from `position` on: 0, 1, …
  Ints operator()(Floats x, int64_t index) {
    if constexpr (!STOCHASTIC) return round_to_int(x);
    if (index % 2 == 0) {
      state_ ^= state_ << 13;
      state_ ^= state_ >> 17;
      state_ ^= state_ << 5;
    }
    // A number in (1, 2) by its fraction bits: sixteen random ones, and the middle of what they leave open.
    const Unsigned bits = index % 2 == 0 ? state_ << 7 : state_ >> 9;
    return Ints(Unsigned(floor_to_int(x + Floats((bits & 0x7fff80) | 0x3f800040))) - 1);
  }

 private:
  Unsigned state_;
};

// The largest magnitude of a line is quantised to this: so far below 127 that stochastic rounding never gives 128.
constexpr float LARGEST_BYTE = 126.99f;

inline float byte_factor(float largest) { return largest < 1e-36f ? 0.0f : LARGEST_BYTE / largest; }  // NaN stays NaN
inline float byte_scale(float largest) { return largest * (1 / LARGEST_BYTE); }

// ---- Pack: a training step's matrices

// A matrix as int8. A *line* is a row of the left factor or a column of the right one: what a product sums along. Lines
// are in panels of 16, four bytes of a line to a word: words[panel][length / 4][16].
struct PackedMatrix {
  Words* words;
  float* scale;    // per line: x ≈ byte · scale
  int32_t* total;  // per line of the right factor: the sum of its bytes
  int64_t lines, length;

  int64_t depth() const { return round_up(length, 4) / 4; }
  Words* panel(int64_t line) const { return words + line / LANES * depth(); }
};

// Per column of a matrix, found while its rows are packed.
struct ColumnStatistics {
  int32_t* largest;  // magnitude, as the bits of a float32
  float* sum;        // null: not wanted
};

// The left factor's bytes are unsigned, with 128 for zero; the right one's are signed (the instruction wants it so).
template <bool LEFT>
constexpr uint32_t ZERO_POINT = LEFT ? 128 : 0;

// Sixteen lines of sixteen numbers become four vectors of words as a panel has them: the first word of every line, the
// second, …
inline void interleave(const Ints (&numbers)[LANES], Words (&words)[4]) {
#if defined(__AVX512BW__)
  const __m512i transposed =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  __m512i four[4];  // each of four lines: their first words, then the second ones, …
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Ints* lines = numbers + 4 * i;
    const Ints bytes = (lines[0] & 255) | (lines[1] & 255) << 8 | (lines[2] & 255) << 16 | lines[3] << 24;
    four[i] = _mm512_shuffle_epi8(__m512i(bytes), transposed);
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

// Sixteen rows become a panel; the statistics of their columns are added to those given.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_row_panel(const T* const (&rows)[LANES], int64_t first, uint64_t seed, const PackedMatrix& to,
                    int32_t* column_largest, float* column_sum) {
  Ints row_largest[LANES] = {};
  for (int64_t i = 0; i < to.length; i += LANES) {
    Ints largest = load_ints(column_largest + i);
    Floats sum = column_sum ? load_vector(column_sum + i) : Floats{};
#pragma GCC unroll 16
    for (int r = 0; r < LANES; ++r) {
      const Floats numbers = load_partial(rows[r] + i, to.length - i);
      const Ints size = magnitude(numbers);
      row_largest[r] = larger(row_largest[r], size);
      largest = larger(largest, size);
      sum += numbers;
    }
    store_ints(largest, column_largest + i);
    if (column_sum) store_vector(sum, column_sum + i);
  }
  float factor[LANES];
  for (int r = 0; r < LANES; ++r) {
    const float largest = largest_magnitude(row_largest[r]);
    factor[r] = byte_factor(largest);
    to.scale[first + r] = byte_scale(largest);
  }
  Rounding<STOCHASTIC> rounding(seed, first);
  Unsigned totals[LANES] = {};  // those of a row with a NaN wrap around
  for (int64_t i = 0; i < to.length; i += LANES) {
    Ints numbers[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; ++r) {
      numbers[r] = rounding(load_partial(rows[r] + i, to.length - i) * factor[r], r);
      if (!LEFT) totals[r] += Unsigned(numbers[r]);
      numbers[r] = Ints(Unsigned(numbers[r]) + ZERO_POINT<LEFT>);
    }
    Words words[4];
    interleave(numbers, words);
    std::memcpy(to.panel(first) + i / 4, words, std::min<int64_t>(4, to.depth() - i / 4) * sizeof(Words));
  }
  for (int r = 0; r < LANES; ++r) {
    uint32_t total = 0;
    for (int lane = 0; lane < LANES; ++lane) total += totals[r][lane];
    to.total[first + r] = static_cast<int32_t>(total);
  }
}

// A thread's own column statistics.
struct ThreadColumns {
  ThreadColumns(int64_t size, bool sums)
      : size(round_up(size)), largest(allocate<int32_t>(this->size)), sum(allocate<float>(sums ? this->size : 0)),
        sums(sums) {}
  void clear() {
    std::fill_n(largest.get(), size, 0);
    if (sums) std::fill_n(sum.get(), size, 0.0f);
    used = true;
  }

  int64_t size;
  AlignedArray<int32_t> largest;
  AlignedArray<float> sum;
  bool sums, used = false;
};

// The rows become lines, for a product that sums along them.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_rows(const T* matrix, uint64_t seed, const PackedMatrix& to, const ColumnStatistics& columns) {
  const std::vector<T> zeros(to.length);  // fills the last panel
  const PerThread<ThreadColumns> threads(to.length, columns.sum != nullptr);
#pragma omp parallel
  {
    ThreadColumns& own = threads.current();
    own.clear();
#pragma omp for schedule(static)
    for (int64_t first = 0; first < to.lines; first += LANES) {
      const T* rows[LANES];
      for (int r = 0; r < LANES; ++r) {
        rows[r] = first + r < to.lines ? matrix + (first + r) * to.length : zeros.data();
      }
      pack_row_panel<LEFT, STOCHASTIC>(rows, first, seed, to, own.largest.get(), own.sums ? own.sum.get() : nullptr);
    }
  }
  std::fill_n(columns.largest, to.length, 0);
  if (columns.sum) std::fill_n(columns.sum, to.length, 0.0f);
  threads.for_each([&](const ThreadColumns& thread) {
    if (!thread.used) return;
    for (int64_t i = 0; i < to.length; ++i) {
      columns.largest[i] = std::max(columns.largest[i], thread.largest[i]);
      if (columns.sum) columns.sum[i] += thread.sum[i];
    }
  });
}

// Sixteen columns from `first` on, words `begin` up to `end` of them; their sums are added to `totals`.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_column_panel(const T* matrix, int64_t first, int64_t begin, int64_t end, Floats factor,
                       Rounding<STOCHASTIC> rounding, const PackedMatrix& to, Unsigned& totals) {
  const int64_t rows = to.length, columns = to.lines;
  for (int64_t k = begin; k < end; ++k) {
    Words word = {};
#pragma GCC unroll 4
    for (int byte = 0; byte < 4; ++byte) {
      const int64_t row = 4 * k + byte;
      Ints numbers = {};
      if (row < rows) numbers = rounding(load_partial(matrix + row * columns + first, columns - first) * factor, byte);
      if (!LEFT) totals += Unsigned(numbers);
      word |= Words(((Unsigned(numbers) + ZERO_POINT<LEFT>) & 255) << (8 * byte));
    }
    to.panel(first)[k] = word;
  }
}

// The columns become lines, for a product that sums along them; `largest` has their largest magnitudes. Packed a few rows at
// a time, so that a cache line is still in the cache when the next panel reads the rest of it.
template <bool LEFT, bool STOCHASTIC, typename T>
void pack_columns(const T* matrix, uint64_t seed, const PackedMatrix& to, const int32_t* largest) {
  constexpr int64_t BLOCK = 16;  // words
  const int64_t panels = round_up(to.lines) / LANES, depth = to.depth();
  auto factors = allocate<Floats>(panels);
  auto totals = allocate<Unsigned>(panels);
#pragma omp parallel
  {
    const int64_t share = (panels + omp_get_num_threads() - 1) / omp_get_num_threads();
    const int64_t begin = std::min(panels, omp_get_thread_num() * share), end = std::min(panels, begin + share);
    for (int64_t panel = begin; panel < end; ++panel) {
      Floats factor = {};
      for (int64_t lane = 0; lane < LANES; ++lane) {
        const int64_t line = panel * LANES + lane;
        const float line_largest = line < to.lines ? as_float(largest[line]) : 0.0f;
        factor[lane] = byte_factor(line_largest);
        to.scale[line] = byte_scale(line_largest);
      }
      factors[panel] = factor;
      totals[panel] = Unsigned{};
    }
    for (int64_t k = 0; k < depth; k += BLOCK) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const Rounding<STOCHASTIC> rounding(seed, panel * depth + k);
        pack_column_panel<LEFT>(matrix, panel * LANES, k, std::min(depth, k + BLOCK), factors[panel], rounding, to,
                                totals[panel]);
      }
    }
    for (int64_t panel = begin; panel < end; ++panel) store_ints(Ints(totals[panel]), to.total + panel * LANES);
  }
}

// Calls `pack` with these two as constants. A seed of 0 means rounding to nearest.
template <typename Pack>
void dispatch_pack(bool left, uint64_t seed, const Pack& pack) {
  using Yes = std::true_type;
  using No = std::false_type;
  if (left) {
    seed ? pack(Yes(), Yes()) : pack(Yes(), No());
  } else {
    seed ? pack(No(), Yes()) : pack(No(), No());
  }
}

template <typename T>
void pack_rows(const T* matrix, bool left, uint64_t seed, const PackedMatrix& to, const ColumnStatistics& columns) {
  dispatch_pack(left, seed, [&](auto LEFT, auto STOCHASTIC) { pack_rows<LEFT, STOCHASTIC>(matrix, seed, to, columns); });
}

template <typename T>
void pack_columns(const T* matrix, bool left, uint64_t seed, const PackedMatrix& to, const int32_t* largest) {
  dispatch_pack(left, seed,
                [&](auto LEFT, auto STOCHASTIC) { pack_columns<LEFT, STOCHASTIC>(matrix, seed, to, largest); });
}
