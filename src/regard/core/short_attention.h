// Attention among few tokens, forward and backward, one head of one sentence at a time and never leaving the cache.
//
// PyTorch's way is a dozen passes over memory: heads are copied together for its batched products, scores are written,
// masked, exponentiated, dropped. Here a head's rows are read where the projection left them, and written where the
// next product wants them.
#pragma once

#include "native.h"

// Element (sentence, head, row, i) stands at data + the strides of the first three + i.
template <typename T>
struct HeadRows {
  const T* data;
  int64_t sentence, head, row;
};

struct AttentionMask {
  const uint8_t* data;  // 1: may be looked at; null: all
  int64_t sentence, query, key;
};

template <typename T>
struct AttentionCall {
  HeadRows<T> q, k, v;
  AttentionMask mask;
  int64_t sentences, heads, queries, keys, size;
  float scale;
  int threshold;  // of the dropout of the weights
  uint64_t seed;
};

// A matrix of float32 with rows of whole vectors, and rows to spare for the last tile of a product.
struct Scratch {
  Scratch(int64_t rows, int64_t columns)
      : columns(in_groups(columns)), numbers(reserve<float>(in_groups(rows, 8) * this->columns)) {
    std::fill_n(numbers.get(), in_groups(rows, 8) * this->columns, 0.0f);
  }
  float* row(int64_t number) { return numbers.get() + number * columns; }

  int64_t columns;

 private:
  Memory<float> numbers;
};

// The next head's row stands behind this one's in most layouts. Rows lie too far apart for the processor to guess it.
template <typename T>
void expect_next(const T* row, int64_t size) {
  for (int64_t i = 0; i < size; i += 64 / sizeof(T)) __builtin_prefetch(row + size + i);
}

// Takes `count` rows of `size` numbers.
template <typename T>
void gather(const T* from, int64_t stride, int64_t count, int64_t size, Scratch& to) {
  for (int64_t r = 0; r < count; ++r) {
    expect_next(from + r * stride, size);
    fetch(from + r * stride, to.row(r), size);
  }
}

template <typename T>
void scatter(Scratch& from, T* to, int64_t stride, int64_t count, int64_t size) {
  for (int64_t r = 0; r < count; ++r) keep(from.row(r), to + r * stride, size);
}

// Sixteen rows become sixteen columns: halves change places, then quarters, eighths and single numbers.
inline void transpose(Floats (&rows)[LANES]) {
#if defined(__AVX512F__)
#pragma GCC unroll 4
  for (int apart = LANES / 2; apart > 0; apart /= 2) {
    int upper[LANES], lower[LANES];
    for (int lane = 0; lane < LANES; ++lane) {
      upper[lane] = lane & apart ? LANES + lane - apart : lane;
      lower[lane] = lane & apart ? LANES + lane : lane + apart;
    }
    const __m512i first = _mm512_loadu_si512(upper), second = _mm512_loadu_si512(lower);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) {
      if (i & apart) continue;
      const __m512 one = __m512(rows[i]), other = __m512(rows[i + apart]);
      rows[i] = Floats(_mm512_permutex2var_ps(one, first, other));
      rows[i + apart] = Floats(_mm512_permutex2var_ps(one, second, other));
    }
  }
#else
  for (int i = 0; i < LANES; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = kept;
    }
  }
#endif
}

// Takes `count` rows of `size` numbers as columns.
template <typename T>
void gather_transposed(const T* from, int64_t stride, int64_t count, int64_t size, Scratch& to) {
  for (int64_t r = 0; r < count; r += LANES) {
    const int64_t rows = std::min<int64_t>(LANES, count - r);
    for (int64_t row = 0; row < rows; ++row) expect_next(from + (r + row) * stride, size);
    for (int64_t i = 0; i < size; i += LANES) {
      const int64_t columns = std::min<int64_t>(LANES, size - i);
      Floats block[LANES] = {};
      for (int64_t row = 0; row < rows; ++row) {
        const T* source = from + (r + row) * stride + i;
        if (columns == LANES) {
          for (int lane = 0; lane < LANES; ++lane) block[row][lane] = read(source[lane]);
        } else {
          for (int64_t lane = 0; lane < columns; ++lane) block[row][lane] = read(source[lane]);
        }
      }
      transpose(block);
      for (int64_t column = 0; column < columns; ++column) {
        *reinterpret_cast<LooseFloats*>(to.row(i + column) + r) = block[column];
      }
    }
  }
}

