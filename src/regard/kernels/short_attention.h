// Attention among few tokens, forward and backward, one head of one sentence at a time and never leaving the cache.
//
// PyTorch's way is a dozen passes over memory: heads are copied together for its batched products, scores are written,
// masked, exponentiated, dropped. Here a head's rows are read where the projection left them, and written where the
// next product wants them.
#pragma once

#include "common.h"

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
  int dropout_threshold;  // of the dropout of the weights
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

// Brings what the same head of the next sentence will ask for: a head's rows lie too far apart for the processor to
// foresee it. Beyond the last sentence nothing is read, and asking does no harm.
template <int WRITING, typename T>
void prefetch(const T* next, int64_t size) {
  for (int64_t i = 0; i < size; i += 64 / sizeof(T)) __builtin_prefetch(next + i, WRITING, 2);
}

// Takes `count` rows of `size` numbers. `next` further on are the same of the next sentence.
template <typename T>
void gather(const T* from, int64_t stride, int64_t next, int64_t count, int64_t size, Scratch& to) {
  for (int64_t r = 0; r < count; ++r) {
    prefetch<0>(from + r * stride + next, size);
    load(from + r * stride, to.row(r), size);
  }
}

template <typename T>
void scatter(Scratch& from, T* to, int64_t stride, int64_t count, int64_t size) {
  for (int64_t r = 0; r < count; ++r) {
    prefetch<1>(to + (r + count) * stride, size);
    store(from.row(r), to + r * stride, size);
  }
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
void gather_transposed(const T* from, int64_t stride, int64_t next, int64_t count, int64_t size, Scratch& to) {
  for (int64_t r = 0; r < count; r += LANES) {
    const int64_t rows = std::min<int64_t>(LANES, count - r);
    for (int64_t row = 0; row < rows; ++row) prefetch<0>(from + (r + row) * stride + next, size);
    for (int64_t i = 0; i < size; i += LANES) {
      const int64_t columns = std::min<int64_t>(LANES, size - i);
      Floats block[LANES] = {};
      for (int64_t row = 0; row < rows; ++row) {
        const T* source = from + (r + row) * stride + i;
        if (columns == LANES) {
          block[row] = read_vector(source);
        } else {
          for (int64_t lane = 0; lane < columns; ++lane) block[row][lane] = read(source[lane]);
        }
      }
      transpose(block);
      for (int64_t column = 0; column < columns; ++column) {
        *reinterpret_cast<Floats*>(to.row(i + column) + r) = block[column];
      }
    }
  }
}

#if defined(__AVX512F__)
constexpr int WIDEST = 4, TALL_UP_TO = 2;  // 16 of the 32 registers hold sums
#else
constexpr int WIDEST = 1, TALL_UP_TO = 0;
#endif

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
    const Floats* part = reinterpret_cast<const Floats*>(b + t * b_row);
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
    for (int j = 0; j < WIDTH; ++j) reinterpret_cast<Floats*>(out + i * out_row)[j] = sums[i][j];
  }
}

template <int WIDTH>
void multiply_columns(Factors a, int64_t rows, const float* b, int64_t b_row, int64_t steps, float* out,
                      int64_t out_row) {
  for (int64_t i = 0; i < rows;) {
    const Factors here = {a.data + i * a.row, a.row, a.step};
    if (WIDTH <= TALL_UP_TO && i + 4 < rows) {
      multiply_tile<8, WIDTH>(here, b, b_row, steps, out + i * out_row, out_row);
      i += 8;
    } else {
      multiply_tile<4, WIDTH>(here, b, b_row, steps, out + i * out_row, out_row);
      i += 4;
    }
  }
}

// out = a b. Rows are made in eights at most: those beyond `rows` come out as they come.
inline void multiply(Factors a, int64_t rows, Scratch& b, int64_t steps, Scratch& out) {
  for (int64_t j = 0; j < b.columns; j += WIDEST * LANES) {
    const float* part = b.row(0) + j;
    float* to = out.row(0) + j;
    switch (std::min<int64_t>(WIDEST, (b.columns - j) / LANES)) {
      case 1: multiply_columns<1>(a, rows, part, b.columns, steps, to, out.columns); break;
      case 2: multiply_columns<2>(a, rows, part, b.columns, steps, to, out.columns); break;
      case 3: multiply_columns<3>(a, rows, part, b.columns, steps, to, out.columns); break;
      default: multiply_columns<4>(a, rows, part, b.columns, steps, to, out.columns);
    }
  }
}

