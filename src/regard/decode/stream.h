// One pass of some rows through a stack of layers, and the room that it takes.
// Shapes: R rows, D model, F feed-forward, N columns of a product.
#pragma once

#include <mutex>

#include "attention.h"
#include "model.h"

// Room that is used again at every step and, since fresh memory is dear, by search after search. Rows are taken through
// the products a few at a time, so that what lies between two products is still in the cache.
template <typename Form>
struct Bench {
  static constexpr int64_t AT_ONCE = 96;
  Rows<Form> seen, between;
  Buffer<float> x, row, qkv, made, change;
  Attending<KeptAs<Form>> attending;
  std::vector<Memory<char>> blocks;  // for keys and values
};

// The benches that nobody works at.
template <typename Form>
class Workshop {
 public:
  std::unique_ptr<Bench<Form>> take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::make_unique<Bench<Form>>();
    auto bench = std::move(free_.back());
    free_.pop_back();
    return bench;
  }
  void give_back(std::unique_ptr<Bench<Form>> bench) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(bench));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bench<Form>>> free_;
};

template <typename Form>
class Stream {
 public:
  Stream(const Model<Form>& model, Bench<Form>& bench) : model(model), D(model.sizes.d_model), bench(bench) {}

  // x_RD = embedding · scale + position, but for rotary ones; the first sublayer sees it, normed if pre-norm.
  void begin(const int64_t* ids, const int64_t* places, int64_t count, const float* table, const float* positions,
             const Norm& first) {
    rows = count;
    places_ = places;
    positions_ = positions;
    bench.x.at_least(rows * D);
    bench.row.at_least(2 * D);
    bench.seen.resize(rows, D);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = table + ids[r] * D;
      float* x = bench.x.get() + r * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) x[d] = from[d] * model.scale;
      if (positions && !model.sizes.rotary) {
        const float* place = positions + places[r] * D;
#pragma omp simd
        for (int64_t d = 0; d < D; ++d) x[d] += place[d];
      }
      show(r, x, model.sizes.post ? Norm{} : first);
    }
  }

  // made_RN = seen W: what the sublayer looks at first.
  const float* project(const Product<Form>& product) {
    float* made = bench.made.at_least(rows * product.padded);
    product(bench.seen, 0, rows, made);
    return made;
  }

  // What self-attention looks with: queries, keys and values, the rows `padded` apart.
  float* queries_keys_values(const Product<Form>& product) {
    float* qkv = bench.qkv.at_least(rows * product.padded);
    product(bench.seen, 0, rows, qkv);
    if (model.sizes.rotary) {
      const int64_t K = D / model.sizes.n_heads;
      for (int64_t r = 0; r < rows; ++r) {
        const float* cosines_and_sines = positions_ + places_[r] * K;
        for (float* head = qkv + r * product.padded; head < qkv + r * product.padded + 2 * D; head += K) {
          turn(head, head, K, cosines_and_sines, cosines_and_sines + K / 2);
        }
      }
    }
    return qkv;
  }

  // Each row's attention, `mix(row, out)`, through W_O, onto the stream.
  template <typename Mix>
  void attend(const Product<Form>& out, const Norm& after, Mix mix) {
    bench.between.resize(rows, D);
    float* mixed = bench.row.get();
    for (int64_t r = 0; r < rows; ++r) {
      mix(r, mixed);
      bench.between.take(r, mixed);
    }
    float* change = bench.change.at_least(Bench<Form>::AT_ONCE * out.padded);
    for (int64_t first = 0; first < rows; first += Bench<Form>::AT_ONCE) {
      int64_t count = std::min(Bench<Form>::AT_ONCE, rows - first);
      out(bench.between, first, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * out.padded, after);
    }
  }

  void feed_forward(const FeedForward<Form>& ffn, const Norm& after) {
    const auto kind = static_cast<Activation>(model.sizes.activation);
    const int64_t up = ffn.up.columns;
    bench.between.resize(Bench<Form>::AT_ONCE, model.sizes.d_ff);
    float* hidden = bench.made.at_least(Bench<Form>::AT_ONCE * ffn.up.padded);
    float* change = bench.change.at_least(Bench<Form>::AT_ONCE * ffn.down.padded);
    for (int64_t first = 0; first < rows; first += Bench<Form>::AT_ONCE) {
      int64_t count = std::min(Bench<Form>::AT_ONCE, rows - first);
      ffn.up(bench.seen, first, count, hidden, kind == RELU);
      for (int64_t r = 0; r < count; ++r) {
        activate(hidden + r * ffn.up.padded, up, kind);
        bench.between.take(r, hidden + r * ffn.up.padded);
      }
      ffn.down(bench.between, 0, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * ffn.down.padded, after);
    }
  }

  int64_t rows = 0;

 private:
  // post: x = norm(x + change).  pre: x = x + change, and the next sublayer sees norm(x).
  void add(int64_t r, const float* change, const Norm& norm) {
    float *x = bench.x.get() + r * D, *sum = bench.row.get() + D;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) sum[d] = x[d] + change[d];
    if (model.sizes.post) {
      norm(sum, x, D);
      bench.seen.take(r, x);
    } else {
      std::copy_n(sum, D, x);
      show(r, x, norm);
    }
  }

  void show(int64_t r, const float* x, const Norm& norm) {
    float* normed = bench.row.get();
    if (norm.gain) norm(x, normed, D);
    bench.seen.take(r, norm.gain ? normed : x);
  }

  const Model<Form>& model;
  const int64_t D;
  Bench<Form>& bench;
  const int64_t* places_ = nullptr;
  const float* positions_ = nullptr;  // rows of D to add, or of angles to turn by
};
