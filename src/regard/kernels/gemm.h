// Matrix products (GEMM). There are three, and they share one inner loop, `accumulate_tile`: a tile of the result, some rows
// by some vectors of 16 columns, is summed in registers.
//
//   PackedLinear     y = x Wᵀ + b in float32, bf16 or int8; W is packed once      engine_model.h, engine_stream.h
//   multiply_packed  C = A B + b in int8; both factors are packed as they come    training.cpp, for core/int8.py
//   multiply         C = A B in float32, of small matrices in the cache           short_attention.h
//
// Packing and quantising are in gemm_pack.h. Each row of a result is summed in the same order whatever its neighbours: a
// translation does not depend on its batch.
#pragma once

#include "gemm_pack.h"

// ---- Number formats: how a word of a row is multiplied with a word of 16 columns and added to their sums

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

// The row's bytes are unsigned, with 128 for zero; the columns' are signed.
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
template <typename NumberFormat>
constexpr bool QUANTISED = std::is_same_v<NumberFormat, Int8>;

// ---- Tile

// The largest tile of a packed product.
#if defined(__AVX512F__)
constexpr int TILE_ROWS = 6, TILE_VECTORS = 4;  // 24 of the 32 registers hold sums
#else
constexpr int TILE_ROWS = 4, TILE_VECTORS = 1;
#endif

// sums += R rows by N vectors of columns. A row's words are `row_step` bytes apart; a column's are `column_step` vectors
// apart.
template <typename NumberFormat, int R, int N>
inline void accumulate_tile(const char* const (&rows)[R], int64_t row_step, const Words* const (&columns)[N],
                            int64_t column_step, int64_t words, typename NumberFormat::Sum (&sums)[R][N]) {
  for (int64_t k = 0; k < words; ++k) {
    Words column[N];
    for (int n = 0; n < N; ++n) column[n] = columns[n][k * column_step];
    for (int r = 0; r < R; ++r) {
      int32_t word;
      std::memcpy(&word, rows[r] + k * row_step, 4);
      const Words broadcast = Words{} + word;
      for (int n = 0; n < N; ++n) NumberFormat::add(sums[r][n], broadcast, column[n]);
    }
  }
}

// Calls `use(R, N)` with the size of the largest tile that fits, as compile-time constants.
template <int R = TILE_ROWS, int N = TILE_VECTORS, typename Use>
inline void dispatch_tile(int64_t rows, int64_t vectors, const Use& use) {
  if constexpr (R > 1) {
    if (rows < R) return dispatch_tile<R - 1, N>(rows, vectors, use);
  }
  if constexpr (N > 1) {
    if (vectors < N) return dispatch_tile<R, N - 1>(rows, vectors, use);
  }
  use(std::integral_constant<int, R>(), std::integral_constant<int, N>());
}

// ---- Linear layers of the engine: weights packed once

// Keeps the compiler from contracting what comes before and after into one operation, which it might do for tiles of one
// height and not of another.
inline void prevent_contraction(Floats& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#else
  asm("" : "+m"(value));
#endif
}

// The rows of x, in the format of the product.
template <typename NumberFormat>
struct InputRows {
  using Value = typename NumberFormat::Value;
  Buffer<Value> data;
  Buffer<float> scale;  // int8 only: a value is (byte − 128) · scale
  int64_t width = 0;

  void resize(int64_t rows, int64_t columns) {
    width = columns;
    data.at_least(rows, columns);
    scale.at_least(rows);
  }
  Value* row(int64_t number) const { return data.get() + number * width; }

  void set_row(int64_t number, const float* values) {
    if constexpr (QUANTISED<NumberFormat>) {
      scale.get()[number] = quantise_row(values, row(number), width);
    } else {
      convert_row(values, row(number), width);
    }
  }
  // A row of another one of the same width.
  void copy_row(int64_t number, const InputRows& from, int64_t other) {
    std::copy_n(from.row(other), width, row(number));
    if constexpr (QUANTISED<NumberFormat>) scale.get()[number] = from.scale.get()[other];
  }
};

