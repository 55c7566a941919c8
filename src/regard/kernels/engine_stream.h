// One pass of some rows through a stack of layers, and the working memory that it needs. Per sublayer f:
//
//   post-norm: x = norm(x + f(x)),   pre-norm: x = x + f(norm(x))
//
// Called by engine_state.h. Shapes: R rows, D model, I inner (all heads), F feed-forward, N columns of a
// product.
#pragma once

#include <mutex>

#include "engine_attention.h"
#include "engine_model.h"

// Working memory, used again at every step and by later searches, since fresh memory is expensive. Between two products rows
// are processed a block at a time, so that a block is still in the cache when the second product reads it.
template <typename NumberFormat>
struct Workspace {
  static constexpr int64_t BLOCK_ROWS = 96;
  InputRows<NumberFormat> input, hidden;  // of the sublayer; of its second product
  Buffer<float> x, row, qkv, projected, update;
  Buffer<float> routed, expert_out;  // of a mixture of experts: its input, and the output of each expert for each row
  InputRows<NumberFormat> gathered;  // the rows of one expert
  AttentionScratch<CacheValue<NumberFormat>> attention;
  std::vector<AlignedArray<char>> blocks;  // for keys and values
};

// Idle workspaces.
template <typename NumberFormat>
class WorkspacePool {
 public:
  std::unique_ptr<Workspace<NumberFormat>> acquire() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(count_ + 1);  // so that `release` never allocates
      auto workspace = std::make_unique<Workspace<NumberFormat>>();
      ++count_;
      return workspace;
    }
    auto workspace = std::move(idle_.back());
    idle_.pop_back();
    return workspace;
  }
  void release(std::unique_ptr<Workspace<NumberFormat>> workspace) noexcept {
    std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace<NumberFormat>>> idle_;
  size_t count_ = 0;  // of all workspaces, idle or in use
};

template <typename NumberFormat>
class Stream {
 public:
  Stream(const Model<NumberFormat>& model, Workspace<NumberFormat>& workspace)
      : model(model), D(model.settings.d_model), I(model.settings.inner()), workspace(workspace) {}

