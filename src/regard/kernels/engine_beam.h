// Beam search by the two rules of decode/beam.py and decode/finished.py. Of the best continuations of a sentence those that
// end with EOS are finished, with the score total / divisor(length); which of the others stay active is the rule's:
//
//   PAPER        the `beam` best continuations; one stays active while it could still beat the worst of the n best
//   HUGGINGFACE  always `beam` of them, from twice as many; a sentence is done when `beam` hypotheses are finished and the
//                best active one is no better than the worst of these. A hypothesis of maximum length ends with EOS, at no
//                cost. With beam 1 it is greedy search, and prunes as PAPER does.
//
// Called by engine.cpp.
#pragma once

#include "engine_search.h"

class Beam : Search {
 public:
  Beam(State& state, const SearchCall& call, int64_t sentences, int64_t bos, int64_t eos)
      : Search(state, call, sentences, eos), bos_(bos), full_(call.rule == HUGGINGFACE && call.beam > 1),
        kept_(full_ ? call.beam : call.n_best), candidates_(full_ ? 2 * call.beam : call.beam), finished_(sentences),
        truncated_(sentences), worst_(sentences, -INFINITY) {}

  // Returns 0, the number (from 1) of the first target token whose logits had a NaN or +∞, or CANCELLED.
  int64_t run() {
    for (int64_t b = 0; b < B; ++b) active_.push_back({b, b, -1, 0.0f});
    std::vector<int64_t> tokens(B, bos_), parents;
    for (int64_t position = 0; position < longest_ && !active_.empty(); ++position) {
      if (cancelled()) return CANCELLED;
      if (!extend(tokens, position)) return position + 1;
      retire(position + 1);
      std::vector<Candidate> next = full_ ? best_active(position + 1) : hopeful(position + 1);
      tokens.clear();
      parents.clear();
      for (const Candidate& one : next) {
        tokens.push_back(nodes_[one.node].token);
        parents.push_back(one.row);
      }
      for (size_t r = 0; r < next.size(); ++r) next[r].row = r;
      const bool moved = parents.size() != active_.size() || !in_place(parents);
      active_ = std::move(next);
      if (show_best()) return CANCELLED;
      if (moved && !active_.empty()) state_.reorder(parents.data(), parents.size());
    }
    for (int64_t b = 0; b < B; ++b) report_all(b);
    return 0;
  }

 private:
  // The best continuations of each sentence, best first; among equals, the lower row and token first. Returns false if a
  // logit was NaN or +∞.
  bool extend(const std::vector<int64_t>& tokens, int64_t position) {
    int64_t width;
    float* logits = const_cast<float*>(state_.step(tokens.data(), &width));
    extended_.clear();
    bool finite = true;
    for (size_t first = 0; first < active_.size();) {
      const int64_t sentence = active_[first].sentence;
      row_best_.clear();
      row_nodes_.clear();
      size_t r = first;
      for (; r < active_.size() && active_[r].sentence == sentence; ++r) {
        finite &= next_tokens(logits + r * width, active_[r], position);
        for (size_t c = 0; c < best_.size() && best_[c] > -INFINITY; ++c) insert(r, c);
      }
      const size_t before = extended_.size();
      for (size_t i = 0; i < row_best_.size(); ++i) {
        // By the rule HUGGINGFACE an EOS counts only among the `beam` best.
        if (full_ && static_cast<int64_t>(i) >= call_.beam && row_nodes_[i].token == eos_) continue;
        row_best_[i].node = nodes_.size();
        nodes_.push_back(row_nodes_[i]);
        extended_.push_back(row_best_[i]);
      }
      if (extended_.size() == before) {  // every next token is forbidden
        for (size_t own = first; own < r; ++own) end(active_[own], truncated_, false);
      }
      first = r;
    }
    return finite;
  }

  // The best next tokens of a row and their log-probabilities, best first, in token_ and best_; false as above.
  bool next_tokens(float* line, const Candidate& row, int64_t position) {
    const float log_sum = log_sum_exp(line, state_.columns(), highest_.data());
    const int64_t forced = forced_token(row.sentence, position);
    if (call_.rule == HUGGINGFACE && call_.max_lengths[row.sentence] == position + 1) {
      best_.assign(1, 0.0f);
      token_.assign(1, eos_);
    } else if (forced >= 0) {
      const int64_t column = state_.column(forced);
      best_.assign(1, column < 0 ? -INFINITY : line[column] - log_sum);
      token_.assign(1, forced);
    } else {
      forbid(line, row.node);
      const int64_t width = std::min(candidates_, state_.columns());
      best_.resize(width);
      token_.resize(width);
      largest_tokens(line, state_.columns(), highest_.data(), width, best_.data(), token_.data());
      for (int64_t i = 0; i < width; ++i) {
        best_[i] -= log_sum;
        token_[i] = state_.token(token_[i]);
      }
    }
    return !std::isnan(log_sum);  // one NaN or +∞ among the logits makes it NaN
  }