// y = x Wᵀ + b. The weights are packed as [columns / 16][words][16]: one load gives a word of 16 columns.
template <typename NumberFormat>
class PackedLinear {
 public:
  using Value = typename NumberFormat::Value;

  PackedLinear() = default;
  // `row_of(column)` points to a row of W, which is read before the next one is asked for.
  template <typename RowOf>
  PackedLinear(RowOf row_of, const float* bias, int64_t columns, int64_t width)
      : PackedLinear(columns, width / PER_WORD<NumberFormat>) {
    if (bias) std::copy_n(bias, columns, bias_.get());
    for (int64_t column = 0; column < padded; ++column) {
      pack(column < columns ? row_of(column) : nullptr, column, width);
    }
  }

  // Rows of `out` have `padded` columns. With `relu`, out = max(out, 0).
  void operator()(const InputRows<NumberFormat>& x, int64_t first, int64_t rows, float* out, bool relu = false) const {
    for (int64_t band = 0; band < padded; band += TILE_VECTORS * LANES) {
      for (int64_t row = 0; row < rows; row += TILE_ROWS) {
        dispatch_tile(rows - row, (padded - band) / LANES, [&](auto R, auto N) {
          tile<R, N>(x, first + row, band, out + row * padded + band, relu);
        });
      }
    }
  }

  // The layer that has only these columns, in this order. Each gives the same numbers as here, bit for bit.
  PackedLinear select_columns(const std::vector<int64_t>& chosen) const {
    PackedLinear selected(static_cast<int64_t>(chosen.size()), words);
    for (int64_t column = 0; column < selected.padded; ++column) {
      if (column >= selected.columns) {
        selected.pack(nullptr, column, 0);
        continue;
      }
      const int64_t from = chosen[column];
      const int32_t* source = lane(from);
      int32_t* to = selected.lane(column);
      for (int64_t k = 0; k < words; ++k) to[k * LANES] = source[k * LANES];
      selected.bias_[column] = bias_[from];
      if constexpr (QUANTISED<NumberFormat>) {
        selected.scale_[column] = scale_[from];
        selected.offset_[column] = offset_[from];
      }
    }
    return selected;
  }

  int64_t columns = 0, padded = 0, words = 0;

 private:
  PackedLinear(int64_t columns, int64_t words) : columns(columns), padded(round_up(columns)), words(words) {
    data_ = allocate<Words>(padded / LANES, words);
    bias_ = allocate<float>(padded);
    std::fill_n(bias_.get(), padded, 0.0f);
    if constexpr (QUANTISED<NumberFormat>) {
      scale_ = allocate<float>(padded);
      offset_ = allocate<int32_t>(padded);
    }
  }

  // The first word of a column; the others follow LANES apart.
  int32_t* lane(int64_t column) const {
    return reinterpret_cast<int32_t*>(data_.get() + column / LANES * words) + column % LANES;
  }

