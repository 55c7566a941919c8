// Matrix products with weights that are laid out once, in the form that they are fastest in.
//
// A *form* is how numbers reach a product: float32; bf16, two to a word; int8, four to a word, a byte with 128 for zero
// and a scale a row (Jacob et al. 2018, symmetric, found as the rows come). Weights stand as [columns / 16][words][16],
// so that one load gives a word of 16 columns, and one word of a row meets all of them in one instruction.
// Each row is summed in the same order whatever its neighbours: a translation does not depend on its batch.
#pragma once

#include "native.h"

using Words = int32_t __attribute__((vector_size(64)));

// Room that grows and is never cleared: what is in it is written before it is read.
template <typename T>
class Buffer {
 public:
  T* at_least(int64_t count) {
    if (count > size_) data_ = reserve<T>(size_ = count);
    return data_.get();
  }
  T* get() const { return data_.get(); }

 private:
  Memory<T> data_;
  int64_t size_ = 0;
};

// Keeps a compiler from joining what comes before and after: it could do so for tiles of one height and not of another.
inline void round_here(Floats& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#else
  asm("" : "+m"(value));
#endif
}

// NaN if there is one. Written with vectors, because a compiler makes a chain of comparisons of it.
inline float largest_magnitude(const float* values, int64_t size) {
  constexpr int32_t MAGNITUDE = 0x7fffffff;  // all but the sign: such bits have the order of the numbers, NaN the last
  Words largest = {};
  int64_t i = 0;
  for (; i + LANES <= size; i += LANES) {
    Words some;
    std::memcpy(&some, values + i, sizeof some);
    some &= MAGNITUDE;
    largest = some > largest ? some : largest;
  }
  int32_t bits = 0, one;
  for (int lane = 0; lane < LANES; ++lane) bits = std::max<int32_t>(bits, largest[lane]);
  for (; i < size; ++i) {
    std::memcpy(&one, values + i, 4);
    bits = std::max(bits, one & MAGNITUDE);
  }
  float found;
  std::memcpy(&found, &bits, 4);
  return found;
}

struct Float32 {
  using Value = float;
  using Kept = float;  // keys and values
  using Sum = Floats;
  static constexpr bool QUANTISED = false;
  static void add(Sum& sum, Words row, Words column) { sum += Floats(row) * Floats(column); }
};

struct Bfloat16 {
  using Value = bf16;
  using Kept = bf16;
  using Sum = Floats;
  static constexpr bool QUANTISED = false;
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
  using Kept = bf16;
  using Sum = Words;
  static constexpr bool QUANTISED = true;
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

template <typename Form>
constexpr int PER_WORD = 4 / sizeof(typename Form::Value);

// Rows on their way to a product.
template <typename Form>
struct Rows {
  Buffer<typename Form::Value> data;
  Buffer<float> scale;  // int8 only: a value is (byte − 128) · scale
  int64_t width = 0;

  void resize(int64_t rows, int64_t columns) {
    width = columns;
    data.at_least(rows * columns);
    scale.at_least(rows);
  }
  typename Form::Value* row(int64_t number) const { return data.get() + number * width; }

  void take(int64_t number, const float* values) {
    typename Form::Value* to = row(number);
    if constexpr (Form::QUANTISED) {
      const float largest = largest_magnitude(values, width);
      scale.get()[number] = largest / 127.0f;
      float factor = largest > 0 ? 127.0f / largest : 0.0f;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        to[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(values[i] * factor)) + 128);
      }
    } else {
      keep(values, to, width);
    }
  }
};

// out = x Wᵀ + b.
template <typename Form>
class Product {
 public:
  using Value = typename Form::Value;

  Product() = default;
  Product(const float* weight, const float* bias, int64_t columns, int64_t width)
      : Product(columns, width / PER_WORD<Form>) {
    if (bias) std::copy_n(bias, columns, bias_.get());
    for (int64_t column = 0; column < padded; ++column) {
      pack(column < columns ? weight + column * width : nullptr, column, width);
    }
  }

  // `out` has rows of `padded` columns. With `relu`, what is below zero becomes zero on the way.
  void operator()(const Rows<Form>& x, int64_t first, int64_t rows, float* out, bool relu = false) const {
    for (int64_t band = 0; band < padded; band += WIDE * LANES) {
      int64_t vectors = std::min<int64_t>(WIDE, (padded - band) / LANES);
      for (int64_t row = 0; row < rows; row += TALL) {
        int64_t height = std::min<int64_t>(TALL, rows - row);
        (this->*TILES[vectors - 1][height - 1])(x, first + row, band, out + row * padded + band, relu);
      }
    }
  }

  // The product that has these columns of it alone, in this order: each gives the same numbers as here, bit for bit.
  Product pick(const std::vector<int64_t>& chosen) const {
    Product made(static_cast<int64_t>(chosen.size()), words);
    for (int64_t column = 0; column < made.padded; ++column) {
      if (column >= made.columns) {
        made.pack(nullptr, column, 0);
        continue;
      }
      const int64_t from = chosen[column];
      const int32_t* source = lane(from);
      int32_t* to = made.lane(column);
      for (int64_t k = 0; k < words; ++k) to[k * LANES] = source[k * LANES];
      made.bias_[column] = bias_[from];
      if constexpr (Form::QUANTISED) {
        made.scale_[column] = scale_[from];
        made.offset_[column] = offset_[from];
      }
    }
    return made;
  }

