// Sampling with temperature, top-k and top-p, as decode/sampling.py has it: each token inverts the cumulative distribution,
// most probable tokens first, at one random number, which depends on the sentence's seed, the sample and the position only.
//
// Called by engine.cpp. Shapes: S samples, V vocabulary.
#pragma once

#include "engine_search.h"

// A number in [0, 1). decode/random_numbers.py has the same.
inline double uniform_number(uint64_t seed, uint64_t sample, uint64_t position) {
  return static_cast<double>(random_bytes(seed, (sample << 32) + position) >> 11) * 0x1p-53;
}

struct SamplingOptions {
  double temperature, top_p;
  int64_t top_k;
};

class TokenSampler {
 public:
  // The column that is drawn from the logits of a row; −1: all are −∞.
  int64_t operator()(const float* line, int64_t size, const SamplingOptions& options, double uniform) {
    order_.clear();
    for (int64_t v = 0; v < size; ++v) {
      if (line[v] > -INFINITY) order_.push_back(static_cast<int32_t>(v));
    }
    if (order_.empty()) return -1;
    const auto first = [line](int32_t a, int32_t b) { return line[a] > line[b] || (line[a] == line[b] && a < b); };
    const size_t count = order_.size();
    if (options.top_k > 0 && static_cast<size_t>(options.top_k) < count) {
      std::nth_element(order_.begin(), order_.begin() + options.top_k - 1, order_.end(), first);
      order_.resize(options.top_k);
    }
    const float top = line[*std::min_element(order_.begin(), order_.end(), first)];
    const float rate = static_cast<float>(1.0 / options.temperature);
    const auto weight = [=](int32_t v) { return fast_exp((line[v] - top) * rate); };
    double sum = 0, cumulative = 0;
    for (int32_t v : order_) sum += weight(v);
    cumulative_.clear();
    size_t sorted = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (i == sorted) sorted = sort_more(sorted, first);
      if (i > 0 && options.top_p < 1 && cumulative >= options.top_p * sum) break;
      cumulative += weight(order_[i]);
      cumulative_.push_back(cumulative);
      if (options.top_p >= 1 && cumulative > uniform * sum) return order_[i];
    }
    const auto place = std::upper_bound(cumulative_.begin(), cumulative_.end(), uniform * cumulative);
    return order_[std::min<size_t>(place - cumulative_.begin(), cumulative_.size() - 1)];
  }

 private:
  // Sorts the next part of `order_`, larger every time: often the first few tokens are enough.
  template <typename First>
  size_t sort_more(size_t sorted, First first) {
    const size_t end = std::min(order_.size(), std::max<size_t>(64, 4 * sorted));
    if (end < order_.size()) std::nth_element(order_.begin() + sorted, order_.begin() + end, order_.end(), first);
    std::sort(order_.begin() + sorted, order_.begin() + end, first);
    return end;
  }

  std::vector<int32_t> order_;
  std::vector<double> cumulative_;
};

class Sampling : Search {
 public:
  Sampling(State& state, const SearchCall& call, int64_t sentences, int64_t bos, int64_t eos)
      : Search(state, call, sentences, eos), bos_(bos), ended_(element_count(sentences, call.n_best)) {
    if (!(call.temperature > 0)) throw std::invalid_argument("invalid temperature");
  }

