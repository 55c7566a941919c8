// The library of the engine: a Transformer packed for translation and the beam search through it, one thread per batch. The
// mathematics is that of models/transformer.py and decode/beam.py, which are the fallback in PyTorch. Called by
// decode/engine.py; the computation is in the headers:
//
//   gemm.h              matrix products in float32, bf16 and int8
//   engine_attention.h  attention of a row
//   engine_rows.h       norms, activations, the best tokens of a row
//   engine_mixture.h    which experts a row is routed to
//   engine_model.h      the weights
//   engine_stream.h     rows through a stack of layers
//   engine_state.h      the state of a search
//   engine_search.h     what the searches share
//   engine_beam.h       beam search
//   engine_sample.h     sampling
//   engine_score.h      scores and word alignments of given translations
//
// Every function returns a Status (boundary.h), except those that free. bindings.py lists the arguments.

#include "boundary.h"
#include "engine_beam.h"
#include "engine_sample.h"
#include "engine_score.h"

namespace {

struct Engine {
  virtual ~Engine() = default;
  virtual std::unique_ptr<State> begin(const SourceBatch& sources) const = 0;
};

template <typename NumberFormat>
struct EngineOf : Engine {
  Model<NumberFormat> model;
  mutable WorkspacePool<NumberFormat> pool;
  EngineOf(const ModelSettings& settings, WeightList weights) : model(settings, weights) {}
  std::unique_ptr<State> begin(const SourceBatch& sources) const override {
    return std::make_unique<StateOf<NumberFormat>>(model, pool, sources);
  }
};

template <typename T>
T& checked(T* pointer) {
  if (pointer == nullptr) throw std::invalid_argument("a kernel was given a null pointer");
  return *pointer;
}

}  // namespace

extern "C" {

// `number_format`: the index in NUMBER_FORMATS of engine.py.
int32_t regard_engine(int32_t number_format, const ModelSettings* settings, const StoredTensor* weights,
                      int64_t n_weights, Engine** engine) {
  return guarded([=] {
    const WeightList list = {weights, weights + n_weights};
    switch (number_format) {
      case 0: *engine = new EngineOf<Float32>(checked(settings), list); break;
      case 1: *engine = new EngineOf<Bfloat16>(checked(settings), list); break;
      case 2: *engine = new EngineOf<Int8>(checked(settings), list); break;
      default: throw std::invalid_argument("unknown number format");
    }
  });
}
void regard_engine_free(Engine* engine) { delete engine; }

int32_t regard_begin(const Engine* engine, const SourceBatch* sources, State** state) {
  return guarded([=] { *state = checked(engine).begin(checked(sources)).release(); });
}
void regard_state_free(State* state) { delete state; }

int32_t regard_reorder(State* state, const int64_t* rows, int64_t count) {
  return guarded([=] { checked(state).reorder(rows, count); });
}

// logits_RV; −∞ for the tokens that are not allowed.
int32_t regard_step(State* state, const int64_t* tokens, int64_t count, float* logits) {
  return guarded([=] {
    if (count != checked(state).rows()) {
      throw std::invalid_argument("the state has " + std::to_string(state->rows()) + " rows, but there are " +
                                  std::to_string(count) + " tokens");
    }
    int64_t width, size = state->vocabulary();
    const float* found = state->step(tokens, &width);
    std::fill_n(logits, count * size, -INFINITY);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < state->columns(); ++c) logits[r * size + state->token(c)] = found[r * width + c];
    }
  });
}

// The encoder's output of a state that has just begun: a row of D per source token.
int32_t regard_encoded(const State* state, float* to, int64_t rows) {
  return guarded([=] { checked(state).copy_encoded(to, rows); });
}

// `outcome` becomes 0, the number (from 1) of the first target token whose logits had a NaN or +∞, or −1: cancelled.
int32_t regard_search(const Engine* engine, const SourceBatch* sources, const SearchCall* call, int64_t bos, int64_t eos,
                      int64_t* outcome) {
  return guarded([=] {
    auto state = checked(engine).begin(checked(sources));
    const int64_t B = sources->sentences;
    *outcome = checked(call).beam ? Beam(*state, *call, B, bos, eos).run() : Sampling(*state, *call, B, bos, eos).run();
  });
}

int32_t regard_score(const Engine* engine, const SourceBatch* sources, const ScoreCall* call, int64_t* outcome) {
  return guarded([=] { *outcome = checked(engine).begin(checked(sources))->score(checked(call)); });
}