  int64_t columns = 0, padded = 0, words = 0;

 private:
  Product(int64_t columns, int64_t words)
      : columns(columns), padded(in_groups(columns)), words(words) {
    data_ = reserve<Words>(padded / LANES * words);
    bias_ = reserve<float>(padded);
    std::fill_n(bias_.get(), padded, 0.0f);
    if constexpr (Form::QUANTISED) {
      scale_ = reserve<float>(padded);
      offset_ = reserve<int32_t>(padded);
    }
  }

  // A column's words stand LANES apart.
  int32_t* lane(int64_t column) const {
    return reinterpret_cast<int32_t*>(data_.get() + column / LANES * words) + column % LANES;
  }

#if defined(__AVX512F__)
  static constexpr int TALL = 6, WIDE = 4;  // 24 of the 32 registers hold sums
#else
  static constexpr int TALL = 4, WIDE = 1;
#endif
  using Tile = void (Product::*)(const Rows<Form>&, int64_t, int64_t, float*, bool) const;

  template <int R, int N>
  void tile(const Rows<Form>& x, int64_t first, int64_t band, float* out, bool relu) const {
    typename Form::Sum sums[R][N] = {};
    const Words* columns_of[N];
    for (int n = 0; n < N; ++n) columns_of[n] = data_.get() + (band / LANES + n) * words;
    const char* row = reinterpret_cast<const char*>(x.row(first));
    const int64_t stride = x.width * sizeof(Value);
    for (int64_t k = 0; k < words; ++k) {
      Words column[N];
      for (int n = 0; n < N; ++n) column[n] = columns_of[n][k];
      for (int r = 0; r < R; ++r) {
        int32_t word;
        std::memcpy(&word, row + r * stride + 4 * k, 4);
        Words spread = Words{} + word;
        for (int n = 0; n < N; ++n) Form::add(sums[r][n], spread, column[n]);
      }
    }
    for (int n = 0; n < N; ++n) {
      const int64_t at = band + n * LANES;
      const Floats bias = *reinterpret_cast<const Floats*>(bias_.get() + at);
      for (int r = 0; r < R; ++r) {
        Floats value;
        if constexpr (Form::QUANTISED) {
          const Words offset = *reinterpret_cast<const Words*>(offset_.get() + at);
          const Floats scale = *reinterpret_cast<const Floats*>(scale_.get() + at);
          value = __builtin_convertvector(sums[r][n] - offset, Floats) * scale;
          round_here(value);
          value *= x.scale.get()[first + r];
          round_here(value);
          value += bias;
        } else {
          value = sums[r][n] + bias;
        }
        if (relu) value = value < 0 ? Floats{} : value;
        std::memcpy(out + r * padded + n * LANES, &value, sizeof value);
      }
    }
  }

  template <int N>
  static constexpr Tile tile_of(int height) {
    if constexpr (TALL == 6) {
      if (height == 6) return &Product::template tile<6, N>;
      if (height == 5) return &Product::template tile<5, N>;
    }
    return height == 4   ? &Product::template tile<4, N>
           : height == 3 ? &Product::template tile<3, N>
           : height == 2 ? &Product::template tile<2, N>
                         : &Product::template tile<1, N>;
  }
  static constexpr Tile TILES[4][6] = {
      {tile_of<1>(1), tile_of<1>(2), tile_of<1>(3), tile_of<1>(4), tile_of<1>(5), tile_of<1>(6)},
      {tile_of<2>(1), tile_of<2>(2), tile_of<2>(3), tile_of<2>(4), tile_of<2>(5), tile_of<2>(6)},
      {tile_of<3>(1), tile_of<3>(2), tile_of<3>(3), tile_of<3>(4), tile_of<3>(5), tile_of<3>(6)},
      {tile_of<4>(1), tile_of<4>(2), tile_of<4>(3), tile_of<4>(4), tile_of<4>(5), tile_of<4>(6)},
  };

  // A column of the product is a row of the matrix; columns that only fill up are zero.
  void pack(const float* from, int64_t column, int64_t width) {
    float factor = 1.0f;
    if constexpr (Form::QUANTISED) {
      const float largest = from ? largest_magnitude(from, width) : 0.0f;
      scale_[column] = std::max(largest / 127.0f, 1e-12f);  // NaN stays: std::max keeps its first
      factor = 1.0f / scale_[column];
    }
    int32_t total = 0;
    for (int64_t k = 0; k < words; ++k) {
      Value word[PER_WORD<Form>] = {};
      for (int i = 0; from && i < PER_WORD<Form>; ++i) {
        float value = from[k * PER_WORD<Form> + i];
        if constexpr (Form::QUANTISED) {
          int8_t byte = static_cast<int8_t>(std::nearbyint(value * factor));
          total += byte;
          word[i] = static_cast<uint8_t>(byte);
        } else {
          write(word[i], value);
        }
      }
      std::memcpy(lane(column) + k * LANES, word, 4);
    }
    if constexpr (Form::QUANTISED) offset_[column] = 128 * total;  // what the bytes' zero adds
  }

  Memory<Words> data_;
  Memory<float> bias_, scale_;
  Memory<int32_t> offset_;
};
