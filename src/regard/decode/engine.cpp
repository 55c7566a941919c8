// The Transformer laid out for translating, and the search through it: the mathematics of models/transformer.py and
// of beam.py, one thread a batch. engine.py says how it is called.
//
// - Sources are packed without padding; a sentence's keys and values are computed once, for all of its hypotheses.
// - Where only some tokens are allowed, only they are projected, by a product of their columns made once a batch.
// - The keys and values of each time stay where they were written. A table says in which row a hypothesis stood at
//   each time, so that a beam that changes places copies a few integers.
// Shapes: B sentences, R rows, D model, F feed-forward, V vocabulary, T times so far, C continuations of a row.

#include <mutex>

#include "rows.h"

namespace {

// ---- the model ----

struct Sizes {
  int64_t d_model, n_heads, d_ff, encoder_layers, decoder_layers, src_vocabulary, tgt_vocabulary;
  int64_t post, centred, activation, output_bias;
};

// Takes the weights one by one, in the order in which engine.py lists them.
struct Weights {
  const float* const* next;
  const float* take() { return *next++; }
};

template <typename Form>
struct Attention {
  Product<Form> qkv, out;  // of cross-attention: the query alone
  Product<Form> memory;    // of cross-attention: keys and values
  Norm norm;
};

template <typename Form>
struct FeedForward {
  Product<Form> up, down;
  Norm norm;
};

template <typename Form>
struct Layer {
  Attention<Form> self, cross;
  FeedForward<Form> ffn;
};

template <typename Form>
struct Model {
  Sizes sizes;
  float eps;
  float scale;  // of the embeddings
  const float *src_table, *tgt_table;
  std::vector<Layer<Form>> encoder, decoder;
  Norm encoder_norm, decoder_norm;  // of pre-norm stacks
  Product<Form> vocabulary;
  std::vector<int64_t> barred;

  Model(const Sizes& s, float eps, float scale, Weights weights, std::vector<int64_t> barred)
      : sizes(s), eps(eps), scale(scale), barred(std::move(barred)) {
    src_table = weights.take();
    tgt_table = weights.take();
    for (int64_t i = 0; i < s.encoder_layers; ++i) encoder.push_back(layer(weights, false));
    for (int64_t i = 0; i < s.decoder_layers; ++i) decoder.push_back(layer(weights, true));
    if (!s.post) {
      encoder_norm = norm(weights);
      decoder_norm = norm(weights);
    }
    const float* matrix = weights.take();
    vocabulary = Product<Form>(matrix, s.output_bias ? weights.take() : nullptr, s.tgt_vocabulary, s.d_model);
  }

  Norm norm(Weights& weights) const {
    const float* gain = weights.take();
    return {gain, sizes.centred ? weights.take() : nullptr, eps, sizes.centred != 0};
  }

  Layer<Form> layer(Weights& weights, bool crosses) const {
    const int64_t D = sizes.d_model, F = sizes.d_ff, up = sizes.activation == SWIGLU ? 2 * F : F;
    auto product = [&](int64_t columns, int64_t width) {
      const float* matrix = weights.take();
      return Product<Form>(matrix, weights.take(), columns, width);
    };
    Layer<Form> made;
    made.self.qkv = product(3 * D, D);
    made.self.out = product(D, D);
    made.self.norm = norm(weights);
    if (crosses) {
      const float *matrix = weights.take(), *bias = weights.take();
      made.cross.qkv = Product<Form>(matrix, bias, D, D);
      made.cross.memory = Product<Form>(matrix + D * D, bias + D, 2 * D, D);
      made.cross.out = product(D, D);
      made.cross.norm = norm(weights);
    }
    made.ffn.up = product(up, D);
    made.ffn.down = product(D, F);
    made.ffn.norm = norm(weights);
    return made;
  }
};

// ---- one pass through a stack of layers ----

// Room that is used again at every step and, since fresh memory is dear, by search after search. Rows are taken through
// the products a few at a time, so that what lies between two products is still in the cache.
template <typename Form>
struct Bench {
  static constexpr int64_t AT_ONCE = 96;
  Rows<Form> seen, between;
  Buffer<float> x, row, qkv, scores, made, change;
  std::vector<Memory<char>> blocks;  // for keys and values
};

// The benches that nobody works at.
template <typename Form>
class Workshop {
 public:
  std::unique_ptr<Bench<Form>> take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return std::make_unique<Bench<Form>>();
    auto bench = std::move(free_.back());
    free_.pop_back();
    return bench;
  }
  void give_back(std::unique_ptr<Bench<Form>> bench) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(bench));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Bench<Form>>> free_;
};

