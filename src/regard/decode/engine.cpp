// What a fast translation does between two matrix products, each in one pass over a row; engine.py puts them in order.
//
// A *form* is how activations reach a product: float32, bf16, or int8 (a byte a value, 128 for zero, and a scale a
// row). `In` is what the product leaves behind, `Out` what the next one takes, `Kept` what keys and values are kept in.
// Shapes: R rows (tokens), D model, H heads, K head size, V vocabulary.

#include "native.h"

#if defined(__AVX512VNNI__)
#define INT8_UNITS
#include <immintrin.h>
#endif

namespace {

struct Float32 {
  using In = float;
  using Out = float;
  using Kept = float;
};
struct Bfloat16 {
  using In = bf16;
  using Out = bf16;
  using Kept = bf16;
};
struct Int8 {
  using In = float;
  using Out = uint8_t;
  using Kept = bf16;
};

// The rows that a product left: in int8 they want their row's scale; the bias is still to be added.
template <typename T>
struct Product {
  const T* data;
  const float* scale;
  const float* bias;
  int64_t width;

  // Columns first … first + count of a row, as floats.
  void fetch(int64_t row, int64_t first, int64_t count, float* to) const {
    const T* line = data + row * width + first;
    float factor = scale ? scale[row] : 1.0f;
    if (bias) {
      const float* added = bias + first;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = read(line[i]) * factor + added[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) to[i] = read(line[i]) * factor;
    }
  }
};

template <typename T>
void put(const float* values, T* to, float*, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) write(to[i], values[i]);
}
void put(const float* values, uint8_t* to, float* scale, int64_t size) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::fabs(values[i]));
  *scale = largest / 127.0f;
  float factor = largest > 0 ? 127.0f / largest : 0.0f;
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    to[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(values[i] * factor)) + 128);
  }
}

// Rows on their way to the next product.
template <typename T>
struct Rows {
  T* data;
  float* scale;
  int64_t width;

  void take(int64_t row, const float* values) const {
    put(values, data + row * width, scale ? scale + row : nullptr, width);
  }
};

// x_RD = embedding · factor + the position's row.
void embed_rows(const int64_t* tokens, const float* table, const float* positions, const int64_t* places, float factor,
                float* x, int64_t rows, int64_t size) {
#pragma omp parallel for schedule(static) if (rows > 8)
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = table + tokens[row] * size;
    const float* place = positions ? positions + places[row] * size : nullptr;
    float* to = x + row * size;
#pragma omp simd
    for (int64_t d = 0; d < size; ++d) to[d] = from[d] * factor + (place ? place[d] : 0.0f);
  }
}

// post: x = norm(x + change).  pre: x = x + change, and the next sublayer sees norm(x). No change, no norm: x itself.
template <typename Form>
void add_norm_rows(Product<typename Form::In> change, float* x, const float* gain, const float* bias, float eps,
                   bool centred, bool post, Rows<typename Form::Out> seen, int64_t rows) {
  int64_t size = seen.width;
#pragma omp parallel if (rows > 8)
  {
    std::vector<float> buffer(2 * size);
    float *sum = buffer.data(), *normed = sum + size;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      float* own = x + row * size;
      if (change.data) {
        change.fetch(row, 0, size, sum);
#pragma omp simd
        for (int64_t d = 0; d < size; ++d) sum[d] += own[d];
      } else {
        std::copy(own, own + size, sum);
      }
      if (!gain) {
        std::copy(sum, sum + size, own);
        seen.take(row, own);
        continue;
      }
      float total = 0;
      if (centred) {
#pragma omp simd reduction(+ : total)
        for (int64_t d = 0; d < size; ++d) total += sum[d];
      }
      float mean = total / size, square = 0;
#pragma omp simd reduction(+ : square)
      for (int64_t d = 0; d < size; ++d) square += (sum[d] - mean) * (sum[d] - mean);
      float rate = 1.0f / std::sqrt(square / size + eps);
#pragma omp simd
      for (int64_t d = 0; d < size; ++d) normed[d] = (sum[d] - mean) * rate * gain[d] + (bias ? bias[d] : 0.0f);
      const float* next = post ? normed : sum;
      std::copy(next, next + size, own);
      seen.take(row, normed);
    }
  }
}

