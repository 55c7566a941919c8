// Beam search with the stopping rule of the paper's own code, as decode/beam.py and decode/finished.py have it: of the
// `beam` best continuations of a sentence those that end with EOS are finished, with the score total / divisor(length); the
// others stay active while one of them could still beat the worst of the n best.
//
// Called by engine.cpp.
#pragma once

#include "engine_state.h"

struct BeamCall {
  int64_t beam, n_best;
  const int64_t* max_lengths;  // per sentence
  const double* divisors;      // of a score, per length
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

struct FinishedHypothesis {
  double score;
  int64_t node, length;
  float total;
  bool finished;
};

class Beam {
 public:
  Beam(State& state, const BeamCall& call, int64_t sentences, int64_t bos, int64_t eos)
      : state(state), call(call), B(sentences), bos(bos), eos(eos), finished(sentences), truncated(sentences),
        worst(sentences, -INFINITY) {}

  // Returns 0, or the number (from 1) of the first target token whose logits had a NaN or +∞.
  int64_t run() {
    if (B == 0) return 0;
    for (int64_t b = 0; b < B; ++b) active.push_back({b, b, -1, 0.0f});
    std::vector<int64_t> tokens(B, bos), parents;
    const int64_t longest = *std::max_element(call.max_lengths, call.max_lengths + B);
    if (longest > call.max_length || call.beam < 1 || call.n_best < 1) throw std::invalid_argument("invalid beam search");
    for (int64_t position = 0; position < longest; ++position) {
      if (!extend(tokens)) return position + 1;
      retire(position + 1);
      std::vector<Candidate> next;
      tokens.clear();
      parents.clear();
      for (const Candidate& one : extended) {
        if (nodes[one.node].token == eos || call.max_lengths[one.sentence] == position + 1) continue;
        const float largest_divisor = static_cast<float>(call.divisors[call.max_lengths[one.sentence]]);
        if (!(one.total / largest_divisor > static_cast<float>(worst[one.sentence]))) continue;
        tokens.push_back(nodes[one.node].token);
        parents.push_back(one.row);
        next.push_back(one);
      }
      if (next.empty()) break;
      for (size_t r = 0; r < next.size(); ++r) next[r].row = r;
      const bool moved = parents.size() != active.size() || !in_place(parents);
      active = std::move(next);
      if (moved) state.reorder(parents.data(), parents.size());
    }
    for (int64_t b = 0; b < B; ++b) report(b);
    return 0;
  }

 private:
  static bool in_place(const std::vector<int64_t>& rows) {
    for (size_t r = 0; r < rows.size(); ++r)
      if (rows[r] != static_cast<int64_t>(r)) return false;
    return true;
  }

  // The `beam` best continuations of each sentence, best first; among equals, the lower row and token first. Returns
  // false if a logit was NaN or +∞.
  bool extend(const std::vector<int64_t>& tokens) {
    int64_t width, candidates = std::min(call.beam, state.columns());
    float* logits = const_cast<float*>(state.step(tokens.data(), &width));
    best.resize(candidates);
    token.resize(candidates);
    highest.resize(state.columns() / BLOCK + 1);
    extended.clear();
    bool finite = true;
    std::vector<Candidate> row_best;
    std::vector<Node> row_nodes;
    for (size_t first = 0; first < active.size();) {
      const int64_t sentence = active[first].sentence;
      row_best.clear();
      row_nodes.clear();
      size_t r = first;
      for (; r < active.size() && active[r].sentence == sentence; ++r) {
        finite &= best_tokens(logits + r * width, state.columns(), state.suppressed, candidates, highest.data(),
                              best.data(), token.data());
        for (int64_t c = 0; c < candidates && best[c] > -INFINITY; ++c) {
          const float total = active[r].total + best[c];
          if (static_cast<int64_t>(row_best.size()) == call.beam && !(total > row_best.back().total)) continue;
          size_t place = row_best.size();
          while (place > 0 && row_best[place - 1].total < total) --place;
          row_best.insert(row_best.begin() + place, {sentence, static_cast<int64_t>(r), 0, total});
          row_nodes.insert(row_nodes.begin() + place, {active[r].node, state.token(token[c]), best[c]});
          if (static_cast<int64_t>(row_best.size()) > call.beam) {
            row_best.pop_back();
            row_nodes.pop_back();
          }
        }
      }
      for (size_t i = 0; i < row_best.size(); ++i) {
        row_best[i].node = nodes.size();
        nodes.push_back(row_nodes[i]);
        extended.push_back(row_best[i]);
      }
      if (row_best.empty()) {  // every next token is suppressed
        for (size_t own = first; own < r; ++own) end(active[own], truncated, false);
      }
      first = r;
    }
    return finite;
  }

  // Retire the hypotheses that ended or have their maximum length.
  void retire(int64_t length) {
    for (const Candidate& one : extended) {
      if (nodes[one.node].token == eos) {
        end(one, finished, true);
        auto& best_finished = finished[one.sentence];
        if (static_cast<int64_t>(best_finished.size()) > call.n_best) best_finished.pop_back();
        if (static_cast<int64_t>(best_finished.size()) == call.n_best) worst[one.sentence] = best_finished.back().score;
      } else if (call.max_lengths[one.sentence] == length) {
        end(one, truncated, false);
      }
    }
  }

  // Highest score first; among equals, the one found first.
  void end(const Candidate& one, std::vector<std::vector<FinishedHypothesis>>& where, bool done) {
    int64_t length = 0;
    for (int64_t node = one.node; node >= 0; node = nodes[node].before) ++length;
    const double score = static_cast<double>(one.total) / call.divisors[length];
    auto& hypotheses = where[one.sentence];
    size_t place = hypotheses.size();
    while (place > 0 && hypotheses[place - 1].score < score) --place;
    hypotheses.insert(hypotheses.begin() + place, {score, one.node, length, one.total, done});
  }

  void report(int64_t sentence) {
    std::vector<FinishedHypothesis>& all = finished[sentence];
    all.insert(all.end(), truncated[sentence].begin(), truncated[sentence].end());
    for (int64_t i = 0; i < call.n_best; ++i) {
      const int64_t at = sentence * call.n_best + i;
      call.lengths[at] = 0;
      call.finished[at] = -1;
      if (i >= static_cast<int64_t>(all.size())) continue;
      const FinishedHypothesis& one = all[i];
      call.totals[at] = one.total;
      call.lengths[at] = one.length;
      call.finished[at] = one.finished;
      int64_t place = one.length;
      for (int64_t node = one.node; node >= 0; node = nodes[node].before) {
        --place;
        call.ids[at * call.max_length + place] = nodes[node].token;
        call.log_probs[at * call.max_length + place] = nodes[node].log_prob;
      }
    }
  }

  State& state;
  const BeamCall& call;
  const int64_t B, bos, eos;
  std::vector<Node> nodes;
  std::vector<Candidate> active, extended;
  std::vector<std::vector<FinishedHypothesis>> finished, truncated;
  std::vector<double> worst;  // the score that a new hypothesis must beat
  std::vector<float> best, highest;
  std::vector<int64_t> token;
};