// Rows of factors: (i, t) stands at data + i · row + t · step.
struct Factors {
  const float* data;
  int64_t row, step;
};

// ROWS rows and WIDTH vectors of a b, whose sums stay in registers.
template <int ROWS, int WIDTH>
void multiply_tile(Factors a, const float* b, int64_t b_row, int64_t steps, float* out, int64_t out_row) {
  Floats sums[ROWS][WIDTH];
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < WIDTH; ++j) sums[i][j] = Floats{};
  }
  for (int64_t t = 0; t < steps; ++t) {
    const LooseFloats* part = reinterpret_cast<const LooseFloats*>(b + t * b_row);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; ++i) {
      const float factor = a.data[i * a.row + t * a.step];
#pragma GCC unroll 4
      for (int j = 0; j < WIDTH; ++j) sums[i][j] += factor * part[j];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < WIDTH; ++j) reinterpret_cast<LooseFloats*>(out + i * out_row)[j] = sums[i][j];
  }
}

template <int WIDTH>
void multiply_columns(Factors a, int64_t rows, const float* b, int64_t b_row, int64_t steps, float* out,
                      int64_t out_row) {
  constexpr int64_t TALL = WIDTH > 2 ? 4 : 8;
  int64_t i = 0;
  for (; i + 4 < rows; i += TALL) {
    multiply_tile<TALL, WIDTH>({a.data + i * a.row, a.row, a.step}, b, b_row, steps, out + i * out_row, out_row);
  }
  for (; i < rows; i += 4) {
    multiply_tile<4, WIDTH>({a.data + i * a.row, a.row, a.step}, b, b_row, steps, out + i * out_row, out_row);
  }
}

// out = a b. Rows are made in eights at most: those beyond `rows` come out as they come.
inline void multiply(Factors a, int64_t rows, Scratch& b, int64_t steps, Scratch& out) {
  for (int64_t j = 0; j < b.columns; j += 4 * LANES) {
    const float* part = b.row(0) + j;
    float* to = out.row(0) + j;
    switch (std::min<int64_t>(4, (b.columns - j) / LANES)) {
      case 1: multiply_columns<1>(a, rows, part, b.columns, steps, to, out.columns); break;
      case 2: multiply_columns<2>(a, rows, part, b.columns, steps, to, out.columns); break;
      case 3: multiply_columns<3>(a, rows, part, b.columns, steps, to, out.columns); break;
      default: multiply_columns<4>(a, rows, part, b.columns, steps, to, out.columns);
    }
  }
}

inline Factors rows_of(Scratch& matrix) { return {matrix.row(0), matrix.columns, 1}; }
inline Factors columns_of(Scratch& matrix) { return {matrix.row(0), 1, matrix.columns}; }

// What is added to the scores of a sentence: 0 where a query may look, −∞ where not and beyond the last key.
class Barred {
 public:
  Barred(const AttentionMask& mask, int64_t queries, int64_t keys)
      : mask_(mask), keys_(keys), rows_(mask.data && mask.query ? queries : 1), sums_(rows_, keys) {}

  const float* row(int64_t sentence, int64_t query) {
    if (sentence != prepared_ && (prepared_ < 0 || mask_.sentence)) prepare(sentence);
    return sums_.row(rows_ > 1 ? query : 0);
  }

 private:
  void prepare(int64_t sentence) {
    for (int64_t query = 0; query < rows_; ++query) {
      const uint8_t* mask = mask_.data + sentence * mask_.sentence + query * mask_.query;
      float* line = sums_.row(query);
      std::fill(line, line + sums_.columns, -INFINITY);
      for (int64_t m = 0; m < keys_; ++m) {
        if (mask_.data == nullptr || mask[m * mask_.key]) line[m] = 0.0f;
      }
    }
    prepared_ = sentence;
  }

  AttentionMask mask_;
  int64_t keys_, rows_, prepared_ = -1;
  Scratch sums_;
};

