// Attention over short sequences, forward and backward:
//
//   W = softmax(q kᵀ · scale, where mask),   out = dropout(W) v
//   dW = (dout vᵀ) · dropout factors,   dS = W · (dW − Σ dW · W) · scale
//   dq = dS k,   dk = dSᵀ q,   dv = dropout(W)ᵀ dout
//
// One head of one sentence at a time, in the cache. PyTorch needs a dozen passes over memory: it copies the heads together
// for its batched products, then writes, masks, exponentiates and drops the scores. Here a head's rows are read where the
// projection left them and written where the next product reads them.
//
// Called through training.cpp by core/attention/short.py; the PyTorch fallback is reference_attention.
#pragma once

#include "gemm.h"

struct AttentionMask {
  const uint8_t* data;  // 1: the key is visible; null: all are
  int64_t sentence_stride, query_stride, key_stride;
};

template <typename T>
struct AttentionCall {
  HeadRows<T> q, k, v;
  AttentionMask mask;
  int64_t sentences, heads, queries, keys, size;
  float scale;
  int32_t dropout_threshold;
  uint64_t seed;
};

// Prefetches the same head of the next sentence: a head's rows are too far apart for the hardware prefetcher. Beyond the
// last sentence a prefetch does no harm.
template <int WRITE, typename T>
void prefetch(const T* next, int64_t size) {
  for (int64_t i = 0; i < size; i += 64 / sizeof(T)) __builtin_prefetch(next + i, WRITE, 2);
}

// Loads `count` rows of `size` numbers; the next sentence's are `next` further on.
template <typename T>
void gather(const T* from, int64_t stride, int64_t next, int64_t count, int64_t size, Matrix& to) {
  for (int64_t r = 0; r < count; ++r) {
    prefetch<0>(from + r * stride + next, size);
    convert_row(from + r * stride, to.row(r), size);
  }
}

template <typename T>
void scatter(Matrix& from, T* to, int64_t stride, int64_t count, int64_t size) {
  for (int64_t r = 0; r < count; ++r) {
    prefetch<1>(to + (r + count) * stride, size);
    convert_row(from.row(r), to + r * stride, size);
  }
}

// Transposes 16 × 16 numbers: swaps halves, then quarters, eighths and single numbers.
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
      const float swapped = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = swapped;
    }
  }
#endif
}

// Loads `count` rows of `size` numbers as columns.
template <typename T>
void gather_transposed(const T* from, int64_t stride, int64_t next, int64_t count, int64_t size, Matrix& to) {
  for (int64_t r = 0; r < count; r += LANES) {
    const int64_t rows = std::min<int64_t>(LANES, count - r);
    for (int64_t row = 0; row < rows; ++row) prefetch<0>(from + (r + row) * stride + next, size);
    for (int64_t i = 0; i < size; i += LANES) {
      const int64_t columns = std::min<int64_t>(LANES, size - i);
      Floats block[LANES] = {};
      for (int64_t row = 0; row < rows; ++row) {
        const T* source = from + (r + row) * stride + i;
        if (columns == LANES) {
          block[row] = load_vector(source);
        } else {
          for (int64_t lane = 0; lane < columns; ++lane) block[row][lane] = to_float(source[lane]);
        }
      }
      transpose(block);
      for (int64_t column = 0; column < columns; ++column) {
        *reinterpret_cast<Floats*>(to.row(i + column) + r) = block[column];
      }
    }
  }
}

// Upper bounds of a sentence's scores: −∞ where a key is masked and beyond the last key, else +∞.
class ScoreBounds {
 public:
  ScoreBounds(const AttentionMask& mask, int64_t queries, int64_t keys)
      : mask_(mask), keys_(keys), rows_(mask.data && mask.query_stride ? queries : 1), bounds_(rows_, keys) {}

  const float* row(int64_t sentence, int64_t query) {
    if (sentence != prepared_ && (prepared_ < 0 || mask_.sentence_stride)) prepare(sentence);
    return bounds_.row(rows_ > 1 ? query : 0);
  }

 private:
  void prepare(int64_t sentence) {
    for (int64_t query = 0; query < rows_; ++query) {
      float* line = bounds_.row(query);
      std::fill_n(line, bounds_.columns, -INFINITY);
      if (mask_.data == nullptr) {
        std::fill_n(line, keys_, INFINITY);
        continue;
      }
      const uint8_t* mask = mask_.data + sentence * mask_.sentence_stride + query * mask_.query_stride;
      for (int64_t m = 0; m < keys_; ++m) {
        if (mask[m * mask_.key_stride]) line[m] = INFINITY;
      }
    }
    prepared_ = sentence;
  }

  AttentionMask mask_;
  int64_t keys_, rows_, prepared_ = -1;
  Matrix bounds_;
};

// A thread's working memory, forward.
template <typename T>
struct AttentionMatrices {
  explicit AttentionMatrices(const AttentionCall<T>& c)
      : q(c.queries, c.size), k_columns(c.size, c.keys), v(c.keys, c.size), scores(c.queries, c.keys),
        mixed(c.queries, c.size), dropout(c.dropout_threshold, c.seed, c.keys), bounds(c.mask, c.queries, c.keys) {}
  void clear() {
    for (Matrix* matrix : {&q, &k_columns, &v, &scores, &mixed}) matrix->clear();
  }

  Matrix q, k_columns, v, scores, mixed;
  RowDropout dropout;
  ScoreBounds bounds;
};

