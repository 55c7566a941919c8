// One pass of some rows through a stack of layers, and the room that it takes.
// Shapes: R rows, D model, F feed-forward, N columns of a product.
#pragma once

#include <mutex>

#include "engine_attention.h"
#include "engine_model.h"

// Room that is used again at every step and, since fresh memory is dear, by search after search. Rows are taken through
// the products a few at a time, so that what lies between two products is still in the cache.
template <typename NumberFormat>
struct Workspace {
  static constexpr int64_t AT_ONCE = 96;
  Rows<NumberFormat> seen, between;
  Buffer<float> x, row, qkv, made, change;
  AttentionScratch<CacheValue<NumberFormat>> attention;
  std::vector<Memory<char>> blocks;  // for keys and values
};

// The benches that nobody works at.
template <typename NumberFormat>
class WorkspacePool {
 public:
  std::unique_ptr<Workspace<NumberFormat>> take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::make_unique<Workspace<NumberFormat>>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void give_back(std::unique_ptr<Workspace<NumberFormat>> workspace) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace<NumberFormat>>> free_;
};

template <typename NumberFormat>
class Stream {
 public:
  Stream(const Model<NumberFormat>& model, Workspace<NumberFormat>& workspace) : model(model), D(model.sizes.d_model), workspace(workspace) {}

  // x_RD = embedding · scale + position, but for rotary ones; the first sublayer sees it, normed if pre-norm.
  void begin(const int64_t* ids, const int64_t* places, int64_t count, const float* table, const float* positions,
             const Norm& first) {
    rows = count;
    places_ = places;
    positions_ = positions;
    workspace.x.at_least(rows * D);
    workspace.row.at_least(2 * D);
    workspace.seen.resize(rows, D);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = table + ids[r] * D;
      float* x = workspace.x.get() + r * D;
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
  const float* project(const Product<NumberFormat>& product) {
    float* made = workspace.made.at_least(rows * product.padded);
    product(workspace.seen, 0, rows, made);
    return made;
  }

  // What self-attention looks with: queries, keys and values, the rows `padded` apart.
  float* queries_keys_values(const Product<NumberFormat>& product) {
    float* qkv = workspace.qkv.at_least(rows * product.padded);
    product(workspace.seen, 0, rows, qkv);
    if (model.sizes.rotary) {
      const int64_t K = D / model.sizes.n_heads;
      for (int64_t r = 0; r < rows; ++r) {
        const float* cosines_and_sines = positions_ + places_[r] * K;
        for (float* head = qkv + r * product.padded; head < qkv + r * product.padded + 2 * D; head += K) {
          rotate(head, head, K, cosines_and_sines, cosines_and_sines + K / 2);
        }
      }
    }
    return qkv;
  }

  // Each row's attention, `mix(row, out)`, through W_O, onto the stream.
  template <typename Mix>
  void attend(const Product<NumberFormat>& out, const Norm& after, Mix mix) {
    workspace.between.resize(rows, D);
    float* mixed = workspace.row.get();
    for (int64_t r = 0; r < rows; ++r) {
      mix(r, mixed);
      workspace.between.take(r, mixed);
    }
    float* change = workspace.change.at_least(Workspace<NumberFormat>::AT_ONCE * out.padded);
    for (int64_t first = 0; first < rows; first += Workspace<NumberFormat>::AT_ONCE) {
      int64_t count = std::min(Workspace<NumberFormat>::AT_ONCE, rows - first);
      out(workspace.between, first, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * out.padded, after);
    }
  }

  void feed_forward(const FeedForward<NumberFormat>& ffn, const Norm& after) {
    const auto kind = static_cast<Activation>(model.sizes.activation);
    const int64_t up = ffn.up.columns;
    workspace.between.resize(Workspace<NumberFormat>::AT_ONCE, model.sizes.d_ff);
    float* hidden = workspace.made.at_least(Workspace<NumberFormat>::AT_ONCE * ffn.up.padded);
    float* change = workspace.change.at_least(Workspace<NumberFormat>::AT_ONCE * ffn.down.padded);
    for (int64_t first = 0; first < rows; first += Workspace<NumberFormat>::AT_ONCE) {
      int64_t count = std::min(Workspace<NumberFormat>::AT_ONCE, rows - first);
      ffn.up(workspace.seen, first, count, hidden, kind == RELU);
      for (int64_t r = 0; r < count; ++r) {
        activate(hidden + r * ffn.up.padded, up, kind);
        workspace.between.take(r, hidden + r * ffn.up.padded);
      }
      ffn.down(workspace.between, 0, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * ffn.down.padded, after);
    }
  }

  int64_t rows = 0;

 private:
  // post: x = norm(x + change).  pre: x = x + change, and the next sublayer sees norm(x).
  void add(int64_t r, const float* change, const Norm& norm) {
    float *x = workspace.x.get() + r * D, *sum = workspace.row.get() + D;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) sum[d] = x[d] + change[d];
    if (model.sizes.post) {
      norm(sum, x, D);
      workspace.seen.take(r, x);
    } else {
      std::copy_n(sum, D, x);
      show(r, x, norm);
    }
  }

  void show(int64_t r, const float* x, const Norm& norm) {
    float* normed = workspace.row.get();
    if (norm.gain) norm(x, normed, D);
    workspace.seen.take(r, norm.gain ? normed : x);
  }

  const Model<NumberFormat>& model;
  const int64_t D;
  Workspace<NumberFormat>& workspace;
  const int64_t* places_ = nullptr;
  const float* positions_ = nullptr;  // rows of D to add, or of angles to turn by
};
