// The state of a search: the keys and values of the sources and of the tokens written so far, and which row each hypothesis
// had at each time.
//
// - Sources are packed without padding; a sentence's keys and values are computed once for all its hypotheses.
// - The keys and values of a time step stay where they were written. A table has the row of each hypothesis at each time,
//   so that reordering a beam copies a few integers.
// - Where only some tokens are allowed, only their logits are computed, with a layer of their columns built per batch.
//
// Called by engine.cpp and engine_beam.h. Shapes: B sentences, R rows, D model, I inner (all heads), V
// vocabulary, T times so far.
#pragma once

#include "engine_stream.h"

// Memory for the keys and values of the times so far, in blocks from `spare`, to which they return.
class BlockAllocator {
 public:
  explicit BlockAllocator(std::vector<AlignedArray<char>>& spare) : spare_(spare) {}
  ~BlockAllocator() {
    for (auto& block : taken_) spare_.push_back(std::move(block));
  }
  char* allocate_bytes(int64_t bytes) {
    bytes = round_up(bytes, 64);
    if (bytes > SIZE) {
      large_.push_back(allocate<char>(bytes));
      return large_.back().get();
    }
    if (taken_.empty() || used_ + bytes > SIZE) {
      if (spare_.empty()) spare_.push_back(allocate<char>(SIZE));
      spare_.reserve(spare_.size() + taken_.size());  // so that the destructor never allocates
      taken_.push_back(std::move(spare_.back()));
      spare_.pop_back();
      used_ = 0;
    }
    used_ += bytes;
    return taken_.back().get() + used_ - bytes;
  }

 private:
  static constexpr int64_t SIZE = 1 << 20;
  std::vector<AlignedArray<char>>& spare_;
  std::vector<AlignedArray<char>> taken_, large_;
  int64_t used_ = 0;
};

struct State {
  virtual ~State() = default;
  virtual const float* step(const int64_t* tokens, int64_t* width) = 0;  // logits, in rows of `width`
  virtual int64_t rows() const = 0;
  virtual void reorder(const int64_t* rows, int64_t count) = 0;
  virtual int64_t vocabulary() const = 0;

  int64_t columns() const { return allowed.empty() ? vocabulary() : allowed.size(); }
  int64_t token(int64_t column) const { return allowed.empty() ? column : allowed[column]; }

  std::vector<int64_t> allowed;     // the tokens that have a column of the logits, in order; empty: all tokens
  std::vector<int64_t> suppressed;  // columns that are never chosen
};

// What positions add, at up to `length` of them: a row of D per position to the embeddings, or cosines and sines to rotate
// by; and to the scores a bias per head and offset, key position − query position, the first of which is 1 − length.
struct PositionTables {
  const float *rows, *bias;  // null: nothing
  int64_t length, bias_stride;

  ScoreBias bias_at(int64_t query) const { return {bias ? bias + length - 1 - query : nullptr, bias_stride}; }
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

template <typename NumberFormat>
class StateOf : public State {
 public:
  using Cached = CacheValue<NumberFormat>;

  StateOf(const Model<NumberFormat>& model, WorkspacePool<NumberFormat>& pool, const SourceBatch& sources)
      : model_(model), borrowed_(pool), workspace_(*borrowed_.workspace), blocks_(workspace_.blocks),
        I(model.settings.inner()), max_length_(sources.max_length), src_positions_(sources.src_positions),
        tgt_positions_(sources.tgt_positions) {
    std::vector<int64_t> positions, sentence_of;
    for (int64_t b = 0; b < sources.sentences; ++b) {
      if (sources.lengths[b] < 1) throw std::invalid_argument("source " + std::to_string(b) + " of the batch is empty");
      starts_.push_back(positions.size());
      lengths_.push_back(sources.lengths[b]);
      sentence_.push_back(b);
      for (int64_t position = 0; position < sources.lengths[b]; ++position) {
        positions.push_back(position);
        sentence_of.push_back(b);
      }
    }
    check_indices(sources.ids, positions.size(), model.settings.src_vocabulary, "source token");
    encode(sources.ids, positions, sentence_of);
    row_at_.resize(element_count(sources.sentences, max_length_));
    times_.resize(model.decoder.size());
    suppressed = model.suppressed;
    if (sources.allowed) allow(sources.allowed, sources.n_allowed);
  }