template <typename Form>
class Stream {
 public:
  Stream(const Model<Form>& model, Bench<Form>& bench) : model(model), D(model.sizes.d_model), bench(bench) {}

  // x_RD = embedding · scale + position; the first sublayer sees it, normed if pre-norm.
  void begin(const int64_t* ids, const int64_t* places, int64_t count, const float* table, const float* positions,
             const Norm& first) {
    rows = count;
    bench.x.at_least(rows * D);
    bench.row.at_least(2 * D);
    bench.seen.resize(rows, D);
    for (int64_t r = 0; r < rows; ++r) {
      const float* from = table + ids[r] * D;
      float* x = bench.x.get() + r * D;
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) x[d] = from[d] * model.scale;
      if (positions) {
        const float* place = positions + places[r] * D;
#pragma omp simd
        for (int64_t d = 0; d < D; ++d) x[d] += place[d];
      }
      show(r, x, model.sizes.post ? Norm{} : first);
    }
  }

  // made_RN = seen W: what the sublayer looks at first.
  const float* project(const Product<Form>& product) {
    float* made = bench.made.at_least(rows * product.padded);
    product(bench.seen, 0, rows, made);
    return made;
  }

  // Each row's attention, `mix(row, out)`, through W_O, onto the stream.
  template <typename Mix>
  void attend(const Product<Form>& out, const Norm& after, Mix mix) {
    bench.between.resize(rows, D);
    float* mixed = bench.row.get();
    for (int64_t r = 0; r < rows; ++r) {
      mix(r, mixed);
      bench.between.take(r, mixed);
    }
    float* change = bench.change.at_least(Bench<Form>::AT_ONCE * out.padded);
    for (int64_t first = 0; first < rows; first += Bench<Form>::AT_ONCE) {
      int64_t count = std::min(Bench<Form>::AT_ONCE, rows - first);
      out(bench.between, first, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * out.padded, after);
    }
  }

  void feed_forward(const FeedForward<Form>& ffn, const Norm& after) {
    const auto kind = static_cast<Activation>(model.sizes.activation);
    const int64_t up = ffn.up.columns;
    bench.between.resize(Bench<Form>::AT_ONCE, model.sizes.d_ff);
    float* hidden = bench.made.at_least(Bench<Form>::AT_ONCE * ffn.up.padded);
    float* change = bench.change.at_least(Bench<Form>::AT_ONCE * ffn.down.padded);
    for (int64_t first = 0; first < rows; first += Bench<Form>::AT_ONCE) {
      int64_t count = std::min(Bench<Form>::AT_ONCE, rows - first);
      ffn.up(bench.seen, first, count, hidden);
      for (int64_t r = 0; r < count; ++r) {
        activate(hidden + r * ffn.up.padded, up, kind);
        bench.between.take(r, hidden + r * ffn.up.padded);
      }
      ffn.down(bench.between, 0, count, change);
      for (int64_t r = 0; r < count; ++r) add(first + r, change + r * ffn.down.padded, after);
    }
  }

  int64_t rows = 0;

 private:
  // post: x = norm(x + change).  pre: x = x + change, and the next sublayer sees norm(x).
  void add(int64_t r, const float* change, const Norm& norm) {
    float *x = bench.x.get() + r * D, *sum = bench.row.get() + D;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) sum[d] = x[d] + change[d];
    if (model.sizes.post) {
      norm(sum, x, D);
      bench.seen.take(r, x);
    } else {
      std::copy_n(sum, D, x);
      show(r, x, norm);
    }
  }

  void show(int64_t r, const float* x, const Norm& norm) {
    float* normed = bench.row.get();
    if (norm.gain) norm(x, normed, D);
    bench.seen.take(r, norm.gain ? normed : x);
  }

  const Model<Form>& model;
  const int64_t D;
  Bench<Form>& bench;
};

// ---- the state of a search ----

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
  std::vector<int64_t> barred;   // columns that are never chosen
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

template <typename Form>
class StateOf : public State {
 public:
  using Kept = typename Form::Kept;

  StateOf(const Model<Form>& model, Workshop<Form>& workshop, const Sources& sources)
      : model_(model), workshop_(workshop), lent_(workshop.take()), bench_(*lent_),
        blocks_(std::make_unique<Blocks>(bench_.blocks)), D(model.sizes.d_model), max_length_(sources.max_length),
        positions_(sources.tgt_positions) {
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
    barred = model.barred;
    if (sources.allowed) allow(sources.allowed, sources.n_allowed);
  }

