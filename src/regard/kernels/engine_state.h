// The state of a search: the keys and values of the sources and of the tokens written so far, and which row each hypothesis
// had at each time.
//
// - Sources are packed without padding; a sentence's keys and values are computed once for all its hypotheses.
// - The keys and values of a time step stay where they were written. A table has the row of each hypothesis at each time,
//   so that reordering a beam copies a few integers.
// - Where only some tokens are allowed, only their logits are computed, with a layer of their columns built per batch.
//
// A model without an encoder reads the beginnings of its texts instead of sources. Called by engine.cpp, engine_search.h and
// engine_score.h. Shapes: B sentences, R rows, D model, I inner (all heads), V vocabulary, T times so far.
#pragma once

#include "engine_blocks.h"
#include "engine_stream.h"

struct ScoreCall;

// What positions add, at up to `length` of them: a row of D per position to the embeddings, or cosines and sines to rotate
// by; and to the scores a bias per head and offset, key position − query position, the first of which is 1 − length.
struct PositionTables {
  const float *rows, *bias;  // null: nothing
  int64_t length, bias_stride;

  ScoreBias bias_at(int64_t query) const { return {bias ? bias + length - 1 - query : nullptr, bias_stride}; }
  void check(int64_t positions) const {
    if ((rows || bias) && positions > length) throw std::out_of_range("the table of positions is too short");
  }
};

// The sentences of a batch one after the other, each with its EOS; position tables for every position that will occur; and
// the allowed target tokens, in order, or null for all.
struct SourceBatch {
  const int64_t *ids, *lengths;
  int64_t sentences, max_length;
  PositionTables src_positions, tgt_positions;
  const int64_t* allowed;
  int64_t n_allowed;
};

struct State {
  virtual ~State() = default;
  virtual const float* step(const int64_t* tokens, int64_t* width) = 0;  // logits, in rows of `width`
  virtual int64_t rows() const = 0;
  virtual void reorder(const int64_t* rows, int64_t count) = 0;
  virtual int64_t vocabulary() const = 0;
  virtual void copy_encoded(float* to, int64_t rows) const = 0;  // the encoder's output, a row of D per source token
  virtual int64_t score(const ScoreCall& call) = 0;              // engine_score.h

  int64_t columns() const { return allowed.empty() ? vocabulary() : allowed.size(); }
  int64_t token(int64_t column) const { return allowed.empty() ? column : allowed[column]; }
  // −1: the token has none.
  int64_t column(int64_t token) const {
    if (allowed.empty()) return token < vocabulary() ? token : -1;
    const auto place = std::lower_bound(allowed.begin(), allowed.end(), token);
    return place != allowed.end() && *place == token ? place - allowed.begin() : -1;
  }

  std::vector<int64_t> allowed;  // the tokens that have a column of the logits, in order; empty: all tokens
};

template <typename NumberFormat>
class StateOf : public State {
 public:
  using Cached = CacheValue<NumberFormat>;

  StateOf(const Model<NumberFormat>& model, WorkspacePool<NumberFormat>& pool, const SourceBatch& sources)
      : model_(model), borrowed_(pool), workspace_(*borrowed_.workspace), blocks_(workspace_.blocks),
        I(model.settings.inner()), max_length_(sources.max_length), src_positions_(sources.src_positions),
        tgt_positions_(sources.tgt_positions) {
    const ModelSettings& s = model.settings;
    if (s.decoder_layers) tgt_positions_.check(max_length_);
    row_at_.resize(element_count(sources.sentences, s.decoder_layers ? max_length_ : 0));
    times_.resize(model.decoder.size());
    for (int64_t b = 0; b < sources.sentences; ++b) sentence_.push_back(b);
    if (s.encoder_layers) {
      read_sources(sources);
    } else {
      read_beginnings(sources);
    }
    if (sources.allowed) {
      check_indices(sources.allowed, sources.n_allowed, vocabulary(), "allowed token");
      allowed.assign(sources.allowed, sources.allowed + sources.n_allowed);
      allowed_vocabulary_ = model_.vocabulary.select_columns(allowed);
    }
  }

  const float* step(const int64_t* tokens, int64_t* width) override {
    const int64_t R = rows(), time = length_;
    check_indices(tokens, R, vocabulary(), "target token");
    if (length_ == max_length_) throw std::out_of_range("the state has no space for another target token");
    begin_pass();
    ++length_;
    for (int64_t r = 0; r < R; ++r) row_at_[r * max_length_ + time] = static_cast<int32_t>(r);
    const std::vector<int64_t> positions(R, time);
    Stream<NumberFormat> stream(model_, workspace_);
    embed_target(stream, tokens, positions);
    decode(
        stream, [&](size_t layer, Cached* keys_values) { times_[layer].push_back(keys_values); },
        [&](size_t layer, int64_t r, const float* query, float* out) {
          const int32_t* row_at = row_at_.data() + r * max_length_;
          Cached* const* at = times_[layer].data();
          const int64_t width = 2 * I;
          attend(query, [=](int64_t t) { return at[t] + row_at[t] * width; }, length_, tgt_positions_.bias_at(time), out);
        },
        [&](size_t layer, int64_t r, const float* query, float* out) {
          attend_sentence(query, sentence_[r], memories_[layer].get(), {}, out);
        });
    const PackedLinear<NumberFormat>& vocabulary = allowed.empty() ? model_.vocabulary : allowed_vocabulary_;
    *width = vocabulary.padded;
    const float* logits = stream.project(vocabulary);
    failed_ = false;
    return logits;
  }

