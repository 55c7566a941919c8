// Matrix products with weights that are laid out once, in the form that they are fastest in (kernels/tiles.h). In int8 a row
// of bytes has a scale, found as the rows come (Jacob et al. 2018, symmetric).
// Each row is summed in the same order whatever its neighbours: a translation does not depend on its batch.
#pragma once

#include "tiles.h"

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
  Ints most = {};
  for (int64_t i = 0; i < size; i += LANES) most = larger(most, magnitude(read_some(values + i, size - i)));
  return largest_magnitude(most);
}

template <typename NumberFormat>
constexpr bool QUANTISED = std::is_same_v<NumberFormat, Int8>;

// Keys and values.
template <typename NumberFormat>
using CacheValue = std::conditional_t<std::is_same_v<NumberFormat, Float32>, float, bf16>;

// Rows on their way to a product.
template <typename NumberFormat>
struct Rows {
  Buffer<typename NumberFormat::Value> data;
  Buffer<float> scale;  // int8 only: a value is (byte − 128) · scale
  int64_t width = 0;

  void resize(int64_t rows, int64_t columns) {
    width = columns;
    data.at_least(rows * columns);
    scale.at_least(rows);
  }
  typename NumberFormat::Value* row(int64_t number) const { return data.get() + number * width; }

  void take(int64_t number, const float* values) {
    typename NumberFormat::Value* to = row(number);
    if constexpr (QUANTISED<NumberFormat>) {
      const float largest = largest_magnitude(values, width);
      scale.get()[number] = largest / 127.0f;
      float factor = largest > 0 ? 127.0f / largest : 0.0f;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        to[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(values[i] * factor)) + 128);
      }
    } else {
      store(values, to, width);
    }
  }
};

// out = x Wᵀ + b.
template <typename NumberFormat>
class Product {
 public:
  using Value = typename NumberFormat::Value;

  Product() = default;
  Product(const float* weight, const float* bias, int64_t columns, int64_t width)
      : Product(columns, width / PER_WORD<NumberFormat>) {
    if (bias) std::copy_n(bias, columns, bias_.get());
    for (int64_t column = 0; column < padded; ++column) {
      pack(column < columns ? weight + column * width : nullptr, column, width);
    }
  }

  // `out` has rows of `padded` columns. With `relu`, what is below zero becomes zero on the way.
  void operator()(const Rows<NumberFormat>& x, int64_t first, int64_t rows, float* out, bool relu = false) const {
    for (int64_t band = 0; band < padded; band += WIDE * LANES) {
      for (int64_t row = 0; row < rows; row += TALL) {
        with_tile(rows - row, (padded - band) / LANES, [&](auto R, auto N) {
          tile<R, N>(x, first + row, band, out + row * padded + band, relu);
        });
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
      if constexpr (QUANTISED<NumberFormat>) {
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
    if constexpr (QUANTISED<NumberFormat>) {
      scale_ = reserve<float>(padded);
      offset_ = reserve<int32_t>(padded);
    }
  }

  // A column's words stand LANES apart.
  int32_t* lane(int64_t column) const {
    return reinterpret_cast<int32_t*>(data_.get() + column / LANES * words) + column % LANES;
  }

  template <int R, int N>
  void tile(const Rows<NumberFormat>& x, int64_t first, int64_t band, float* out, bool relu) const {
    typename NumberFormat::Sum sums[R][N] = {};
    const char* rows[R];
    const Words* columns_of[N];
    for (int r = 0; r < R; ++r) rows[r] = reinterpret_cast<const char*>(x.row(first + r));
    for (int n = 0; n < N; ++n) columns_of[n] = data_.get() + (band / LANES + n) * words;
    add_up<NumberFormat, R, N>(rows, sizeof(int32_t), columns_of, words, sums);
#pragma GCC unroll 4  // with what is below: a sum must not leave its register before it is used
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

  // A column of the product is a row of the matrix; columns that only fill up are zero.
  void pack(const float* from, int64_t column, int64_t width) {
    float factor = 1.0f;
    if constexpr (QUANTISED<NumberFormat>) {
      const float largest = from ? largest_magnitude(from, width) : 0.0f;
      scale_[column] = std::max(largest / 127.0f, 1e-12f);  // NaN stays: std::max keeps its first
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
          write(word[i], value);
        }
      }
      std::memcpy(lane(column) + k * LANES, word, 4);
    }
    if constexpr (QUANTISED<NumberFormat>) offset_[column] = 128 * total;  // what the bytes' zero adds
  }

  Memory<Words> data_;
  Memory<float> bias_, scale_;
  Memory<int32_t> offset_;
};
