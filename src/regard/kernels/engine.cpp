// The Transformer laid out for translating, and the search through it: the mathematics of models/transformer.py and
// of beam.py, one thread a batch. This file is what engine.py calls; the rest is in the headers:
//
//   products.h   matrix products in float32, bf16 and int8
//   attention.h  attention of a row
//   rows.h       what lies between two products, a row at a time
//   model.h      the weights
//   stream.h     rows through a stack of layers
//   state.h      what a search remembers
//   beam.h       the search

#include "beam.h"

namespace {

struct Engine {
  virtual ~Engine() = default;
  virtual std::unique_ptr<State> begin(const Sources& sources) const = 0;
};

template <typename NumberFormat>
struct EngineOf : Engine {
  Model<NumberFormat> model;
  mutable WorkspacePool<NumberFormat> pool;
  EngineOf(const Sizes& sizes, float eps, float scale, Weights weights, std::vector<int64_t> suppressed)
      : model(sizes, eps, scale, weights, std::move(suppressed)) {}
  std::unique_ptr<State> begin(const Sources& sources) const override {
    return std::make_unique<StateOf<NumberFormat>>(model, pool, sources);
  }
};

}  // namespace

extern "C" {
Engine* regard_engine(int form, const Sizes* sizes, float eps, float scale, const float* const* weights,
                      const int64_t* suppressed, int64_t n_barred) {
  std::vector<int64_t> never(suppressed, suppressed + n_barred);
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