  ~StateOf() override {
    blocks_.reset();
    workshop_.give_back(std::move(lent_));
  }

  const float* step(const int64_t* tokens, int64_t* width) override {
    const auto& layers = model_.decoder;
    const int64_t R = sentence_.size(), time = length_++;
    for (int64_t r = 0; r < R; ++r) table_[r * max_length_ + time] = static_cast<int32_t>(r);
    std::vector<int64_t> places(R, time);
    Stream<Form> stream(model_, bench_);
    stream.begin(tokens, places.data(), R, model_.tgt_table, positions_, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<Form>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.decoder_norm;
      const bool post = model_.sizes.post;
      attend_past(stream, layer.self, post ? layer.self.norm : layer.cross.norm, times_[i]);
      attend_source(stream, layer.cross, post ? layer.cross.norm : layer.ffn.norm, memories_[i].get());
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
    const Product<Form>& vocabulary = allowed.empty() ? model_.vocabulary : picked_;
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
    barred.clear();
    for (int64_t token : model_.barred) {
      auto place = std::lower_bound(allowed.begin(), allowed.end(), token);
      if (place != allowed.end() && *place == token) barred.push_back(place - allowed.begin());
    }
  }

  void encode(const int64_t* ids, const std::vector<int64_t>& places, const std::vector<int64_t>& sentence_of,
              const float* positions) {
    const auto& layers = model_.encoder;
    const int64_t R = places.size();
    Memory<Kept> kept = reserve<Kept>(R * 2 * D);
    Stream<Form> stream(model_, bench_);
    stream.begin(ids, places.data(), R, model_.src_table, positions, layers[0].self.norm);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer<Form>& layer = layers[i];
      const Norm& next = i + 1 < layers.size() ? layers[i + 1].self.norm : model_.encoder_norm;
      const bool post = model_.sizes.post;
      const int64_t width = layer.self.qkv.padded;
      float* qkv = bench_.qkv.at_least(R * width);
      layer.self.qkv(bench_.seen, 0, R, qkv);
      for (int64_t r = 0; r < R; ++r) keep(qkv + r * width + D, kept.get() + r * 2 * D, 2 * D);
      stream.attend(layer.self.out, post ? layer.self.norm : layer.ffn.norm, [&](int64_t r, float* out) {
        mix_sentence(qkv + r * width, sentence_of[r], kept.get(), out);
      });
      stream.feed_forward(layer.ffn, post ? layer.ffn.norm : next);
    }
    for (const Layer<Form>& layer : model_.decoder) {
      const Product<Form>& product = layer.cross.memory;
      const float* made = stream.project(product);
      memories_.push_back(reserve<Kept>(R * 2 * D));
      for (int64_t r = 0; r < R; ++r) keep(made + r * product.padded, memories_.back().get() + r * 2 * D, 2 * D);
    }
  }

  void mix_sentence(const float* query, int64_t sentence, const Kept* kept, float* out) {
    const int64_t count = lengths_[sentence];
    const Kept* first = kept + starts_[sentence] * 2 * D;
    mix(query, [=](int64_t j) { return first + j * 2 * D; }, count, out);
  }

  template <typename Key>
  void mix(const float* query, Key key, int64_t count, float* out) {
    const int64_t heads = model_.sizes.n_heads;
    const float scale = 1.0f / std::sqrt(static_cast<float>(D / heads));
    attend<Kept>(query, key, count, scale, D, heads, bench_.scores.at_least(heads * count), out);
  }