// Scores become weights that add up to 1; NaN, as in PyTorch, where nothing may be looked at. Whole vectors.
inline void softmax(float* scores, float scale, const float* barred, int64_t lanes) {
  float top = -INFINITY, sum = 0;
#pragma omp simd reduction(max : top)
  for (int64_t m = 0; m < lanes; ++m) {
    scores[m] = scores[m] * scale + barred[m];
    top = std::max(top, scores[m]);
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t m = 0; m < lanes; ++m) {
    const float below = scores[m] - top, weight = fast_exp(below);
    scores[m] = below < -87.0f ? 0.0f : weight;
    sum += scores[m];
  }
  const float rate = 1.0f / sum;
#pragma omp simd
  for (int64_t m = 0; m < lanes; ++m) scores[m] *= rate;
}

// weights_BHLM = softmax(q kᵀ · scale), out_BLHK = dropout(weights) v.
template <typename T>
void attend(const AttentionCall<T>& c, T* weights, T* out) {
  const int64_t L = c.queries, M = c.keys, K = c.size, width = c.heads * K;
#pragma omp parallel
  {
    Scratch q(L, K), k_columns(K, M), v(M, K), scores(L, M), mixed(L, K);
    RowDropout dropout(c.threshold, c.seed, M);
    Barred barred(c.mask, L, M);
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.data + b * c.q.sentence + h * c.q.head, c.q.row, L, K, q);
        gather_transposed(c.k.data + b * c.k.sentence + h * c.k.head, c.k.row, M, K, k_columns);
        gather(c.v.data + b * c.v.sentence + h * c.v.head, c.v.row, M, K, v);
        multiply(rows_of(q), L, k_columns, K, scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          float* line = scores.row(l);
          softmax(line, c.scale, barred.row(b, l), scores.columns);
          const float* factors = dropout.factors(row);
          keep(line, weights + row * M, M);
#pragma omp simd
          for (int64_t m = 0; m < scores.columns; ++m) line[m] *= factors[m];
        }
        multiply(rows_of(scores), L, v, M, mixed);
        scatter(mixed, out + b * L * width + h * K, width, L, K);
      }
    }
  }
}

// Gradients by q, k and v, as BLHK and BMHK, from the weights that the forward pass kept and the mask drawn again.
template <typename T>
void attend_backward(const AttentionCall<T>& c, const T* weights, const T* grad_out, T* grad_q, T* grad_k, T* grad_v) {
  const int64_t L = c.queries, M = c.keys, K = c.size, width = c.heads * K;
#pragma omp parallel
  {
    Scratch q(L, K), k(M, K), v_columns(K, M), grad(L, K), kept(L, M), by_scores(L, M), by_q(L, K), by_memory(M, K);
    RowDropout dropout(c.threshold, c.seed, M);
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.data + b * c.q.sentence + h * c.q.head, c.q.row, L, K, q);
        gather(c.k.data + b * c.k.sentence + h * c.k.head, c.k.row, M, K, k);
        gather_transposed(c.v.data + b * c.v.sentence + h * c.v.head, c.v.row, M, K, v_columns);
        gather(grad_out + b * L * width + h * K, width, L, K, grad);
        multiply(rows_of(grad), L, v_columns, K, by_scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          const float* factors = dropout.factors(row);
          const T* weight = weights + row * M;
          float *line = by_scores.row(l), *dropped = kept.row(l), mean = 0;
          fetch(weight, dropped, M);
#pragma omp simd reduction(+ : mean)
          for (int64_t m = 0; m < kept.columns; ++m) mean += line[m] * factors[m] * dropped[m];
#pragma omp simd
          for (int64_t m = 0; m < kept.columns; ++m) {
            line[m] = dropped[m] * (line[m] * factors[m] - mean) * c.scale;
            dropped[m] *= factors[m];
          }
        }
        multiply(rows_of(by_scores), L, k, M, by_q);
        scatter(by_q, grad_q + b * L * width + h * K, width, L, K);
        multiply(columns_of(by_scores), M, q, L, by_memory);
        scatter(by_memory, grad_k + b * M * width + h * K, width, M, K);
        multiply(columns_of(kept), M, grad, L, by_memory);
        scatter(by_memory, grad_v + b * M * width + h * K, width, M, K);
      }
    }
  }
}