  const float* step(const int64_t* tokens, int64_t* width) override {
    const auto& layers = model_.decoder;
    const int64_t R = sentence_.size();
    check_indices(tokens, R, model_.settings.tgt_vocabulary, "target token");
    if (length_ == max_length_) throw std::out_of_range("the state has no space for another target token");
    if (failed_) throw std::logic_error("an earlier step of this search failed; begin again");
    failed_ = true;  // until the end of this function is reached
    const int64_t time = length_++;
    for (int64_t r = 0; r < R; ++r) row_at_[r * max_length_ + time] = static_cast<int32_t>(r);
    std::vector<int64_t> positions(R, time);
    Stream<NumberFormat> stream(model_, workspace_);
    stream.embed(tokens, positions.data(), R, model_.tgt_table, tgt_positions_.rows, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<NumberFormat>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.decoder_norm;
      const bool post = model_.settings.post;
      attend_past(stream, layer.self, post ? layer.self.norm : layer.cross.norm, times_[i]);
      attend_source(stream, layer.cross, post ? layer.cross.norm : layer.ffn.norm, memories_[i].get());
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
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

 private:
  // Returns its workspace to the pool, also if the constructor of the state throws.
  struct BorrowedWorkspace {
    explicit BorrowedWorkspace(WorkspacePool<NumberFormat>& pool) : pool(pool), workspace(pool.acquire()) {}
    ~BorrowedWorkspace() { pool.release(std::move(workspace)); }

    WorkspacePool<NumberFormat>& pool;
    std::unique_ptr<Workspace<NumberFormat>> workspace;
  };

  void allow(const int64_t* tokens, int64_t count) {
    check_indices(tokens, count, vocabulary(), "allowed token");
    allowed.assign(tokens, tokens + count);
    allowed_vocabulary_ = model_.vocabulary.select_columns(allowed);
    suppressed.clear();
    for (int64_t token : model_.suppressed) {
      auto place = std::lower_bound(allowed.begin(), allowed.end(), token);
      if (place != allowed.end() && *place == token) suppressed.push_back(place - allowed.begin());
    }
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

  void attend_sentence(const float* query, int64_t sentence, const Cached* keys_values, ScoreBias bias, float* out) {
    const int64_t count = lengths_[sentence];
    const Cached* first = keys_values + starts_[sentence] * 2 * I;
    const auto key = [=](int64_t j) { return first + j * 2 * I; };
    attend(query, key, count, bias, out);
  }

  template <typename Key>
  void attend(const float* query, Key key, int64_t count, ScoreBias bias, float* out) {
    const ModelSettings& s = model_.settings;
    attend_row<Cached>(query, key, count, s.score_scale, bias, I, s.n_heads, workspace_.attention, out);
  }

  // Each row attends to its own past: at time t its keys and values are in row row_at[row, t] of that time's.
  void attend_past(Stream<NumberFormat>& stream, const Attention<NumberFormat>& part, const Norm& after,
                   std::vector<Cached*>& times) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    const float* qkv = stream.project_qkv(part.qkv);
    Cached* keys_values = reinterpret_cast<Cached*>(blocks_.allocate_bytes(R * 2 * I * sizeof(Cached)));
    for (int64_t r = 0; r < R; ++r) convert_row(qkv + r * width + I, keys_values + r * 2 * I, 2 * I);
    times.push_back(keys_values);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      const int32_t* row_at = row_at_.data() + r * max_length_;
      Cached* const* at = times.data();
      const auto key = [=](int64_t t) { return at[t] + row_at[t] * 2 * I; };
      attend(qkv + r * width, key, length_, tgt_positions_.bias_at(length_ - 1), out);
    });
  }

  void attend_source(Stream<NumberFormat>& stream, const Attention<NumberFormat>& part, const Norm& after,
                     const Cached* memory) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    float* query = workspace_.qkv.at_least(R, width);
    part.qkv(workspace_.input, 0, R, query);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      attend_sentence(query + r * width, sentence_[r], memory, {}, out);
    });
  }

  const Model<NumberFormat>& model_;
  BorrowedWorkspace borrowed_;
  Workspace<NumberFormat>& workspace_;
  BlockAllocator blocks_;  // destroyed before the workspace that it returns its blocks to
  const int64_t I, max_length_;
  const PositionTables src_positions_, tgt_positions_;
  int64_t length_ = 0;
  bool failed_ = false;
  std::vector<int64_t> starts_, lengths_, sentence_;
  std::vector<int32_t> row_at_;
  std::vector<AlignedArray<Cached>> memories_;    // per layer: keys and values of all sources
  std::vector<std::vector<Cached*>> times_;       // per layer and time: keys and values
  PackedLinear<NumberFormat> allowed_vocabulary_;  // the columns of the allowed tokens
};