  // As Beam::run.
  int64_t run() {
    std::vector<int64_t> parents;
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t sample = 0; sample < call_.n_best; ++sample) {
        active_.push_back({b, static_cast<int64_t>(active_.size()), -1, 0.0f});
        samples_.push_back(sample);
        parents.push_back(b);
      }
    }
    if (call_.n_best > 1) state_.reorder(parents.data(), parents.size());
    std::vector<int64_t> tokens(active_.size(), bos_);
    for (int64_t position = 0; position < longest_ && !active_.empty(); ++position) {
      if (cancelled()) return CANCELLED;
      const size_t before = active_.size();
      if (!step(tokens, position, parents)) return position + 1;
      tokens.clear();
      for (const Candidate& one : active_) tokens.push_back(nodes_[one.node].token);
      if (show_first()) return CANCELLED;
      if (!active_.empty() && (parents.size() != before || !in_place(parents))) {
        state_.reorder(parents.data(), parents.size());
      }
    }
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t sample = 0; sample < call_.n_best; ++sample) report(b, sample, &ended_[b * call_.n_best + sample]);
    }
    return 0;
  }

 private:
  // One more token for each sample; `parents` becomes the rows of those that go on. False as in Beam.
  bool step(const std::vector<int64_t>& tokens, int64_t position, std::vector<int64_t>& parents) {
    int64_t width;
    float* logits = const_cast<float*>(state_.step(tokens.data(), &width));
    std::vector<Candidate> next;
    std::vector<int64_t> next_samples;
    parents.clear();
    bool finite = true;
    for (size_t r = 0; r < active_.size(); ++r) {
      Candidate one = active_[r];
      float* line = logits + r * width;
      const float log_sum = log_sum_exp(line, state_.columns(), highest_.data());
      finite &= !std::isnan(log_sum);
      const int64_t column = choose(line, one, samples_[r], position);
      EndedHypothesis& result = ended_[one.sentence * call_.n_best + samples_[r]];
      if (column < 0) {  // every next token is forbidden
        result = ended(one.node, one.total, false);
        continue;
      }
      const float log_prob = line[column] - log_sum;
      nodes_.push_back({one.node, state_.token(column), log_prob});
      one = {one.sentence, static_cast<int64_t>(next.size()), static_cast<int64_t>(nodes_.size()) - 1, one.total + log_prob};
      const bool finished = nodes_.back().token == eos_;
      result = ended(one.node, one.total, finished);
      if (finished || call_.max_lengths[one.sentence] == position + 1) continue;
      parents.push_back(r);
      next.push_back(one);
      next_samples.push_back(samples_[r]);
    }
    active_ = std::move(next);
    samples_ = std::move(next_samples);
    return finite;
  }

  int64_t choose(float* line, const Candidate& row, int64_t sample, int64_t position) {
    const int64_t forced = forced_token(row.sentence, position);
    if (forced >= 0) {
      const int64_t column = state_.column(forced);
      return column >= 0 && line[column] > -INFINITY ? column : -1;
    }
    forbid(line, row.node);
    const double uniform = uniform_number(call_.seeds[row.sentence], sample, position);
    return draw_(line, state_.columns(), {call_.temperature, call_.top_p, call_.top_k}, uniform);
  }

  // Shows the first sample of each sentence.
  bool show_first() {
    if (!call_.observe) return false;
    std::vector<int64_t> nodes(B);
    for (int64_t b = 0; b < B; ++b) nodes[b] = ended_[b * call_.n_best].node;
    return show(nodes);
  }

  const int64_t bos_;
  TokenSampler draw_;
  std::vector<Candidate> active_;
  std::vector<int64_t> samples_;  // the number of each active row among its sentence's samples
  std::vector<EndedHypothesis> ended_;  // every sample so far, as if it ended here
};

// The next tokens of texts that a language model generates (decode/generate.py).
struct DrawCall {
  const float* logits;  // rows · width
  int64_t rows, width, size;  // only the first `size` columns are tokens
  const int64_t* suppressed;
  int64_t n_suppressed;
  const int64_t* ids;  // rows · length: the texts so far
  int64_t length, no_repeat_ngram, end;  // `end` is chosen where every token is blocked
  double temperature, top_p;
  int64_t top_k;
  const double* uniforms;
  int64_t* tokens;
  float* log_probs;  // the model's own
};

// Returns false if a logit was NaN or +∞.
inline bool draw_tokens(const DrawCall& call) {
  if (call.size < 1 || call.size > call.width || !(call.temperature > 0)) throw std::invalid_argument("invalid sampling");
  check_indices(call.suppressed, call.n_suppressed, call.size, "suppressed token");
  check_indices(&call.end, 1, call.size, "end token");
  TokenSampler draw;
  std::vector<float> line(call.width), highest(call.width / BLOCK + 1);
  std::vector<int64_t> ids, blocked;
  bool finite = true;
  for (int64_t r = 0; r < call.rows; ++r) {
    const float* logits = call.logits + r * call.width;
    const float log_sum = log_sum_exp(logits, call.width, highest.data());
    finite &= !std::isnan(log_sum);
    std::copy_n(logits, call.size, line.begin());
    for (int64_t i = 0; i < call.n_suppressed; ++i) line[call.suppressed[i]] = -INFINITY;
    if (call.no_repeat_ngram > 0) {
      ids.assign(call.ids + r * call.length, call.ids + (r + 1) * call.length);
      blocked.clear();
      repeated_ngrams(ids, call.no_repeat_ngram, blocked);
      for (int64_t token : blocked) {
        if (token >= 0 && token < call.size) line[token] = -INFINITY;
      }
    }
    const SamplingOptions options = {call.temperature, call.top_p, call.top_k};
    const int64_t token = draw(line.data(), call.size, options, call.uniforms[r]);
    call.tokens[r] = token < 0 ? call.end : token;
    call.log_probs[r] = logits[call.tokens[r]] - log_sum;
  }
  return finite;
}