  template <int R, int N>
  void tile(const InputRows<NumberFormat>& x, int64_t first, int64_t band, float* out, bool relu) const {
    typename NumberFormat::Sum sums[R][N] = {};
    const char* rows[R];
    const Words* columns_of[N];
    for (int r = 0; r < R; ++r) rows[r] = reinterpret_cast<const char*>(x.row(first + r));
    for (int n = 0; n < N; ++n) columns_of[n] = data_.get() + (band / LANES + n) * words;
    accumulate_tile<NumberFormat, R, N>(rows, sizeof(int32_t), columns_of, 1, words, sums);
#pragma GCC unroll 4  // these two loops keep every sum in its register until it is used
    for (int n = 0; n < N; ++n) {
      const int64_t at = band + n * LANES;
      const Floats bias = *reinterpret_cast<const Floats*>(bias_.get() + at);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        Floats value;
        if constexpr (QUANTISED<NumberFormat>) {
          const Words offset = *reinterpret_cast<const Words*>(offset_.get() + at);
          const Floats scale = *reinterpret_cast<const Floats*>(scale_.get() + at);
          value = __builtin_convertvector(sums[r][n] - offset, Floats) * scale;
          prevent_contraction(value);
          value *= x.scale.get()[first + r];
          prevent_contraction(value);
          value += bias;
        } else {
          value = sums[r][n] + bias;
        }
        if (relu) value = value < 0 ? Floats{} : value;  // NaN stays NaN
        std::memcpy(out + r * padded + n * LANES, &value, sizeof value);
      }
    }
  }

  // A column of the product is a row of W; null for the columns that fill the last vector, which are zero.
  void pack(const float* from, int64_t column, int64_t width) {
    float factor = 1.0f;
    if constexpr (QUANTISED<NumberFormat>) {
      scale_[column] = weight_scale(from, from ? width : 0);
      factor = 1.0f / scale_[column];
    }
    int32_t total = 0;
    for (int64_t k = 0; k < words; ++k) {
      Value word[PER_WORD<NumberFormat>] = {};
      for (int i = 0; from && i < PER_WORD<NumberFormat>; ++i) {
        float value = from[k * PER_WORD<NumberFormat> + i];
        if constexpr (QUANTISED<NumberFormat>) {
          int8_t byte = static_cast<int8_t>(std::nearbyint(value * factor));
          total += byte;
          word[i] = static_cast<uint8_t>(byte);
        } else {
          store_value(value, word[i]);
        }
      }
      std::memcpy(lane(column) + k * LANES, word, 4);
    }
    if constexpr (QUANTISED<NumberFormat>) offset_[column] = 128 * total;  // what the zero point of the rows adds
  }

  AlignedArray<Words> data_;
  AlignedArray<float> bias_, scale_;
  AlignedArray<int32_t> offset_;
};

// ---- A training step's products in int8: both factors packed by gemm_pack.h

// R rows from `row` on by N vectors of columns from `band` on.
template <int R, int N, typename Out>
void multiply_packed_tile(const PackedMatrix& left, int64_t row, const PackedMatrix& right, int64_t band,
                          const float* bias, bool add, Out* out) {
  Words sums[R][N] = {};
  const char* lines[R];
  const Words* panels[N];
  for (int r = 0; r < R; ++r) lines[r] = reinterpret_cast<char*>(left.panel(row + r)) + (row + r) % LANES * 4;
  for (int n = 0; n < N; ++n) panels[n] = right.panel(band + n * LANES);
  accumulate_tile<Int8, R, N>(lines, sizeof(Words), panels, 1, left.depth(), sums);
  Floats values[R][N];
#pragma GCC unroll 4  // these two loops keep every sum in its register until it is used
  for (int n = 0; n < N; ++n) {
    const int64_t at = band + n * LANES;
    const Unsigned offset = 128 * Unsigned(load_ints(right.total + at));  // what the left factor's zero point has added
    const Floats scale = load_vector(right.scale + at);
    const Floats shift = bias ? load_partial(bias + at, right.lines - at) : Floats{};
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      const Ints sum = Ints(Unsigned(sums[r][n]) - offset);
      values[r][n] = __builtin_convertvector(sum, Floats) * (scale * left.scale[row + r]) + shift;
    }
  }
  const int64_t columns = right.lines;
  Out* to = out + row * columns + band;
  if (band + N * LANES <= columns && !add) {
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) store_vector(values[r][n], to + r * columns + n * LANES);
    }
    return;
  }
  for (int r = 0; r < R; ++r) {
    for (int n = 0; n < N; ++n) {
      const int64_t at = n * LANES, count = columns - band - at;
      Out* place = to + r * columns + at;
      const Floats value = add ? values[r][n] + load_partial(place, count) : values[r][n];
      store_partial(value, place, count);
    }
  }
}