// weights_BHLM, M up to a whole vector; out_BLHK.
template <typename T>
void attend(const AttentionCall<T>& c, T* weights, T* out) {
  const int64_t L = c.queries, M = c.keys, K = c.size, width = c.heads * K;
  const PerThread<AttentionMatrices<T>> threads(c);
#pragma omp parallel
  {
    AttentionMatrices<T>& own = threads.current();
    own.clear();
    Matrix &q = own.q, &k_columns = own.k_columns, &v = own.v, &scores = own.scores, &mixed = own.mixed;
    RowDropout& dropout = own.dropout;
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.head_of(b, h), c.q.row_stride, c.q.sentence_stride, L, K, q);
        gather_transposed(c.k.head_of(b, h), c.k.row_stride, c.k.sentence_stride, M, K, k_columns);
        gather(c.v.head_of(b, h), c.v.row_stride, c.v.sentence_stride, M, K, v);
        multiply(rows_of(q), L, k_columns, K, scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          float* line = scores.row(l);
          const float* bound = own.bounds.row(b, l);
          dropout.sample(row);
          for (int64_t m = 0; m < scores.columns; m += LANES) {
            // A NaN becomes its bound: −∞ where masked; else +∞, which makes the row NaN in the softmax.
            const Floats score = load_vector(line + m) * c.scale, most = load_vector(bound + m);
            store_vector(score < most ? score : most, line + m);
          }
          softmax(line, scores.columns);
          convert_row(line, weights + row * scores.columns, scores.columns);
          for (int64_t m = 0; m < scores.columns; m += LANES) {
            store_vector(load_vector(line + m) * dropout.factors(m), line + m);
          }
        }
        multiply(rows_of(scores), L, v, M, mixed);
        scatter(mixed, out + b * L * width + h * K, width, L, K);
      }
    }
  }
}

// Masked scores have no gradient, not even in a row that is NaN.
inline void zero_masked(float* line, const float* bounds, int64_t keys) {
  for (int64_t m = 0; m < keys; ++m) {
    if (bounds[m] < 0) line[m] = 0;
  }
}

// A thread's working memory, backward.
template <typename T>
struct AttentionGradients {
  explicit AttentionGradients(const AttentionCall<T>& c)
      : q(c.queries, c.size), k(c.keys, c.size), v_columns(c.size, c.keys), grad(c.queries, c.size),
        dropped(c.queries, c.keys), by_scores(c.queries, c.keys), by_q(c.queries, c.size), by_memory(c.keys, c.size),
        dropout(c.dropout_threshold, c.seed, c.keys), bounds(c.mask, c.queries, c.keys) {}
  void clear() {
    for (Matrix* matrix : {&q, &k, &v_columns, &grad, &dropped, &by_scores, &by_q, &by_memory}) matrix->clear();
  }

  Matrix q, k, v_columns, grad, dropped, by_scores, by_q, by_memory;
  RowDropout dropout;
  ScoreBounds bounds;
};

// Gradients by q, k and v, as BLHK and BMHK, from the weights that the forward pass saved and its dropout computed again.
template <typename T>
void attend_backward(const AttentionCall<T>& c, const T* weights, const T* grad_out, T* grad_q, T* grad_k, T* grad_v) {
  const int64_t L = c.queries, M = c.keys, K = c.size, width = c.heads * K;
  const PerThread<AttentionGradients<T>> threads(c);
#pragma omp parallel
  {
    AttentionGradients<T>& own = threads.current();
    own.clear();
    Matrix &q = own.q, &k = own.k, &v_columns = own.v_columns, &grad = own.grad, &dropped = own.dropped;
    Matrix &by_scores = own.by_scores, &by_q = own.by_q, &by_memory = own.by_memory;
    RowDropout& dropout = own.dropout;
#pragma omp for collapse(2) schedule(static)
    for (int64_t b = 0; b < c.sentences; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        gather(c.q.head_of(b, h), c.q.row_stride, c.q.sentence_stride, L, K, q);
        gather(c.k.head_of(b, h), c.k.row_stride, c.k.sentence_stride, M, K, k);
        gather_transposed(c.v.head_of(b, h), c.v.row_stride, c.v.sentence_stride, M, K, v_columns);
        gather(grad_out + b * L * width + h * K, width, L * width, L, K, grad);
        multiply(rows_of(grad), L, v_columns, K, by_scores);
        for (int64_t l = 0; l < L; ++l) {
          const int64_t row = (b * c.heads + h) * L + l;
          dropout.sample(row);
          const T* weight = weights + row * dropped.columns;
          float *line = by_scores.row(l), *dropped_line = dropped.row(l);
          Floats sums = {};
          for (int64_t m = 0; m < dropped.columns; m += LANES) {
            const Floats by_weight = load_vector(line + m) * dropout.factors(m);
            sums += by_weight * load_vector(weight + m);
            store_vector(by_weight, line + m);
            store_vector(load_vector(weight + m) * dropout.factors(m), dropped_line + m);
          }
          const float mean = reduce_add(sums);
          for (int64_t m = 0; m < dropped.columns; m += LANES) {
            store_vector(load_vector(weight + m) * (load_vector(line + m) - mean) * c.scale, line + m);
          }
          if (std::isnan(mean)) zero_masked(line, own.bounds.row(b, l), M);
        }
        multiply(rows_of(by_scores), L, k, M, by_q);
        scatter(by_q, grad_q + b * L * width + h * K, width, L, K);
        multiply(columns_of(by_scores), M, q, L, by_memory);
        scatter(by_memory, grad_k + b * M * width + h * K, width, M, K);
        multiply(columns_of(dropped), M, grad, L, by_memory);
        scatter(by_memory, grad_v + b * M * width + h * K, width, M, K);
      }
    }
  }
}