enum Activation { RELU = 0, GELU = 1, SWIGLU = 2 };

template <typename Form>
void activate_rows(Product<typename Form::In> hidden, int kind, Rows<typename Form::Out> seen, int64_t rows) {
  int64_t size = seen.width;
#pragma omp parallel if (rows > 8)
  {
    std::vector<float> buffer(hidden.width);
    float* h = buffer.data();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      hidden.fetch(row, 0, hidden.width, h);
      if (kind == RELU) {
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) h[i] = std::max(h[i], 0.0f);
      } else if (kind == GELU) {
        for (int64_t i = 0; i < size; ++i) h[i] *= 0.5f * (1.0f + std::erf(h[i] * 0.70710678f));
      } else {
#pragma omp simd
        for (int64_t i = 0; i < size; ++i) h[i] = h[i] / (1.0f + fast_exp(-h[i])) * h[size + i];
      }
      seen.take(row, h);
    }
  }
}

// Keys and values of each row, side by side (2D), into the cache.
template <typename Form>
void keep_rows(Product<typename Form::In> product, int64_t first, typename Form::Kept* kept, int64_t rows,
               int64_t size) {
#pragma omp parallel if (rows > 8)
  {
    std::vector<float> buffer(size);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      product.fetch(row, first, size, buffer.data());
      put(buffer.data(), kept + row * size, nullptr, size);
    }
  }
}

// softmax(q kᵀ · scale) v for each row over its own keys; `key(row, j)` is where its j-th key stands, its value D on.
template <typename Form, typename Key, typename Count>
void attend_rows(Product<typename Form::In> query, Key key, Count count, int64_t longest, float scale,
                 Rows<typename Form::Out> seen, int64_t rows, int64_t heads) {
  using Kept = typename Form::Kept;
  int64_t size = seen.width, head_size = size / heads;
#pragma omp parallel if (rows > 8)
  {
    std::vector<float> buffer(2 * size + heads * longest);
    float *q = buffer.data(), *out = q + size, *weights = out + size;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      query.fetch(row, 0, size, q);
      int64_t keys = count(row);
      for (int64_t j = 0; j < keys; ++j) {
        const Kept* k = key(row, j);
        for (int64_t h = 0; h < heads; ++h) {
          const Kept* k_head = k + h * head_size;
          const float* q_head = q + h * head_size;
          float dot = 0;
#pragma omp simd reduction(+ : dot)
          for (int64_t i = 0; i < head_size; ++i) dot += q_head[i] * read(k_head[i]);
          weights[h * longest + j] = dot * scale;
        }
      }
      for (int64_t h = 0; h < heads; ++h) {
        float* w = weights + h * longest;
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) top = std::max(top, w[j]);
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < keys; ++j) {
          w[j] = fast_exp(w[j] - top);
          sum += w[j];
        }
        float share = 1.0f / sum;
        for (int64_t j = 0; j < keys; ++j) w[j] *= share;
      }
      std::fill(out, out + size, 0.0f);
      for (int64_t j = 0; j < keys; ++j) {
        const Kept* v = key(row, j) + size;
        for (int64_t h = 0; h < heads; ++h) {
          float weight = weights[h * longest + j];
          const Kept* v_head = v + h * head_size;
          float* out_head = out + h * head_size;
#pragma omp simd
          for (int64_t i = 0; i < head_size; ++i) out_head[i] += weight * read(v_head[i]);
        }
      }
      seen.take(row, out);
    }
  }
}