  int64_t rows() const override { return sentence_.size(); }
  int64_t vocabulary() const override { return model_.settings.tgt_vocabulary; }

  void reorder(const int64_t* rows, int64_t count) override {
    check_indices(rows, count, this->rows(), "row");
    std::vector<int32_t> row_at(element_count(count, max_length_));
    std::vector<int64_t> sentence(count);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(row_at_.data() + rows[r] * max_length_, length_, row_at.data() + r * max_length_);
      sentence[r] = sentence_[rows[r]];
    }
    row_at_ = std::move(row_at);
    sentence_ = std::move(sentence);
  }

  void copy_encoded(float* to, int64_t rows) const override {
    const int64_t D = model_.settings.d_model;
    if (rows != source_tokens_ || length_ || !model_.settings.post) {
      throw std::invalid_argument("the encoder's output is not there");
    }
    std::copy_n(workspace_.x.get(), rows * D, to);
  }

  int64_t score(const ScoreCall& call) override;

 private:
  // Returns its workspace to the pool, also if the constructor of the state throws.
  struct BorrowedWorkspace {
    explicit BorrowedWorkspace(WorkspacePool<NumberFormat>& pool) : pool(pool), workspace(pool.acquire()) {}
    ~BorrowedWorkspace() { pool.release(std::move(workspace)); }

    WorkspacePool<NumberFormat>& pool;
    std::unique_ptr<Workspace<NumberFormat>> workspace;
  };

  void read_sources(const SourceBatch& sources) {
    std::vector<int64_t> positions, sentence_of;
    for (int64_t b = 0; b < sources.sentences; ++b) {
      if (sources.lengths[b] < 1) throw std::invalid_argument("source " + std::to_string(b) + " of the batch is empty");
      src_positions_.check(sources.lengths[b]);
      starts_.push_back(positions.size());
      lengths_.push_back(sources.lengths[b]);
      for (int64_t position = 0; position < sources.lengths[b]; ++position) {
        positions.push_back(position);
        sentence_of.push_back(b);
      }
    }
    source_tokens_ = positions.size();
    check_indices(sources.ids, source_tokens_, model_.settings.src_vocabulary, "source token");
    encode(sources.ids, positions, sentence_of);
  }

  void encode(const int64_t* ids, const std::vector<int64_t>& positions, const std::vector<int64_t>& sentence_of) {
    const auto& layers = model_.encoder;
    const int64_t R = positions.size();
    AlignedArray<Cached> keys_values = allocate<Cached>(R, 2 * I);
    Stream<NumberFormat> stream(model_, workspace_);
    stream.embed(ids, positions.data(), R, model_.src_table, src_positions_.rows, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<NumberFormat>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.encoder_norm;
      const bool post = model_.settings.post;
      const int64_t width = layer.self.qkv.padded;
      const float* qkv = stream.project_qkv(layer.self.qkv);
      for (int64_t r = 0; r < R; ++r) convert_row(qkv + r * width + I, keys_values.get() + r * 2 * I, 2 * I);
      stream.attend(layer.self.out, post ? layer.self.norm : layer.ffn.norm, [&](int64_t r, float* out) {
        attend_sentence(qkv + r * width, sentence_of[r], keys_values.get(), src_positions_.bias_at(positions[r]), out);
      });
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
    for (const Layer<NumberFormat>& layer : model_.decoder) {
      const PackedLinear<NumberFormat>& linear = layer.cross.memory;
      const float* projected = stream.project(linear);
      memories_.push_back(allocate<Cached>(R, 2 * I));
      Cached* memory = memories_.back().get();
      for (int64_t r = 0; r < R; ++r) convert_row(projected + r * linear.padded, memory + r * 2 * I, 2 * I);
    }
  }

  // The beginnings of texts, all of one length, time after time: row t · B + b is token t of text b.
  void read_beginnings(const SourceBatch& texts) {
    const int64_t B = texts.sentences, length = B ? texts.lengths[0] : 0, total = element_count(B, length);
    for (int64_t b = 0; b < B; ++b) {
      if (texts.lengths[b] != length) throw std::invalid_argument("the beginnings of texts differ in length");
    }
    if (length > max_length_) throw std::out_of_range("the state has no space for the beginnings of the texts");
    check_indices(texts.ids, total, vocabulary(), "token");
    if (total == 0) return;
    std::vector<int64_t> tokens(total), positions(total);
    for (int64_t row = 0; row < total; ++row) {
      tokens[row] = texts.ids[row % B * length + row / B];
      positions[row] = row / B;
      row_at_[row % B * max_length_ + row / B] = static_cast<int32_t>(row % B);
    }
    length_ = length;
    begin_pass();
    Stream<NumberFormat> stream(model_, workspace_);
    embed_target(stream, tokens.data(), positions);
    const int64_t width = 2 * I, step = B * width;
    decode(
        stream,
        [&](size_t layer, Cached* keys_values) {
          for (int64_t t = 0; t < length; ++t) times_[layer].push_back(keys_values + t * step);
        },
        [&](size_t layer, int64_t row, const float* query, float* out) {
          const Cached* first = times_[layer][0] + row % B * width;
          const int64_t time = row / B;
          attend(query, [=](int64_t t) { return first + t * step; }, time + 1, tgt_positions_.bias_at(time), out);
        },
        [](size_t, int64_t, const float*, float*) {});
    failed_ = false;
  }

  void begin_pass() {
    if (failed_) throw std::logic_error("an earlier step of this search failed; begin again");
    if (model_.decoder.empty()) throw std::invalid_argument("this model has no decoder");
    failed_ = true;  // until the end of the pass is reached
  }

  void embed_target(Stream<NumberFormat>& stream, const int64_t* tokens, const std::vector<int64_t>& positions) {
    stream.embed(tokens, positions.data(), positions.size(), model_.tgt_table, tgt_positions_.rows,
                 model_.decoder[0].self.norm);
  }

  // The rows of `stream` through the decoder. `store(layer, keys_values)` is told where those of all rows are, then
  // `attend_self` and `attend_cross` (layer, row, query, out) compute the heads' outputs.
  template <typename Store, typename AttendSelf, typename AttendCross>
  void decode(Stream<NumberFormat>& stream, Store store, AttendSelf attend_self, AttendCross attend_cross) {
    const auto& layers = model_.decoder;
    const int64_t R = stream.rows;
    const bool post = model_.settings.post, has_cross = !model_.encoder.empty();
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<NumberFormat>& layer = layers[i];
      const int64_t width = layer.self.qkv.padded;
      const float* qkv = stream.project_qkv(layer.self.qkv);
      Cached* keys_values = reinterpret_cast<Cached*>(blocks_.allocate_bytes(R * 2 * I * sizeof(Cached)));
      for (int64_t r = 0; r < R; ++r) convert_row(qkv + r * width + I, keys_values + r * 2 * I, 2 * I);
      store(i, keys_values);
      const Norm& before_ffn = has_cross ? layer.cross.norm : layer.ffn.norm;
      stream.attend(layer.self.out, post ? layer.self.norm : before_ffn,
                    [&](int64_t r, float* out) { attend_self(i, r, qkv + r * width, out); });
      if (has_cross) {
        const int64_t query_width = layer.cross.qkv.padded;
        float* query = workspace_.qkv.at_least(R, query_width);
        layer.cross.qkv(workspace_.input, 0, R, query);
        stream.attend(layer.cross.out, post ? layer.cross.norm : layer.ffn.norm,
                      [&](int64_t r, float* out) { attend_cross(i, r, query + r * query_width, out); });
      }
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.decoder_norm;
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
  }

  void attend_sentence(const float* query, int64_t sentence, const Cached* keys_values, ScoreBias bias, float* out) {
    const int64_t count = lengths_[sentence], width = 2 * I;
    const Cached* first = keys_values + starts_[sentence] * width;
    attend(query, [=](int64_t j) { return first + j * width; }, count, bias, out);
  }

  template <typename Key>
  void attend(const float* query, Key key, int64_t count, ScoreBias bias, float* out) {
    const ModelSettings& s = model_.settings;
    attend_row<Cached>(query, key, count, s.score_scale, bias, I, s.n_heads, workspace_.attention, out);
  }

  const Model<NumberFormat>& model_;
  BorrowedWorkspace borrowed_;
  Workspace<NumberFormat>& workspace_;
  BlockAllocator blocks_;  // destroyed before the workspace that it returns its blocks to
  const int64_t I, max_length_;
  const PositionTables src_positions_, tgt_positions_;
  int64_t length_ = 0, source_tokens_ = 0;
  bool failed_ = false;
  std::vector<int64_t> starts_, lengths_, sentence_;
  std::vector<int32_t> row_at_;
  std::vector<AlignedArray<Cached>> memories_;    // per layer: keys and values of all sources
  std::vector<std::vector<Cached*>> times_;       // per layer and time: keys and values
  PackedLinear<NumberFormat> allowed_vocabulary_;  // the columns of the allowed tokens
};
