// A mixture of experts as core/moe.py has it: which experts a row is routed to, and with which weights.
//
// Called by engine_stream.h. Shapes: D model, E experts, A experts per row.
#pragma once

#include <functional>

#include "gemm.h"

struct MixtureSettings {
  int64_t n_experts, experts_per_token, n_groups, groups_per_token, d_ff, shared_d_ff, activation;  // n_experts 0: none
  int64_t softmax_gate, normalise_gates, corrected;
  float scale;
};

template <typename NumberFormat>
struct Expert {
  PackedLinear<NumberFormat> up, down;
};

// affinity_E = softmax or sigmoid (W x). The A experts with the greatest affinity + correction are chosen, the first among
// equals first, of the best groups only; their weights are affinities, divided by their sum if they are normalised.
class Router {
 public:
  static constexpr int64_t RANKED_BY = 2;  // of a group: the best experts that its rank is the sum of

  Router() = default;
  Router(const MixtureSettings& settings, const float* matrix, const float* correction, int64_t width)
      : settings_(settings), matrix_(matrix), correction_(correction), width_(width) {}

  // `chosen` and `weights` have space for A numbers.
  void operator()(const float* x, int64_t* chosen, float* weights) const {
    const MixtureSettings& s = settings_;
    std::vector<float> affinity(s.n_experts);
    for (int64_t e = 0; e < s.n_experts; ++e) {
      float sum = 0;
      const float* row = matrix_ + e * width_;
#pragma omp simd reduction(+ : sum)
      for (int64_t d = 0; d < width_; ++d) sum += x[d] * row[d];
      affinity[e] = sum;
    }
    if (s.softmax_gate) {
      const float top = *std::max_element(affinity.begin(), affinity.end());
      float sum = 0;
      for (float& value : affinity) sum += value = std::exp(value - top);
      for (float& value : affinity) value /= sum;
    } else {
      for (float& value : affinity) value = 1.0f / (1.0f + std::exp(-value));
    }
    std::vector<float> rank = affinity;
    for (int64_t e = 0; correction_ && e < s.n_experts; ++e) rank[e] += correction_[e];
    if (s.groups_per_token < s.n_groups) keep_best_groups(rank);
    float sum = 0;
    for (int64_t a = 0; a < s.experts_per_token; ++a) {
      chosen[a] = std::max_element(rank.begin(), rank.end()) - rank.begin();
      weights[a] = affinity[chosen[a]];
      rank[chosen[a]] = -INFINITY;
      sum += weights[a];
    }
    for (int64_t a = 0; a < s.experts_per_token; ++a) {
      if (s.normalise_gates) weights[a] /= sum + 1e-20f;
      weights[a] *= s.scale;
    }
  }

 private:
  void keep_best_groups(std::vector<float>& rank) const {
    const int64_t size = settings_.n_experts / settings_.n_groups;
    std::vector<float> best(settings_.n_groups), sorted;
    for (int64_t g = 0; g < settings_.n_groups; ++g) {
      sorted.assign(rank.begin() + g * size, rank.begin() + (g + 1) * size);
      std::sort(sorted.begin(), sorted.end(), std::greater<float>());
      for (int64_t i = 0; i < std::min(RANKED_BY, size); ++i) best[g] += sorted[i];
    }
    std::vector<bool> kept(settings_.n_groups, false);
    for (int64_t i = 0; i < settings_.groups_per_token; ++i) {
      const int64_t g = std::max_element(best.begin(), best.end()) - best.begin();
      kept[g] = true;
      best[g] = -INFINITY;
    }
    for (int64_t e = 0; e < settings_.n_experts; ++e) {
      if (!kept[e / size]) rank[e] = -INFINITY;
    }
  }

  MixtureSettings settings_ = {};
  const float *matrix_ = nullptr, *correction_ = nullptr;
  int64_t width_ = 0;
};

template <typename NumberFormat>
struct Mixture {
  Router router;
  std::vector<Expert<NumberFormat>> experts;  // empty: the layer has none
  Expert<NumberFormat> shared;
};