// `outcome` becomes 0, or 1: a logit was NaN or +∞.
int32_t regard_draw(const DrawCall* call, int64_t* outcome) {
  return guarded([=] { *outcome = !draw_tokens(checked(call)); });
}
}

EXPORT_LAYOUT(ModelSettings, ModelSettings, FIELD(ModelSettings, d_model), FIELD(ModelSettings, n_heads),
              FIELD(ModelSettings, head_size), FIELD(ModelSettings, d_ff), FIELD(ModelSettings, encoder_layers),
              FIELD(ModelSettings, decoder_layers), FIELD(ModelSettings, src_vocabulary), FIELD(ModelSettings,
              tgt_vocabulary), FIELD(ModelSettings, post), FIELD(ModelSettings, centred), FIELD(ModelSettings,
              activation), FIELD(ModelSettings, linear_bias), FIELD(ModelSettings, output_bias), FIELD(ModelSettings,
              rotary), FIELD(ModelSettings, first_norm), FIELD(ModelSettings, eps), FIELD(ModelSettings,
              embedding_scale), FIELD(ModelSettings, score_scale), FIELD(ModelSettings, output_scale),
              FIELD(ModelSettings, mixture))
EXPORT_LAYOUT(StoredTensor, StoredTensor, FIELD(StoredTensor, data), FIELD(StoredTensor, scales),
              FIELD(StoredTensor, type), FIELD(StoredTensor, rows), FIELD(StoredTensor, columns))
EXPORT_LAYOUT(PositionTables, PositionTables, FIELD(PositionTables, rows), FIELD(PositionTables, bias),
              FIELD(PositionTables, length), FIELD(PositionTables, bias_stride))
EXPORT_LAYOUT(SourceBatch, SourceBatch, FIELD(SourceBatch, ids), FIELD(SourceBatch, lengths),
              FIELD(SourceBatch, sentences), FIELD(SourceBatch, max_length), FIELD(SourceBatch, src_positions),
              FIELD(SourceBatch, tgt_positions), FIELD(SourceBatch, allowed), FIELD(SourceBatch, n_allowed))
EXPORT_LAYOUT(MixtureSettings, MixtureSettings, FIELD(MixtureSettings, n_experts), FIELD(MixtureSettings,
              experts_per_token), FIELD(MixtureSettings, n_groups), FIELD(MixtureSettings, groups_per_token),
              FIELD(MixtureSettings, d_ff), FIELD(MixtureSettings, shared_d_ff), FIELD(MixtureSettings, activation),
              FIELD(MixtureSettings, softmax_gate), FIELD(MixtureSettings, normalise_gates), FIELD(MixtureSettings,
              corrected), FIELD(MixtureSettings, scale))
EXPORT_LAYOUT(SearchCall, SearchCall, FIELD(SearchCall, rule), FIELD(SearchCall, beam), FIELD(SearchCall, n_best),
              FIELD(SearchCall, max_lengths), FIELD(SearchCall, divisors), FIELD(SearchCall, suppressed),
              FIELD(SearchCall, n_suppressed), FIELD(SearchCall, no_repeat_ngram), FIELD(SearchCall, prefixes),
              FIELD(SearchCall, prefix_starts), FIELD(SearchCall, temperature), FIELD(SearchCall, top_p),
              FIELD(SearchCall, top_k), FIELD(SearchCall, seeds), FIELD(SearchCall, cancelled), FIELD(SearchCall,
              observe), FIELD(SearchCall, max_length), FIELD(SearchCall, ids), FIELD(SearchCall, log_probs),
              FIELD(SearchCall, totals), FIELD(SearchCall, lengths), FIELD(SearchCall, finished))
EXPORT_LAYOUT(ScoreCall, ScoreCall, FIELD(ScoreCall, ids), FIELD(ScoreCall, lengths), FIELD(ScoreCall, bos),
              FIELD(ScoreCall, log_probs), FIELD(ScoreCall, head_weights), FIELD(ScoreCall, attention))
EXPORT_LAYOUT(DrawCall, DrawCall, FIELD(DrawCall, logits), FIELD(DrawCall, rows), FIELD(DrawCall, width),
              FIELD(DrawCall, size), FIELD(DrawCall, suppressed), FIELD(DrawCall, n_suppressed), FIELD(DrawCall, ids),
              FIELD(DrawCall, length), FIELD(DrawCall, no_repeat_ngram), FIELD(DrawCall, end), FIELD(DrawCall,
              temperature), FIELD(DrawCall, top_p), FIELD(DrawCall, top_k), FIELD(DrawCall, uniforms), FIELD(DrawCall,
              tokens), FIELD(DrawCall, log_probs))
