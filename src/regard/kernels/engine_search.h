// What beam search (engine_beam.h) and sampling (engine_sample.h) share: the options and results of a search, the tokens of
// its hypotheses, what each may be continued with, and how it is watched and cancelled.
//
// Called by engine.cpp. Shapes: B sentences, V vocabulary.
#pragma once

#include "engine_state.h"

enum Rule : int64_t { PAPER = 0, HUGGINGFACE = 1 };  // BEAM_RULES of decode/engine.py

// After each step, with the best tokens so far: `max_length` places per sentence. Not 0: the search is cancelled.
using Observer = int32_t (*)(int64_t sentences, const int64_t* lengths, const int64_t* ids);

struct SearchCall {
  int64_t rule, beam, n_best;  // beam 0: n_best samples per sentence
  const int64_t* max_lengths;  // per sentence
  const double* divisors;      // of a score, per length
  const int64_t* suppressed;   // tokens that are never chosen
  int64_t n_suppressed, no_repeat_ngram;
  const int64_t *prefixes, *prefix_starts;  // forced tokens: those of sentence b from prefix_starts[b] on; null: none
  double temperature, top_p;
  int64_t top_k;
  const uint64_t* seeds;  // per sentence
  const int32_t* cancelled;  // not 0: stop; may be null
  Observer observe;          // may be null
  // Results: n_best hypotheses per sentence, each with space for `max_length` tokens.
  int64_t max_length;
  int64_t* ids;
  float* log_probs;
  float* totals;
  int64_t* lengths;  // in tokens, EOS included; 0: no hypothesis
  int8_t* finished;  // 1: ended with EOS; 0: truncated; -1: no hypothesis
};

struct Node {  // a token and the one before it
  int64_t before, token;
  float log_prob;
};

struct Candidate {
  int64_t sentence, row, node;
  float total;
};

struct EndedHypothesis {
  double score;
  int64_t node, length;
  float total;
  bool finished;
};

// Appends the tokens that would complete an n-gram which `ids` has (Paulus et al. 2018, section 2.5).
inline void repeated_ngrams(const std::vector<int64_t>& ids, int64_t n, std::vector<int64_t>& tokens) {
  const int64_t length = ids.size();
  for (int64_t start = 0; n > 0 && start + n <= length; ++start) {
    if (std::equal(ids.end() - (n - 1), ids.end(), ids.begin() + start)) tokens.push_back(ids[start + n - 1]);
  }
}

class Search {
 public:
  static constexpr int64_t CANCELLED = -1;

 protected:
  Search(State& state, const SearchCall& call, int64_t sentences, int64_t eos)
      : state_(state), call_(call), B(sentences), eos_(eos), highest_(state.columns() / BLOCK + 1) {
    if (call.n_best < 1 || call.no_repeat_ngram < 0) throw std::invalid_argument("invalid search");
    for (int64_t b = 0; b < B; ++b) {
      if (call.max_lengths[b] < 1 || call.max_lengths[b] > call.max_length) throw std::invalid_argument("invalid length");
      longest_ = std::max(longest_, call.max_lengths[b]);
    }
    for (int64_t i = 0; i < call.n_suppressed; ++i) {
      const int64_t column = state.column(call.suppressed[i]);
      if (column >= 0) suppressed_.push_back(column);
    }
  }

  // The token that the sentence's prefix has at this position; −1: none.
  int64_t forced_token(int64_t sentence, int64_t position) const {
    if (!call_.prefixes) return -1;
    const int64_t at = call_.prefix_starts[sentence] + position;
    return at < call_.prefix_starts[sentence + 1] ? call_.prefixes[at] : -1;
  }

  // Sets the logits of the tokens that must not follow this node to −∞.
  void forbid(float* line, int64_t node) {
    for (int64_t column : suppressed_) line[column] = -INFINITY;
    if (call_.no_repeat_ngram == 0) return;
    tokens_of(node, written_);
    blocked_.clear();
    repeated_ngrams(written_, call_.no_repeat_ngram, blocked_);
    for (int64_t token : blocked_) {
      const int64_t column = state_.column(token);
      if (column >= 0) line[column] = -INFINITY;
    }
  }

  void tokens_of(int64_t node, std::vector<int64_t>& ids) const {
    ids.clear();
    for (; node >= 0; node = nodes_[node].before) ids.push_back(nodes_[node].token);
    std::reverse(ids.begin(), ids.end());
  }

  int64_t length_of(int64_t node) const {
    int64_t length = 0;
    for (; node >= 0; node = nodes_[node].before) ++length;
    return length;
  }

  EndedHypothesis ended(int64_t node, float total, bool finished) const {
    const int64_t length = length_of(node);
    return {static_cast<double>(total) / call_.divisors[length], node, length, total, finished};
  }

  bool cancelled() const { return call_.cancelled && __atomic_load_n(call_.cancelled, __ATOMIC_RELAXED) != 0; }

  // Shows the tokens of one node per sentence; true: the search is to be cancelled.
  bool show(const std::vector<int64_t>& nodes) {
    if (!call_.observe) return false;
    shown_lengths_.assign(B, 0);
    shown_.assign(element_count(B, call_.max_length), 0);
    for (int64_t b = 0; b < B; ++b) {
      tokens_of(nodes[b], written_);
      if (!written_.empty() && written_.back() == eos_) written_.pop_back();
      shown_lengths_[b] = written_.size();
      std::copy(written_.begin(), written_.end(), shown_.begin() + b * call_.max_length);
    }
    return call_.observe(B, shown_lengths_.data(), shown_.data()) != 0;
  }

  // Writes hypothesis `number` of a sentence to the results; null: there is none.
  void report(int64_t sentence, int64_t number, const EndedHypothesis* one) const {
    const int64_t at = sentence * call_.n_best + number;
    call_.lengths[at] = 0;
    call_.finished[at] = -1;
    if (!one) return;
    call_.totals[at] = one->total;
    call_.lengths[at] = one->length;
    call_.finished[at] = one->finished;
    int64_t place = one->length;
    for (int64_t node = one->node; node >= 0; node = nodes_[node].before) {
      --place;
      call_.ids[at * call_.max_length + place] = nodes_[node].token;
      call_.log_probs[at * call_.max_length + place] = nodes_[node].log_prob;
    }
  }

  static bool in_place(const std::vector<int64_t>& rows) {
    for (size_t r = 0; r < rows.size(); ++r)
      if (rows[r] != static_cast<int64_t>(r)) return false;
    return true;
  }

  State& state_;
  const SearchCall& call_;
  const int64_t B, eos_;
  int64_t longest_ = 0;
  std::vector<Node> nodes_;
  std::vector<int64_t> suppressed_, written_, blocked_, shown_lengths_, shown_;
  std::vector<float> highest_;
};
