// What a search remembers: the sources' keys and values, the past's, and who stood where.
//
// - Sources are packed without padding; a sentence's keys and values are computed once, for all of its hypotheses.
// - The keys and values of each time stay where they were written. A table says in which row a hypothesis stood at
//   each time, so that a beam that changes places copies a few integers.
// - Where only some tokens are allowed, only they are projected, by a product of their columns made once a batch.
// Shapes: B sentences, R rows, D model, V vocabulary, T times so far.
#pragma once

#include "stream.h"

// Keys and values of the times so far, in blocks from `spare`, where they go back to.
class Blocks {
 public:
  explicit Blocks(std::vector<Memory<char>>& spare) : spare_(spare) {}
  ~Blocks() {
    for (auto& block : taken_) spare_.push_back(std::move(block));
  }
  char* take(int64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > SIZE) {
      large_.push_back(reserve<char>(bytes));
      return large_.back().get();
    }
    if (taken_.empty() || used_ + bytes > SIZE) {
      if (spare_.empty()) spare_.push_back(reserve<char>(SIZE));
      taken_.push_back(std::move(spare_.back()));
      spare_.pop_back();
      used_ = 0;
    }
    used_ += bytes;
    return taken_.back().get() + used_ - bytes;
  }

 private:
  static constexpr int64_t SIZE = 1 << 20;
  std::vector<Memory<char>>& spare_;
  std::vector<Memory<char>> taken_, large_;
  int64_t used_ = 0;
};

struct State {
  virtual ~State() = default;
  virtual const float* step(const int64_t* tokens, int64_t* width) = 0;  // logits; the width of their rows
  virtual int64_t rows() const = 0;
  virtual void reorder(const int64_t* rows, int64_t count) = 0;
  virtual int64_t vocabulary() const = 0;

  int64_t columns() const { return allowed.empty() ? vocabulary() : allowed.size(); }
  int64_t token(int64_t column) const { return allowed.empty() ? column : allowed[column]; }

  std::vector<int64_t> allowed;  // the tokens that have a column of the logits, in order; none: all of them
  std::vector<int64_t> suppressed;   // columns that are never chosen
};

// What is translated: sentences one after the other, each with its EOS; and rows of positions for every place there
// will be. `allowed` are the tokens that may be written, in order; null: all of them.
struct Sources {
  const int64_t *ids, *lengths;
  int64_t sentences, max_length;
  const float *src_positions, *tgt_positions;
  const int64_t* allowed;
  int64_t n_allowed;
};

template <typename NumberFormat>
class StateOf : public State {
 public:
  using Cached = CacheValue<NumberFormat>;

  StateOf(const Model<NumberFormat>& model, WorkspacePool<NumberFormat>& pool, const Sources& sources)
      : model_(model), pool_(pool), owned_(pool.take()), workspace_(*owned_),
        blocks_(std::make_unique<Blocks>(workspace_.blocks)), D(model.sizes.d_model), heads_(model.sizes.n_heads),
        max_length_(sources.max_length), positions_(sources.tgt_positions) {
    std::vector<int64_t> places, sentence_of;
    for (int64_t b = 0; b < sources.sentences; ++b) {
      starts_.push_back(places.size());
      lengths_.push_back(sources.lengths[b]);
      sentence_.push_back(b);
      for (int64_t place = 0; place < sources.lengths[b]; ++place) {
        places.push_back(place);
        sentence_of.push_back(b);
      }
    }
    encode(sources.ids, places, sentence_of, sources.src_positions);
    table_.resize(sources.sentences * max_length_);
    times_.resize(model.decoder.size());
    suppressed = model.suppressed;
    if (sources.allowed) allow(sources.allowed, sources.n_allowed);
  }

  ~StateOf() override {
    blocks_.reset();
    pool_.give_back(std::move(owned_));
  }

  const float* step(const int64_t* tokens, int64_t* width) override {
    const auto& layers = model_.decoder;
    const int64_t R = sentence_.size(), time = length_++;
    for (int64_t r = 0; r < R; ++r) table_[r * max_length_ + time] = static_cast<int32_t>(r);
    std::vector<int64_t> places(R, time);
    Stream<NumberFormat> stream(model_, workspace_);
    stream.begin(tokens, places.data(), R, model_.tgt_table, positions_, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<NumberFormat>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.decoder_norm;
      const bool post = model_.sizes.post;
      attend_past(stream, layer.self, post ? layer.self.norm : layer.cross.norm, times_[i]);
      attend_source(stream, layer.cross, post ? layer.cross.norm : layer.ffn.norm, memories_[i].get());
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
    const Product<NumberFormat>& vocabulary = allowed.empty() ? model_.vocabulary : picked_;
    *width = vocabulary.padded;
    return stream.project(vocabulary);
  }

  int64_t rows() const override { return sentence_.size(); }
  int64_t vocabulary() const override { return model_.sizes.tgt_vocabulary; }

  void reorder(const int64_t* rows, int64_t count) override {
    std::vector<int32_t> table(count * max_length_);
    std::vector<int64_t> sentence(count);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(table_.data() + rows[r] * max_length_, length_, table.data() + r * max_length_);
      sentence[r] = sentence_[rows[r]];
    }
    table_ = std::move(table);
    sentence_ = std::move(sentence);
  }