  // x_RD = embedding · scale + position (rotary positions are not added). The first sublayer's input is x, or norm(x) if
  // pre-norm. The caller has checked the ids.
  void embed(const int64_t* ids, const int64_t* positions, int64_t count, const StoredTensor& table,
             const float* position_table, const Norm& first) {
    rows = count;
    positions_ = positions;
    position_table_ = position_table;
    workspace.x.at_least(rows, D);
    workspace.row.at_least(2, std::max(D, I));
    workspace.input.resize(rows, D);
    if (model.settings.mixture.n_experts) workspace.routed.at_least(rows, D);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = table.row(ids[r], workspace.row.get());
      float* x = workspace.x.get() + r * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) x[d] = from[d] * model.settings.embedding_scale;
      if (position_table && !model.settings.rotary) {
        const float* position = position_table + positions[r] * D;
#pragma omp simd
        for (int64_t d = 0; d < D; ++d) x[d] += position[d];
      }
      if (model.first_norm.gain) {
        model.first_norm(x, workspace.row.get(), D);
        std::copy_n(workspace.row.get(), D, x);
      }
      set_input(r, x, model.settings.post ? Norm{} : first);
    }
  }

  // projected_RN = input W.
  const float* project(const PackedLinear<NumberFormat>& linear) {
    float* projected = workspace.projected.at_least(rows, linear.padded);
    linear(workspace.input, 0, rows, projected);
    return projected;
  }

  // Queries, keys and values of self-attention, with rotary positions applied; rows are `padded` apart.
  float* project_qkv(const PackedLinear<NumberFormat>& linear) {
    float* qkv = workspace.qkv.at_least(rows, linear.padded);
    linear(workspace.input, 0, rows, qkv);
    if (model.settings.rotary) {
      const int64_t K = model.settings.head_size;
      for (int64_t r = 0; r < rows; ++r) {
        const float* cosines_and_sines = position_table_ + positions_[r] * K;
        for (float* head = qkv + r * linear.padded; head < qkv + r * linear.padded + 2 * I; head += K) {
          rotate(head, head, K, cosines_and_sines, cosines_and_sines + K / 2);
        }
      }
    }
    return qkv;
  }

  // x += W_O (the attention of each row, by `attend(row, out)`), and the norm after it.
  template <typename Attend>
  void attend(const PackedLinear<NumberFormat>& out, const Norm& after, Attend attend) {
    workspace.hidden.resize(rows, I);
    float* attended = workspace.row.get();
    for (int64_t r = 0; r < rows; ++r) {
      attend(r, attended);
      workspace.hidden.set_row(r, attended);
    }
    float* update = workspace.update.at_least(BLOCK_ROWS, out.padded);
    for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
      const int64_t count = std::min(BLOCK_ROWS, rows - first);
      out(workspace.hidden, first, count, update);
      for (int64_t r = 0; r < count; ++r) add(first + r, update + r * out.padded, after);
    }
  }

  // x += W₂ f(W₁ x), and the norm after it.
  void feed_forward(const FeedForward<NumberFormat>& ffn, const Norm& after) {
    if (!ffn.mixture.experts.empty()) return mix_experts(ffn.mixture, after);
    const auto kind = static_cast<Activation>(model.settings.activation);
    workspace.hidden.resize(BLOCK_ROWS, model.settings.d_ff);
    float* hidden = workspace.projected.at_least(BLOCK_ROWS, ffn.up.padded);
    float* update = workspace.update.at_least(BLOCK_ROWS, ffn.down.padded);
    for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
      const int64_t count = std::min(BLOCK_ROWS, rows - first);
      ffn.up(workspace.input, first, count, hidden, kind == RELU);
      for (int64_t r = 0; r < count; ++r) {
        activate(hidden + r * ffn.up.padded, ffn.up.columns, kind);
        workspace.hidden.set_row(r, hidden + r * ffn.up.padded);
      }
      ffn.down(workspace.hidden, 0, count, update);
      for (int64_t r = 0; r < count; ++r) add(first + r, update + r * ffn.down.padded, after);
    }
  }

  // x += Σ weight · expert(x) of the experts that a row is routed to, in their order, and the shared experts.
  void mix_experts(const Mixture<NumberFormat>& mixture, const Norm& after) {
    const MixtureSettings& m = model.settings.mixture;
    const int64_t A = m.experts_per_token;
    std::vector<int64_t> chosen(rows * A);
    std::vector<float> weights(rows * A);
    std::vector<std::vector<int64_t>> places(m.n_experts);  // of each expert: row · A + number
    for (int64_t r = 0; r < rows; ++r) {
      mixture.router(workspace.routed.get() + r * D, &chosen[r * A], &weights[r * A]);
      for (int64_t a = 0; a < A; ++a) places[chosen[r * A + a]].push_back(r * A + a);
    }
    float* out = workspace.expert_out.at_least(rows * A, D);
    for (int64_t e = 0; e < m.n_experts; ++e) {
      workspace.gathered.resize(BLOCK_ROWS, D);
      for (size_t first = 0; first < places[e].size(); first += BLOCK_ROWS) {
        const int64_t count = std::min<int64_t>(BLOCK_ROWS, places[e].size() - first);
        for (int64_t i = 0; i < count; ++i) workspace.gathered.copy_row(i, workspace.input, places[e][first + i] / A);
        const float* update = run_expert(mixture.experts[e], workspace.gathered, 0, count, m.d_ff);
        for (int64_t i = 0; i < count; ++i) {
          std::copy_n(update + i * mixture.experts[e].down.padded, D, out + places[e][first + i] * D);
        }
      }
    }
    std::vector<float> sum(D);
    for (int64_t first = 0; first < rows; first += BLOCK_ROWS) {
      const int64_t count = std::min(BLOCK_ROWS, rows - first);
      const float* shared = nullptr;
      if (m.shared_d_ff) shared = run_expert(mixture.shared, workspace.input, first, count, m.shared_d_ff);
      for (int64_t r = first; r < first + count; ++r) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (int64_t place = r * A; place < (r + 1) * A; ++place) {
#pragma omp simd
          for (int64_t d = 0; d < D; ++d) sum[d] += out[place * D + d] * weights[place];
        }
        for (int64_t d = 0; shared && d < D; ++d) sum[d] += shared[(r - first) * mixture.shared.down.padded + d];
        add(r, sum.data(), after);
      }
    }
  }

  int64_t rows = 0;

 private:
  static constexpr int64_t BLOCK_ROWS = Workspace<NumberFormat>::BLOCK_ROWS;

  // W₂ f(W₁ input) of some rows, at most BLOCK_ROWS.
  const float* run_expert(const Expert<NumberFormat>& expert, const InputRows<NumberFormat>& input, int64_t first,
                          int64_t count, int64_t d_ff) {
    const auto kind = static_cast<Activation>(model.settings.mixture.activation);
    workspace.hidden.resize(BLOCK_ROWS, d_ff);
    float* hidden = workspace.projected.at_least(BLOCK_ROWS, expert.up.padded);
    float* update = workspace.update.at_least(BLOCK_ROWS, expert.down.padded);
    expert.up(input, first, count, hidden, kind == RELU);
    for (int64_t r = 0; r < count; ++r) {
      activate(hidden + r * expert.up.padded, expert.up.columns, kind);
      workspace.hidden.set_row(r, hidden + r * expert.up.padded);
    }
    expert.down(workspace.hidden, 0, count, update);
    return update;
  }

  // post: x = norm(x + update), the next input.  pre: x = x + update; the next input is norm(x).
  void add(int64_t r, const float* update, const Norm& norm) {
    float *x = workspace.x.get() + r * D, *sum = workspace.row.get() + std::max(D, I);
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) sum[d] = x[d] + update[d];
    if (model.settings.post) {
      norm(sum, x, D);
      set_row(r, x);
    } else {
      std::copy_n(sum, D, x);
      set_input(r, x, norm);
    }
  }

  void set_input(int64_t r, const float* x, const Norm& norm) {
    float* normed = workspace.row.get();
    if (norm.gain) norm(x, normed, D);
    set_row(r, norm.gain ? normed : x);
  }

  void set_row(int64_t r, const float* values) {
    workspace.input.set_row(r, values);
    if (model.settings.mixture.n_experts) std::copy_n(values, D, workspace.routed.get() + r * D);
  }

  const Model<NumberFormat>& model;
  const int64_t D, I;
  Workspace<NumberFormat>& workspace;
  const int64_t* positions_ = nullptr;
  const float* position_table_ = nullptr;  // rows of D to add, or of cosines and sines to rotate by
};