inline Factors rows_of(Scratch& matrix) { return {matrix.row(0), matrix.columns, 1}; }
inline Factors columns_of(Scratch& matrix) { return {matrix.row(0), 1, matrix.columns}; }

// What the scores of a sentence may be at most: −∞ where a query may not look, and beyond the last key.
class Bounds {
 public:
  Bounds(const AttentionMask& mask, int64_t queries, int64_t keys)
      : mask_(mask), keys_(keys), rows_(mask.data && mask.query ? queries : 1), bounds_(rows_, keys) {}

  const float* row(int64_t sentence, int64_t query) {
    if (sentence != prepared_ && (prepared_ < 0 || mask_.sentence)) prepare(sentence);
    return bounds_.row(rows_ > 1 ? query : 0);
  }

 private:
  void prepare(int64_t sentence) {
    for (int64_t query = 0; query < rows_; ++query) {
      const uint8_t* mask = mask_.data + sentence * mask_.sentence + query * mask_.query;
      float* line = bounds_.row(query);
      std::fill_n(line, bounds_.columns, -INFINITY);
      for (int64_t m = 0; m < keys_; ++m) {
        if (mask_.data == nullptr || mask[m * mask_.key]) line[m] = INFINITY;
      }
    }
    prepared_ = sentence;
  }

  AttentionMask mask_;
  int64_t keys_, rows_, prepared_ = -1;
  Scratch bounds_;
};

// weights_BHLM = softmax(q kᵀ · scale), M up to a whole vector; out_BLHK = dropout(weights) v.
template <typename T>
void attend(const AttentionCall<T>& c, T* weights, T* out) {
  const int64_t L = c.queries, M = c.keys, K = c.size, width = c.heads * K;
#pragma omp parallel
  {
    Scratch q(L, K), k_columns(K, M), v(M, K), scores(L, M), mixed(L, K);
    RowDropout dropout(c.dropout_threshold, c.seed, M);
    Bounds bounds(c.mask, L, M);
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.of(b, h), c.q.row, c.q.sentence, L, K, q);
        gather_transposed(c.k.of(b, h), c.k.row, c.k.sentence, M, K, k_columns);
        gather(c.v.of(b, h), c.v.row, c.v.sentence, M, K, v);
        multiply(rows_of(q), L, k_columns, K, scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          float* line = scores.row(l);
          const float* bound = bounds.row(b, l);
          dropout.sample(row);
          for (int64_t m = 0; m < scores.columns; m += LANES) {
            const Floats score = read_vector(line + m) * c.scale, most = read_vector(bound + m);
            write_vector(score < most ? score : most, line + m);  // so that a NaN is suppressed too
          }
          softmax(line, scores.columns);
          store(line, weights + row * scores.columns, scores.columns);
          for (int64_t m = 0; m < scores.columns; m += LANES) {
            write_vector(read_vector(line + m) * dropout.factors(m), line + m);
          }
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
    RowDropout dropout(c.dropout_threshold, c.seed, M);
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.of(b, h), c.q.row, c.q.sentence, L, K, q);
        gather(c.k.of(b, h), c.k.row, c.k.sentence, M, K, k);
        gather_transposed(c.v.of(b, h), c.v.row, c.v.sentence, M, K, v_columns);
        gather(grad_out + b * L * width + h * K, width, L * width, L, K, grad);
        multiply(rows_of(grad), L, v_columns, K, by_scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          dropout.sample(row);
          const T* weight = weights + row * kept.columns;
          float *line = by_scores.row(l), *dropped = kept.row(l);
          Floats sums = {};
          for (int64_t m = 0; m < kept.columns; m += LANES) {
            const Floats by_weight = read_vector(line + m) * dropout.factors(m);
            sums += by_weight * read_vector(weight + m);
            write_vector(by_weight, line + m);
            write_vector(read_vector(weight + m) * dropout.factors(m), dropped + m);
          }
          const float mean = total(sums);
          for (int64_t m = 0; m < kept.columns; m += LANES) {
            write_vector(read_vector(weight + m) * (read_vector(line + m) - mean) * c.scale, line + m);
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