  // Each row sees its own past: at time t it stood in row table[row, t] of the keys kept then.
  void attend_past(Stream<Form>& stream, const Attention<Form>& part, const Norm& after, std::vector<Kept*>& times) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    float* qkv = bench_.qkv.at_least(R * width);
    part.qkv(bench_.seen, 0, R, qkv);
    Kept* kept = reinterpret_cast<Kept*>(blocks_->take(R * 2 * D * sizeof(Kept)));
    for (int64_t r = 0; r < R; ++r) keep(qkv + r * width + D, kept + r * 2 * D, 2 * D);
    times.push_back(kept);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      const int32_t* stood = table_.data() + r * max_length_;
      Kept* const* at = times.data();
      mix(qkv + r * width, [=](int64_t t) { return at[t] + stood[t] * 2 * D; }, length_, out);
    });
  }

  void attend_source(Stream<Form>& stream, const Attention<Form>& part, const Norm& after, const Kept* memory) {
    const int64_t R = stream.rows, width = part.qkv.padded;
    float* query = bench_.qkv.at_least(R * width);
    part.qkv(bench_.seen, 0, R, query);
    stream.attend(part.out, after, [&](int64_t r, float* out) {
      mix_sentence(query + r * width, sentence_[r], memory, out);
    });
  }

  const Model<Form>& model_;
  Workshop<Form>& workshop_;
  std::unique_ptr<Bench<Form>> lent_;
  Bench<Form>& bench_;
  std::unique_ptr<Blocks> blocks_;
  const int64_t D, max_length_;
  const float* positions_;
  int64_t length_ = 0;
  std::vector<int64_t> starts_, lengths_, sentence_;
  std::vector<int32_t> table_;
  std::vector<Memory<Kept>> memories_;      // a layer's keys and values of all sources
  std::vector<std::vector<Kept*>> times_;   // a layer's keys and values of each time
  Product<Form> picked_;                    // of the vocabulary, where only some tokens are allowed
};

// ---- the search ----

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

struct Ended {
  double score;
  int64_t node, length;
  float total;
  bool finished;
};

// beam.py says what a step is. Returns 0, or the place of the first token whose probabilities were not numbers.
class Beam {
 public:
  Beam(State& state, const Search& how, int64_t sentences, int64_t bos, int64_t eos)
      : state(state), how(how), B(sentences), bos(bos), eos(eos), finished(sentences), cut(sentences),
        worst(sentences, -INFINITY) {}

  int64_t run() {
    for (int64_t b = 0; b < B; ++b) living.push_back({b, b, -1, 0.0f});
    std::vector<int64_t> tokens(B, bos), parents;
    const int64_t longest = *std::max_element(how.max_lengths, how.max_lengths + B);
    for (int64_t position = 0; position < longest; ++position) {
      if (!grow(tokens)) return position + 1;
      settle(position + 1);
      std::vector<Candidate> next;
      tokens.clear();
      parents.clear();
      for (const Candidate& one : grown) {
        if (nodes[one.node].token == eos || how.max_lengths[one.sentence] == position + 1) continue;
        const float largest = static_cast<float>(how.divisors[how.max_lengths[one.sentence]]);
        if (!(one.total / largest > static_cast<float>(worst[one.sentence]))) continue;
        tokens.push_back(nodes[one.node].token);
        parents.push_back(one.row);
        next.push_back(one);
      }
      if (next.empty()) break;
      for (size_t r = 0; r < next.size(); ++r) next[r].row = r;
      const bool moved = parents.size() != living.size() || !in_place(parents);
      living = std::move(next);
      if (moved) state.reorder(parents.data(), parents.size());
    }
    for (int64_t b = 0; b < B; ++b) tell(b);
    return 0;
  }

 private:
  static bool in_place(const std::vector<int64_t>& rows) {
    for (size_t r = 0; r < rows.size(); ++r)
      if (rows[r] != static_cast<int64_t>(r)) return false;
    return true;
  }

  // The `beam` best continuations of each sentence, best first; of equals, the one further left.
  bool grow(const std::vector<int64_t>& tokens) {
    int64_t width, words = std::min(how.beam, state.columns());
    float* logits = const_cast<float*>(state.step(tokens.data(), &width));
    best.resize(words);
    token.resize(words);
    highest.resize(state.columns() / BLOCK + 1);
    grown.clear();
    bool numbers = true;
    std::vector<Candidate> row_best;
    std::vector<Node> row_nodes;
    for (size_t first = 0; first < living.size();) {
      const int64_t sentence = living[first].sentence;
      row_best.clear();
      row_nodes.clear();
      size_t r = first;
      for (; r < living.size() && living[r].sentence == sentence; ++r) {
        numbers &= best_words(logits + r * width, state.columns(), state.barred, words, highest.data(), best.data(),
                              token.data());
        for (int64_t c = 0; c < words && best[c] > -INFINITY; ++c) {
          const float total = living[r].total + best[c];
          if (static_cast<int64_t>(row_best.size()) == how.beam && !(total > row_best.back().total)) continue;
          size_t place = row_best.size();
          while (place > 0 && row_best[place - 1].total < total) --place;
          row_best.insert(row_best.begin() + place, {sentence, static_cast<int64_t>(r), 0, total});
          row_nodes.insert(row_nodes.begin() + place, {living[r].node, state.token(token[c]), best[c]});
          if (static_cast<int64_t>(row_best.size()) > how.beam) {
            row_best.pop_back();
            row_nodes.pop_back();
          }
        }
      }
      for (size_t i = 0; i < row_best.size(); ++i) {
        row_best[i].node = nodes.size();
        nodes.push_back(row_nodes[i]);
        grown.push_back(row_best[i]);
      }
      if (row_best.empty()) {  // every next token is forbidden
        for (size_t own = first; own < r; ++own) end(living[own], cut, false);
      }
      first = r;
    }
    return numbers;
  }