  // Puts continuation c of row r in its place among the sentence's.
  void insert(size_t r, size_t c) {
    const float total = active_[r].total + best_[c];
    if (static_cast<int64_t>(row_best_.size()) == candidates_ && !(total > row_best_.back().total)) return;
    size_t place = row_best_.size();
    while (place > 0 && row_best_[place - 1].total < total) --place;
    row_best_.insert(row_best_.begin() + place, {active_[r].sentence, static_cast<int64_t>(r), 0, total});
    row_nodes_.insert(row_nodes_.begin() + place, {active_[r].node, token_[c], best_[c]});
    if (static_cast<int64_t>(row_best_.size()) > candidates_) {
      row_best_.pop_back();
      row_nodes_.pop_back();
    }
  }

  // Retires the hypotheses that ended or have their maximum length.
  void retire(int64_t length) {
    for (const Candidate& one : extended_) {
      if (nodes_[one.node].token == eos_) {
        end(one, finished_, true);
        auto& best_finished = finished_[one.sentence];
        if (static_cast<int64_t>(best_finished.size()) > kept_) best_finished.pop_back();
        if (static_cast<int64_t>(best_finished.size()) == kept_) worst_[one.sentence] = best_finished.back().score;
      } else if (call_.max_lengths[one.sentence] == length) {
        end(one, truncated_, false);
      }
    }
  }

  bool stays(const Candidate& one, int64_t length) const {
    return nodes_[one.node].token != eos_ && call_.max_lengths[one.sentence] != length;
  }

  // Those that could enter the n best if every further token had probability 1.
  std::vector<Candidate> hopeful(int64_t length) const {
    std::vector<Candidate> next;
    for (const Candidate& one : extended_) {
      const float largest_divisor = static_cast<float>(call_.divisors[call_.max_lengths[one.sentence]]);
      const float worst = static_cast<float>(worst_[one.sentence]);
      if (stays(one, length) && one.total / largest_divisor > worst) next.push_back(one);
    }
    return next;
  }

  // The `beam` best of each sentence that has one which is better than its worst finished hypothesis.
  std::vector<Candidate> best_active(int64_t length) const {
    std::vector<Candidate> next;
    const float divisor = static_cast<float>(call_.divisors[length]);
    for (size_t i = 0; i < extended_.size();) {
      const int64_t sentence = extended_[i].sentence;
      const size_t first = next.size();
      bool better = false;
      for (; i < extended_.size() && extended_[i].sentence == sentence; ++i) {
        if (!stays(extended_[i], length) || static_cast<int64_t>(next.size() - first) == call_.beam) continue;
        next.push_back(extended_[i]);
        better |= extended_[i].total / divisor > static_cast<float>(worst_[sentence]);
      }
      if (!better) next.resize(first);
    }
    return next;
  }

  // Highest score first; among equals, the one found first.
  void end(const Candidate& one, std::vector<std::vector<EndedHypothesis>>& where, bool done) {
    const EndedHypothesis hypothesis = ended(one.node, one.total, done);
    auto& hypotheses = where[one.sentence];
    size_t place = hypotheses.size();
    while (place > 0 && hypotheses[place - 1].score < hypothesis.score) --place;
    hypotheses.insert(hypotheses.begin() + place, hypothesis);
  }

  void report_all(int64_t sentence) {
    std::vector<EndedHypothesis>& all = finished_[sentence];
    all.insert(all.end(), truncated_[sentence].begin(), truncated_[sentence].end());
    for (int64_t i = 0; i < call_.n_best; ++i) {
      report(sentence, i, i < static_cast<int64_t>(all.size()) ? &all[i] : nullptr);
    }
  }

  // Shows the best active hypothesis of each sentence, or the best one that ended where none is active.
  bool show_best() {
    if (!call_.observe) return false;
    std::vector<int64_t> nodes(B, -1);
    for (int64_t b = 0; b < B; ++b) {
      if (!truncated_[b].empty()) nodes[b] = truncated_[b][0].node;
      if (!finished_[b].empty()) nodes[b] = finished_[b][0].node;
    }
    for (size_t r = active_.size(); r-- > 0;) nodes[active_[r].sentence] = active_[r].node;
    return show(nodes);
  }

  const int64_t bos_;
  const bool full_;
  const int64_t kept_, candidates_;
  std::vector<Candidate> active_, extended_, row_best_;
  std::vector<Node> row_nodes_;
  std::vector<std::vector<EndedHypothesis>> finished_, truncated_;
  std::vector<double> worst_;  // the score that a new hypothesis must beat
  std::vector<float> best_;
  std::vector<int64_t> token_;
};