// The `width` best log-probabilities of each row, best first, the lower token first among equals. `barred` tokens are
// never taken, but count in the softmax. Returns whether every row was made of numbers.
template <typename T>
bool best_rows(Product<T> logits, const int64_t* barred, int64_t n_barred, int64_t width, float* best, int64_t* token,
               int64_t rows) {
  const int64_t size = logits.width, step = 64;
  bool numbers = true;
#pragma omp parallel if (rows > 1) reduction(&& : numbers)
  {
    std::vector<float> buffer(size);
    float* line = buffer.data();
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      logits.fetch(row, 0, size, line);
      float top = -INFINITY, sum = 0;
#pragma omp simd reduction(max : top)
      for (int64_t v = 0; v < size; ++v) top = std::max(top, line[v]);
#pragma omp simd reduction(+ : sum)
      for (int64_t v = 0; v < size; ++v) sum += fast_exp(line[v] - top);
      float log_sum = top + std::log(sum);
      numbers = numbers && !std::isnan(log_sum);  // one NaN or +inf among the logits is enough
      for (int64_t i = 0; i < n_barred; ++i) line[barred[i]] = -INFINITY;
      float* own = best + row * width;
      int64_t* chosen = token + row * width;
      std::fill(own, own + width, -INFINITY);
      std::fill(chosen, chosen + width, 0);
      for (int64_t start = 0; start < size; start += step) {
        int64_t end = std::min(size, start + step);
        float highest = -INFINITY;
#pragma omp simd reduction(max : highest)
        for (int64_t v = start; v < end; ++v) highest = std::max(highest, line[v]);
        if (!(highest > own[width - 1])) continue;
        for (int64_t v = start; v < end; ++v) {
          if (!(line[v] > own[width - 1])) continue;
          int64_t place = width - 1;
          for (; place > 0 && own[place - 1] < line[v]; --place) {
            own[place] = own[place - 1];
            chosen[place] = chosen[place - 1];
          }
          own[place] = line[v];
          chosen[place] = v;
        }
      }
      for (int64_t i = 0; i < width; ++i) own[i] -= log_sum;
    }
  }
  return numbers;
}

#ifdef INT8_UNITS
// Bytes times bytes, 16 columns at once: weights stand as [columns / 16][size / 4][16 columns][4], so that one
// instruction takes four places of a row to all 16. `R` rows by `16 N` columns stay in registers.
template <int R, int N>
void tile(const uint8_t* x, int64_t x_width, const int8_t* w, int64_t size, const int32_t* offset, const float* scale,
          float* out, int64_t out_width) {
  __m512i sums[R][N];
  for (int r = 0; r < R; ++r)
    for (int n = 0; n < N; ++n) sums[r][n] = _mm512_setzero_si512();
  for (int64_t k = 0; k < size; k += 4) {
    __m512i columns[N];
    for (int n = 0; n < N; ++n) columns[n] = _mm512_loadu_si512(w + n * size * 16 + k * 16);
    for (int r = 0; r < R; ++r) {
      int32_t four;
      std::memcpy(&four, x + r * x_width + k, 4);
      __m512i row = _mm512_set1_epi32(four);
      for (int n = 0; n < N; ++n) sums[r][n] = _mm512_dpbusd_epi32(sums[r][n], row, columns[n]);
    }
  }
  for (int n = 0; n < N; ++n) {
    __m512i offsets = _mm512_loadu_si512(offset + n * 16);
    __m512 scales = _mm512_loadu_ps(scale + n * 16);
    for (int r = 0; r < R; ++r) {
      __m512 values = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][n], offsets));
      _mm512_storeu_ps(out + r * out_width + n * 16, _mm512_mul_ps(values, scales));
    }
  }
}

using Tile = void (*)(const uint8_t*, int64_t, const int8_t*, int64_t, const int32_t*, const float*, float*, int64_t);
constexpr int TALL = 4, WIDE = 3;
template <int N>
constexpr Tile TILES[TALL] = {tile<1, N>, tile<2, N>, tile<3, N>, tile<4, N>};
#endif

// out_RN = x w: `columns` is a multiple of 16, `size` of 4; `offset` is what the bytes' zero adds to each column.
void int8_product(const uint8_t* x, const int8_t* w, const int32_t* offset, const float* scale, float* out,
                  int64_t rows, int64_t columns, int64_t size) {
#ifdef INT8_UNITS
  int64_t bands = (columns / 16 + WIDE - 1) / WIDE;
#pragma omp parallel for schedule(static) if (rows * columns * size > 65536)
  for (int64_t band = 0; band < bands; ++band) {
    int64_t first = band * WIDE * 16;
    int64_t vectors = std::min<int64_t>(WIDE, (columns - first) / 16);
    for (int64_t row = 0; row < rows; row += TALL) {
      int64_t height = std::min<int64_t>(TALL, rows - row);
      const Tile* tiles = vectors == 3 ? TILES<3> : vectors == 2 ? TILES<2> : TILES<1>;
      tiles[height - 1](x + row * size, size, w + first * size, size, offset + first, scale + first,
                        out + row * columns + first, columns);
    }
  }
#endif
}

}  // namespace