  // Take leave of what ended and of what has its full length.
  void settle(int64_t length) {
    for (const Candidate& one : grown) {
      if (nodes[one.node].token == eos) {
        end(one, finished, true);
        auto& kept = finished[one.sentence];
        if (static_cast<int64_t>(kept.size()) > how.n_best) kept.pop_back();
        if (static_cast<int64_t>(kept.size()) == how.n_best) worst[one.sentence] = kept.back().score;
      } else if (how.max_lengths[one.sentence] == length) {
        end(one, cut, false);
      }
    }
  }

  // Highest score first; of equals, the one found first.
  void end(const Candidate& one, std::vector<std::vector<Ended>>& where, bool done) {
    int64_t length = 0;
    for (int64_t node = one.node; node >= 0; node = nodes[node].before) ++length;
    const double score = static_cast<double>(one.total) / how.divisors[length];
    auto& kept = where[one.sentence];
    size_t place = kept.size();
    while (place > 0 && kept[place - 1].score < score) --place;
    kept.insert(kept.begin() + place, {score, one.node, length, one.total, done});
  }

  void tell(int64_t sentence) {
    std::vector<Ended>& all = finished[sentence];
    all.insert(all.end(), cut[sentence].begin(), cut[sentence].end());
    for (int64_t i = 0; i < how.n_best; ++i) {
      const int64_t at = sentence * how.n_best + i;
      how.lengths[at] = 0;
      how.finished[at] = -1;
      if (i >= static_cast<int64_t>(all.size())) continue;
      const Ended& one = all[i];
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
  std::vector<Candidate> living, grown;
  std::vector<std::vector<Ended>> finished, cut;
  std::vector<double> worst;  // the score that a newcomer must beat
  std::vector<float> best, highest;
  std::vector<int64_t> token;
};

// ---- what engine.py calls ----

struct Engine {
  virtual ~Engine() = default;
  virtual std::unique_ptr<State> begin(const Sources& sources) const = 0;
};

template <typename Form>
struct EngineOf : Engine {
  Model<Form> model;
  mutable Workshop<Form> workshop;
  EngineOf(const Sizes& sizes, float eps, float scale, Weights weights, std::vector<int64_t> barred)
      : model(sizes, eps, scale, weights, std::move(barred)) {}
  std::unique_ptr<State> begin(const Sources& sources) const override {
    return std::make_unique<StateOf<Form>>(model, workshop, sources);
  }
};

}  // namespace

extern "C" {
Engine* regard_engine(int form, const Sizes* sizes, float eps, float scale, const float* const* weights,
                      const int64_t* barred, int64_t n_barred) {
  std::vector<int64_t> never(barred, barred + n_barred);
  switch (form) {
    case 0: return new EngineOf<Float32>(*sizes, eps, scale, {weights}, never);
    case 1: return new EngineOf<Bfloat16>(*sizes, eps, scale, {weights}, never);
    default: return new EngineOf<Int8>(*sizes, eps, scale, {weights}, never);
  }
}
void regard_engine_free(Engine* engine) { delete engine; }

State* regard_begin(const Engine* engine, const Sources* sources) { return engine->begin(*sources).release(); }
void regard_state_free(State* state) { delete state; }
void regard_reorder(State* state, const int64_t* rows, int64_t count) { state->reorder(rows, count); }

// logits_RV; those of tokens that are not allowed are -inf
void regard_step(State* state, const int64_t* tokens, float* logits) {
  int64_t width, size = state->vocabulary();
  const float* found = state->step(tokens, &width);
  std::fill_n(logits, state->rows() * size, -INFINITY);
  for (int64_t r = 0; r < state->rows(); ++r) {
    for (int64_t c = 0; c < state->columns(); ++c) logits[r * size + state->token(c)] = found[r * width + c];
  }
}

// 0, or the place of the first token whose probabilities were not numbers.
int64_t regard_search(const Engine* engine, const Sources* sources, const Search* how, int64_t bos, int64_t eos) {
  auto state = engine->begin(*sources);
  return Beam(*state, *how, sources->sentences, bos, eos).run();
}
}
