// Beam search by the paper's rule, as beam.py and found.py have it.
#pragma once

#include "engine_state.h"

struct Search {
  int64_t beam, n_best;
  const int64_t* max_lengths;   // B
  const double* divisors;       // of a score, by the length of what was written
  // Results: n_best places a sentence, each with room for the longest.
  int64_t room;
  int64_t* ids;
  float* log_probs;
  float* totals;
  int64_t* lengths;  // tokens, EOS among them; 0: nothing was found for this place
  int8_t* finished;
};

struct Node {  // a token and where it was written
  int64_t before, token;
  float log_prob;
};

struct Candidate {
  int64_t sentence, row, node;
  float total;
};

struct Finished {
  double score;
  int64_t node, length;
  float total;
  bool finished;
};

// beam.py says what a step is. Returns 0, or the place of the first token whose probabilities were not numbers.
class Beam {
 public:
  Beam(State& state, const Search& how, int64_t sentences, int64_t bos, int64_t eos)
      : state(state), how(how), B(sentences), bos(bos), eos(eos), finished(sentences), truncated(sentences),
        worst(sentences, -INFINITY) {}

  int64_t run() {
    for (int64_t b = 0; b < B; ++b) active.push_back({b, b, -1, 0.0f});
    std::vector<int64_t> tokens(B, bos), parents;
    const int64_t longest = *std::max_element(how.max_lengths, how.max_lengths + B);
    for (int64_t position = 0; position < longest; ++position) {
      if (!extend(tokens)) return position + 1;
      retire(position + 1);
      std::vector<Candidate> next;
      tokens.clear();
      parents.clear();
      for (const Candidate& one : extended) {
        if (nodes[one.node].token == eos || how.max_lengths[one.sentence] == position + 1) continue;
        const float largest = static_cast<float>(how.divisors[how.max_lengths[one.sentence]]);
        if (!(one.total / largest > static_cast<float>(worst[one.sentence]))) continue;
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

  // The `beam` best continuations of each sentence, best first; of equals, the one further left.
  bool extend(const std::vector<int64_t>& tokens) {
    int64_t width, words = std::min(how.beam, state.columns());
    float* logits = const_cast<float*>(state.step(tokens.data(), &width));
    best.resize(words);
    token.resize(words);
    highest.resize(state.columns() / BLOCK + 1);
    extended.clear();
    bool numbers = true;
    std::vector<Candidate> row_best;
    std::vector<Node> row_nodes;
    for (size_t first = 0; first < active.size();) {
      const int64_t sentence = active[first].sentence;
      row_best.clear();
      row_nodes.clear();
      size_t r = first;
      for (; r < active.size() && active[r].sentence == sentence; ++r) {
        numbers &= best_tokens(logits + r * width, state.columns(), state.suppressed, words, highest.data(), best.data(),
                              token.data());
        for (int64_t c = 0; c < words && best[c] > -INFINITY; ++c) {
          const float total = active[r].total + best[c];
          if (static_cast<int64_t>(row_best.size()) == how.beam && !(total > row_best.back().total)) continue;
          size_t place = row_best.size();
          while (place > 0 && row_best[place - 1].total < total) --place;
          row_best.insert(row_best.begin() + place, {sentence, static_cast<int64_t>(r), 0, total});
          row_nodes.insert(row_nodes.begin() + place, {active[r].node, state.token(token[c]), best[c]});
          if (static_cast<int64_t>(row_best.size()) > how.beam) {
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
      if (row_best.empty()) {  // every next token is forbidden
        for (size_t own = first; own < r; ++own) end(active[own], truncated, false);
      }
      first = r;
    }
    return numbers;
  }

  // Take leave of what ended and of what has its full length.
  void retire(int64_t length) {
    for (const Candidate& one : extended) {
      if (nodes[one.node].token == eos) {
        end(one, finished, true);
        auto& kept = finished[one.sentence];
        if (static_cast<int64_t>(kept.size()) > how.n_best) kept.pop_back();
        if (static_cast<int64_t>(kept.size()) == how.n_best) worst[one.sentence] = kept.back().score;
      } else if (how.max_lengths[one.sentence] == length) {
        end(one, truncated, false);
      }
    }
  }

  // Highest score first; of equals, the one found first.
  void end(const Candidate& one, std::vector<std::vector<Finished>>& where, bool done) {
    int64_t length = 0;
    for (int64_t node = one.node; node >= 0; node = nodes[node].before) ++length;
    const double score = static_cast<double>(one.total) / how.divisors[length];
    auto& kept = where[one.sentence];
    size_t place = kept.size();
    while (place > 0 && kept[place - 1].score < score) --place;
    kept.insert(kept.begin() + place, {score, one.node, length, one.total, done});
  }

  void report(int64_t sentence) {
    std::vector<Finished>& all = finished[sentence];
    all.insert(all.end(), truncated[sentence].begin(), truncated[sentence].end());
    for (int64_t i = 0; i < how.n_best; ++i) {
      const int64_t at = sentence * how.n_best + i;
      how.lengths[at] = 0;
      how.finished[at] = -1;
      if (i >= static_cast<int64_t>(all.size())) continue;
      const Finished& one = all[i];
      how.totals[at] = one.total;
      how.lengths[at] = one.length;
      how.finished[at] = one.finished;
      int64_t place = one.length;
      for (int64_t node = one.node; node >= 0; node = nodes[node].before) {
        --place;
        how.ids[at * how.room + place] = nodes[node].token;
        how.log_probs[at * how.room + place] = nodes[node].log_prob;
      }
    }
  }

  State& state;
  const Search& how;
  const int64_t B, bos, eos;
  std::vector<Node> nodes;
  std::vector<Candidate> active, extended;
  std::vector<std::vector<Finished>> finished, truncated;
  std::vector<double> worst;  // the score that a newcomer must beat
  std::vector<float> best, highest;
  std::vector<int64_t> token;
};