#define PRODUCT_ARGUMENTS const void *data, const float *scale, const float *bias, int64_t width
#define PRODUCT(form) \
  Product<form::In> { static_cast<const form::In*>(data), scale, bias, width }
#define SEEN_ARGUMENTS void *seen, float *seen_scale, int64_t seen_width, int64_t rows
#define SEEN(form) \
  Rows<form::Out> { static_cast<form::Out*>(seen), seen_scale, seen_width }

#define EXPORT(form, suffix)                                                                                         \
  void regard_add_norm_##suffix(PRODUCT_ARGUMENTS, float* x, const float* gain, const float* norm_bias, float eps,   \
                                int centred, int post, SEEN_ARGUMENTS) {                                             \
    add_norm_rows<form>(PRODUCT(form), x, gain, norm_bias, eps, centred, post, SEEN(form), rows);                    \
  }                                                                                                                  \
  void regard_activate_##suffix(PRODUCT_ARGUMENTS, int kind, SEEN_ARGUMENTS) {                                       \
    activate_rows<form>(PRODUCT(form), kind, SEEN(form), rows);                                                      \
  }                                                                                                                  \
  void regard_keep_##suffix(PRODUCT_ARGUMENTS, int64_t first, void* kept, int64_t rows, int64_t size) {              \
    keep_rows<form>(PRODUCT(form), first, static_cast<form::Kept*>(kept), rows, size);                               \
  }                                                                                                                  \
  /* Each row sees the keys of its sentence, which stand together. */                                                \
  void regard_attend_sentence_##suffix(PRODUCT_ARGUMENTS, const void* kept, const int64_t* sentence,                 \
                                       const int64_t* start, const int64_t* length, int64_t longest, float factor,   \
                                       int64_t heads, SEEN_ARGUMENTS) {                                              \
    auto keys = static_cast<const form::Kept*>(kept);                                                                \
    auto key = [=](int64_t row, int64_t j) { return keys + (start[sentence[row]] + j) * 2 * seen_width; };           \
    auto count = [=](int64_t row) { return length[sentence[row]]; };                                                 \
    attend_rows<form>(PRODUCT(form), key, count, longest, factor, SEEN(form), rows, heads);                          \
  }                                                                                                                  \
  /* Each row sees its own past: at time t it stood in row table[row, t] of the keys kept then. */                   \
  void regard_attend_past_##suffix(PRODUCT_ARGUMENTS, const uint64_t* kept, const int64_t* table,                    \
                                   int64_t table_width, int64_t length, float factor, int64_t heads,                 \
                                   SEEN_ARGUMENTS) {                                                                 \
    auto key = [=](int64_t row, int64_t t) {                                                                         \
      return reinterpret_cast<const form::Kept*>(kept[t]) + table[row * table_width + t] * 2 * seen_width;           \
    };                                                                                                               \
    auto count = [=](int64_t) { return length; };                                                                    \
    attend_rows<form>(PRODUCT(form), key, count, length, factor, SEEN(form), rows, heads);                           \
  }                                                                                                                  \
  int regard_best_##suffix(PRODUCT_ARGUMENTS, const int64_t* barred, int64_t n_barred, int64_t best_width,           \
                           float* best, int64_t* token, int64_t rows) {                                              \
    return best_rows(PRODUCT(form), barred, n_barred, best_width, best, token, rows);                                \
  }

extern "C" {
EXPORT(Float32, float32)
EXPORT(Bfloat16, bfloat16)
EXPORT(Int8, int8)
void regard_embed(const int64_t* tokens, const float* table, const float* positions, const int64_t* places,
                  float factor, float* x, int64_t rows, int64_t size) {
  embed_rows(tokens, table, positions, places, factor, x, rows, size);
}
int regard_int8_units() {
#ifdef INT8_UNITS
  return 1;
#else
  return 0;
#endif
}
void regard_int8_product(const uint8_t* x, const int8_t* w, const int32_t* offset, const float* scale, float* out,
                         int64_t rows, int64_t columns, int64_t size) {
  int8_product(x, w, offset, scale, out, rows, columns, size);
}
}