 private:
  void allow(const int64_t* tokens, int64_t count) {
    allowed.assign(tokens, tokens + count);
    picked_ = model_.vocabulary.pick(allowed);
    suppressed.clear();
    for (int64_t token : model_.suppressed) {
      auto place = std::lower_bound(allowed.begin(), allowed.end(), token);
      if (place != allowed.end() && *place == token) suppressed.push_back(place - allowed.begin());
    }
  }

  void encode(const int64_t* ids, const std::vector<int64_t>& places, const std::vector<int64_t>& sentence_of,
              const float* positions) {
    const auto& layers = model_.encoder;
    const int64_t R = places.size();
    Memory<Cached> kept = reserve<Cached>(R * 2 * D);
    Stream<NumberFormat> stream(model_, workspace_);
    stream.begin(ids, places.data(), R, model_.src_table, positions, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<NumberFormat>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.encoder_norm;
      const bool post = model_.sizes.post;
      const int64_t width = layer.self.qkv.padded;
      const float* qkv = stream.queries_keys_values(layer.self.qkv);
      for (int64_t r = 0; r < R; ++r) store(qkv + r * width + D, kept.get() + r * 2 * D, 2 * D);
      stream.attend(layer.self.out, post ? layer.self.norm : layer.ffn.norm, [&](int64_t r, float* out) {
        mix_sentence(qkv + r * width, sentence_of[r], kept.get(), out);
      });
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
    for (const Layer<NumberFormat>& layer : model_.decoder) {
      const Product<NumberFormat>& product = layer.cross.memory;
      const float* made = stream.project(product);
      memories_.push_back(reserve<Cached>(R * 2 * D));
      for (int64_t r = 0; r < R; ++r) store(made + r * product.padded, memories_.back().get() + r * 2 * D, 2 * D);
    }
  }

  void mix_sentence(const float* query, int64_t sentence, const Cached* kept, float* out) {
    const int64_t count = lengths_[sentence];
    const Cached* first = kept + starts_[sentence] * 2 * D;
    attend<Cached>(query, [=](int64_t j) { return first + j * 2 * D; }, count, D, heads_, workspace_.attention, out);
  }

  // Each row sees its own past: at time t it stood in row table[row, t] of the keys kept then.
  void attend_past(Stream<NumberFormat>& stream, const Attention<NumberFormat>& part, const Norm& after, std::vector<Cached*>& times) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    const float* qkv = stream.queries_keys_values(part.qkv);
    Cached* kept = reinterpret_cast<Cached*>(blocks_->take(R * 2 * D * sizeof(Cached)));
    for (int64_t r = 0; r < R; ++r) store(qkv + r * width + D, kept + r * 2 * D, 2 * D);
    times.push_back(kept);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      const int32_t* stood = table_.data() + r * max_length_;
      Cached* const* at = times.data();
      const auto key = [=](int64_t t) { return at[t] + stood[t] * 2 * D; };
      attend<Cached>(qkv + r * width, key, length_, D, heads_, workspace_.attention, out);
    });
  }

  void attend_source(Stream<NumberFormat>& stream, const Attention<NumberFormat>& part, const Norm& after, const Cached* memory) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    float* query = workspace_.qkv.at_least(R * width);
    part.qkv(workspace_.seen, 0, R, query);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      mix_sentence(query + r * width, sentence_[r], memory, out);
    });
  }

  const Model<NumberFormat>& model_;
  WorkspacePool<NumberFormat>& pool_;
  std::unique_ptr<Workspace<NumberFormat>> owned_;
  Workspace<NumberFormat>& workspace_;
  std::unique_ptr<Blocks> blocks_;
  const int64_t D, heads_, max_length_;
  const float* positions_;
  int64_t length_ = 0;
  std::vector<int64_t> starts_, lengths_, sentence_;
  std::vector<int32_t> table_;
  std::vector<Memory<Cached>> memories_;      // a layer's keys and values of all sources
  std::vector<std::vector<Cached*>> times_;   // a layer's keys and values of each time
  Product<NumberFormat> picked_;                    // of the vocabulary, where only some tokens are allowed
};
