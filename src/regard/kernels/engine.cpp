// The library of the engine: a Transformer packed for translation and the beam search through it, one thread per batch. The
// mathematics is that of models/transformer.py and decode/beam.py, which are the fallback in PyTorch. Called by
// decode/engine.py; the computation is in the headers:
//
//   gemm.h              matrix products in float32, bf16 and int8
//   engine_attention.h  attention of a row
//   engine_rows.h       norms, activations, the best tokens of a row
//   engine_model.h      the weights
//   engine_stream.h     rows through a stack of layers
//   engine_state.h      the state of a search
//   engine_beam.h       the search
//
// Every function returns a Status (boundary.h), except those that free. bindings.py lists the arguments.

#include "boundary.h"
#include "engine_beam.h"

namespace {

struct Engine {
  virtual ~Engine() = default;
  virtual std::unique_ptr<State> begin(const SourceBatch& sources) const = 0;
};

template <typename NumberFormat>
struct EngineOf : Engine {
  Model<NumberFormat> model;
  mutable WorkspacePool<NumberFormat> pool;
  EngineOf(const ModelSettings& settings, WeightList weights, std::vector<int64_t> suppressed)
      : model(settings, weights, std::move(suppressed)) {}
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
                      int64_t n_weights, const int64_t* suppressed, int64_t n_suppressed, Engine** engine) {
  return guarded([=] {
    const WeightList list = {weights, weights + n_weights};
    std::vector<int64_t> never(suppressed, suppressed + n_suppressed);
    switch (number_format) {
      case 0: *engine = new EngineOf<Float32>(checked(settings), list, never); break;
      case 1: *engine = new EngineOf<Bfloat16>(checked(settings), list, never); break;
      case 2: *engine = new EngineOf<Int8>(checked(settings), list, never); break;
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

// `not_finite` becomes 0, or the number (from 1) of the first target token whose logits had a NaN or +∞.
int32_t regard_search(const Engine* engine, const SourceBatch* sources, const BeamCall* call, int64_t bos, int64_t eos,
                      int64_t* not_finite) {
  return guarded([=] {
    auto state = checked(engine).begin(checked(sources));
    *not_finite = Beam(*state, checked(call), sources->sentences, bos, eos).run();
  });
}
}

EXPORT_LAYOUT(ModelSettings, ModelSettings, FIELD(ModelSettings, d_model), FIELD(ModelSettings, n_heads),
              FIELD(ModelSettings, head_size), FIELD(ModelSettings, d_ff), FIELD(ModelSettings, encoder_layers),
              FIELD(ModelSettings, decoder_layers), FIELD(ModelSettings, src_vocabulary),
              FIELD(ModelSettings, tgt_vocabulary), FIELD(ModelSettings, post), FIELD(ModelSettings, centred),
              FIELD(ModelSettings, activation), FIELD(ModelSettings, linear_bias), FIELD(ModelSettings, output_bias),
              FIELD(ModelSettings, rotary), FIELD(ModelSettings, eps), FIELD(ModelSettings, embedding_scale),
              FIELD(ModelSettings, score_scale), FIELD(ModelSettings, output_scale))
EXPORT_LAYOUT(StoredTensor, StoredTensor, FIELD(StoredTensor, data), FIELD(StoredTensor, scales),
              FIELD(StoredTensor, type), FIELD(StoredTensor, rows), FIELD(StoredTensor, columns))
EXPORT_LAYOUT(PositionTables, PositionTables, FIELD(PositionTables, rows), FIELD(PositionTables, bias),
              FIELD(PositionTables, length), FIELD(PositionTables, bias_stride))
EXPORT_LAYOUT(SourceBatch, SourceBatch, FIELD(SourceBatch, ids), FIELD(SourceBatch, lengths),
              FIELD(SourceBatch, sentences), FIELD(SourceBatch, max_length), FIELD(SourceBatch, src_positions),
              FIELD(SourceBatch, tgt_positions), FIELD(SourceBatch, allowed), FIELD(SourceBatch, n_allowed))
EXPORT_LAYOUT(BeamCall, BeamCall, FIELD(BeamCall, beam), FIELD(BeamCall, n_best), FIELD(BeamCall, max_lengths),
              FIELD(BeamCall, divisors), FIELD(BeamCall, max_length), FIELD(BeamCall, ids), FIELD(BeamCall, log_probs),
              FIELD(BeamCall, totals), FIELD(BeamCall, lengths), FIELD(BeamCall, finished))