// out = left · right + bias, or out += left · right + bias: a row per line of the left factor, a column per line of the
// right one.
template <typename Out>
void multiply_packed(const PackedMatrix& left, const PackedMatrix& right, const float* bias, bool add, Out* out) {
  const int64_t rows = left.lines, columns = right.lines;
#pragma omp parallel
  {
    const int64_t share = round_up((rows + omp_get_num_threads() - 1) / omp_get_num_threads(), TILE_ROWS);
    const int64_t begin = std::min(rows, omp_get_thread_num() * share), end = std::min(rows, begin + share);
    for (int64_t band = 0; band < columns; band += TILE_VECTORS * LANES) {
      for (int64_t row = begin; row < end; row += TILE_ROWS) {
        dispatch_tile(end - row, round_up(columns - band) / LANES, [&](auto R, auto N) {
          multiply_packed_tile<R, N>(left, row, right, band, bias, add, out);
        });
      }
    }
  }
}

// ---- Small products in float32, of matrices that stay in the cache

// Rows are whole vectors, and there are spare rows for the last tile of a product.
struct Matrix {
  Matrix(int64_t rows, int64_t columns)
      : columns(round_up(columns)), rows_(round_up(rows, 8)), numbers_(allocate<float>(rows_, this->columns)) {}
  void clear() { std::fill_n(numbers_.get(), rows_ * columns, 0.0f); }
  float* row(int64_t number) { return numbers_.get() + number * columns; }

  int64_t columns;

 private:
  int64_t rows_;
  AlignedArray<float> numbers_;
};

// The left factor: element (i, t) is at data + i · row + t · step.
struct LeftFactor {
  const float* data;
  int64_t row, step;
};
inline LeftFactor rows_of(Matrix& matrix) { return {matrix.row(0), matrix.columns, 1}; }
inline LeftFactor columns_of(Matrix& matrix) { return {matrix.row(0), 1, matrix.columns}; }

#if defined(__AVX512F__)
constexpr int SMALL_VECTORS = 4, EIGHT_ROWS_UP_TO = 2;  // vectors; 16 of the 32 registers hold sums
#else
constexpr int SMALL_VECTORS = 1, EIGHT_ROWS_UP_TO = 0;
#endif

template <int R, int N>
void multiply_tile(LeftFactor a, const float* b, int64_t b_row, int64_t steps, float* out, int64_t out_row) {
  Floats sums[R][N] = {};
  const char* rows[R];
  const Words* columns[N];
  for (int r = 0; r < R; ++r) rows[r] = reinterpret_cast<const char*>(a.data + r * a.row);
  for (int n = 0; n < N; ++n) columns[n] = reinterpret_cast<const Words*>(b + n * LANES);
  accumulate_tile<Float32, R, N>(rows, a.step * sizeof(float), columns, b_row / LANES, steps, sums);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) reinterpret_cast<Floats*>(out + r * out_row)[n] = sums[r][n];
  }
}

template <int N>
void multiply_band(LeftFactor a, int64_t rows, const float* b, int64_t b_row, int64_t steps, float* out,
                   int64_t out_row) {
  for (int64_t i = 0; i < rows;) {
    const LeftFactor here = {a.data + i * a.row, a.row, a.step};
    if (N <= EIGHT_ROWS_UP_TO && i + 4 < rows) {
      multiply_tile<8, N>(here, b, b_row, steps, out + i * out_row, out_row);
      i += 8;
    } else {
      multiply_tile<4, N>(here, b, b_row, steps, out + i * out_row, out_row);
      i += 4;
    }
  }
}

// out = a b. Up to seven spare rows beyond `rows` are overwritten.
inline void multiply(LeftFactor a, int64_t rows, Matrix& b, int64_t steps, Matrix& out) {
  for (int64_t j = 0; j < b.columns; j += SMALL_VECTORS * LANES) {
    const float* band = b.row(0) + j;
    float* to = out.row(0) + j;
    switch (std::min<int64_t>(SMALL_VECTORS, (b.columns - j) / LANES)) {
      case 1: multiply_band<1>(a, rows, band, b.columns, steps, to, out.columns); break;
      case 2: multiply_band<2>(a, rows, band, b.columns, steps, to, out.columns); break;
      case 3: multiply_band<3>(a, rows, band, b.columns, steps, to, out.columns); break;
      default: multiply_band<4>(a, rows, band, b.columns, steps, to, out.columns);
    }
  }
}
