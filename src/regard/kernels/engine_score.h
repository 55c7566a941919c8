// The probability of given translations (teacher forcing, decode/scoring.py) and the attention of their tokens to the source
// (word alignment); without an encoder, of texts. All tokens of all translations pass through the decoder at once, each translation attending to its own
// past.
//
// Called by engine.cpp. Shapes: R tokens of all translations, L tokens of one, M source tokens, V vocabulary.
#pragma once

#include "engine_state.h"

struct ScoreCall {
  const int64_t *ids, *lengths;  // the translations one after the other, each with its EOS; one per source
  int64_t bos;
  float* log_probs;            // of each token
  const float* head_weights;   // of each head of each layer in the attention; may be null
  float* attention;            // Σ weight · attention: L × M numbers per translation, one after the other; may be null
};

// Returns 0, or the number (from 1) of the first target token whose logits had a NaN or +∞.
template <typename NumberFormat>
int64_t StateOf<NumberFormat>::score(const ScoreCall& call) {
  if (length_) throw std::invalid_argument("a state cannot be scored after its first step");
  std::vector<int64_t> tokens, positions, sentence_of, first_row, attention_at;
  int64_t attention_size = 0, not_finite = 0;
  for (int64_t b = 0; b < rows(); ++b) {
    if (call.lengths[b] < 1) throw std::invalid_argument("translation " + std::to_string(b) + " has no tokens");
    if (call.lengths[b] > max_length_) throw std::out_of_range("a translation is longer than the state has space for");
    first_row.push_back(tokens.size());
    for (int64_t l = 0; l < call.lengths[b]; ++l) {
      tokens.push_back(l == 0 ? call.bos : call.ids[tokens.size() - 1]);
      positions.push_back(l);
      sentence_of.push_back(b);
      attention_at.push_back(attention_size);
      if (!model_.encoder.empty()) attention_size += lengths_[b];
    }
  }
  const int64_t R = tokens.size(), heads = model_.settings.n_heads, width = 2 * I;
  check_indices(call.ids, R, vocabulary(), "target token");
  check_indices(&call.bos, 1, vocabulary(), "target token");
  if (call.attention) std::fill_n(call.attention, attention_size, 0.0f);
  begin_pass();
  length_ = max_length_;  // it cannot be used for a search after this
  Stream<NumberFormat> stream(model_, workspace_);
  embed_target(stream, tokens.data(), positions);
  std::vector<Cached*> stored(model_.decoder.size());
  decode(
      stream, [&](size_t layer, Cached* keys_values) { stored[layer] = keys_values; },
      [&](size_t layer, int64_t r, const float* query, float* out) {
        const Cached* first = stored[layer] + first_row[sentence_of[r]] * width;
        const int64_t time = positions[r];
        attend(query, [=](int64_t t) { return first + t * width; }, time + 1, tgt_positions_.bias_at(time), out);
      },
      [&](size_t layer, int64_t r, const float* query, float* out) {
        attend_sentence(query, sentence_of[r], memories_[layer].get(), {}, out);
        if (!call.attention) return;
        const int64_t M = lengths_[sentence_of[r]];
        for (int64_t h = 0; h < heads; ++h) {
          const float* weights = workspace_.attention.weights.get() + h * round_up(M);
          const float share = call.head_weights ? call.head_weights[layer * heads + h] : 0.0f;
          for (int64_t m = 0; m < M; ++m) call.attention[attention_at[r] + m] += share * weights[m];
        }
      });
  const PackedLinear<NumberFormat>& vocabulary = allowed.empty() ? model_.vocabulary : allowed_vocabulary_;
  constexpr int64_t BLOCK_ROWS = Workspace<NumberFormat>::BLOCK_ROWS;
  float* logits = workspace_.projected.at_least(BLOCK_ROWS, vocabulary.padded);
  std::vector<float> highest(columns() / BLOCK + 1);
  for (int64_t first = 0; first < R; first += BLOCK_ROWS) {
    const int64_t count = std::min(BLOCK_ROWS, R - first);
    vocabulary(workspace_.input, first, count, logits);
    for (int64_t r = first; r < first + count; ++r) {
      const float* line = logits + (r - first) * vocabulary.padded;
      const float log_sum = log_sum_exp(line, columns(), highest.data());
      if (std::isnan(log_sum) && not_finite == 0) not_finite = positions[r] + 1;
      const int64_t wanted = column(call.ids[r]);
      call.log_probs[r] = wanted < 0 ? -INFINITY : line[wanted] - log_sum;
    }
  }
  failed_ = false;
  return not_finite;
}
