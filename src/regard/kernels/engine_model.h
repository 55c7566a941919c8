// The Transformer's weights, packed for translation, in the order in which list_weights of decode/engine.py lists them.
//
// Used by engine_stream.h and engine_state.h; built by engine.cpp.
#pragma once

#include "engine_rows.h"
#include "gemm.h"

struct ModelSizes {
  int64_t d_model, n_heads, d_ff, encoder_layers, decoder_layers, src_vocabulary, tgt_vocabulary;
  int64_t post, centred, activation, output_bias, rotary;
};

// Hands out the weights one by one.
struct WeightList {
  const float* const *position, *const *end;

  const float* next() {
    if (position == end) throw std::invalid_argument("the engine needs more weights than it was given");
    return *position++;
  }
};

template <typename NumberFormat>
struct Attention {
  PackedLinear<NumberFormat> qkv, out;  // in cross-attention qkv is the query alone
  PackedLinear<NumberFormat> memory;    // in cross-attention: keys and values
  Norm norm;
};

template <typename NumberFormat>
struct FeedForward {
  PackedLinear<NumberFormat> up, down;
  Norm norm;
};

template <typename NumberFormat>
struct Layer {
  Attention<NumberFormat> self, cross;
  FeedForward<NumberFormat> ffn;
};

template <typename NumberFormat>
struct Model {
  ModelSizes sizes;
  float eps;
  float scale;  // of the embeddings
  const float *src_table, *tgt_table;
  std::vector<Layer<NumberFormat>> encoder, decoder;
  Norm encoder_norm, decoder_norm;  // pre-norm only
  PackedLinear<NumberFormat> vocabulary;
  std::vector<int64_t> suppressed;  // tokens that are never chosen

  Model(const ModelSizes& s, float eps, float scale, WeightList weights, std::vector<int64_t> suppressed)
      : sizes(s), eps(eps), scale(scale), suppressed(std::move(suppressed)) {
    if (s.encoder_layers < 1 || s.decoder_layers < 1) throw std::invalid_argument("the engine needs at least one layer");
    check_indices(this->suppressed.data(), this->suppressed.size(), s.tgt_vocabulary, "suppressed token");
    src_table = weights.next();
    tgt_table = weights.next();
    for (int64_t i = 0; i < s.encoder_layers; ++i) encoder.push_back(read_layer(weights, false));
    for (int64_t i = 0; i < s.decoder_layers; ++i) decoder.push_back(read_layer(weights, true));
    if (!s.post) {
      encoder_norm = read_norm(weights);
      decoder_norm = read_norm(weights);
    }
    const float* matrix = weights.next();
    const float* bias = s.output_bias ? weights.next() : nullptr;
    vocabulary = PackedLinear<NumberFormat>(matrix, bias, s.tgt_vocabulary, s.d_model);
    if (weights.position != weights.end) throw std::invalid_argument("the engine was given more weights than it needs");
  }

  Norm read_norm(WeightList& weights) const {
    const float* gain = weights.next();
    return {gain, sizes.centred ? weights.next() : nullptr, eps, sizes.centred != 0};
  }

  Layer<NumberFormat> read_layer(WeightList& weights, bool has_cross) const {
    const int64_t D = sizes.d_model, F = sizes.d_ff, up = sizes.activation == SWIGLU ? 2 * F : F;
    auto linear = [&](int64_t columns, int64_t width) {
      const float* matrix = weights.next();
      return PackedLinear<NumberFormat>(matrix, weights.next(), columns, width);
    };
    Layer<NumberFormat> layer;
    layer.self.qkv = linear(3 * D, D);
    layer.self.out = linear(D, D);
    layer.self.norm = read_norm(weights);
    if (has_cross) {
      const float *matrix = weights.next(), *bias = weights.next();
      layer.cross.qkv = PackedLinear<NumberFormat>(matrix, bias, D, D);
      layer.cross.memory = PackedLinear<NumberFormat>(matrix + D * D, bias + D, 2 * D, D);
      layer.cross.out = linear(D, D);
      layer.cross.norm = read_norm(weights);
    }
    layer.ffn.up = linear(up, D);
    layer.ffn.down = linear(D, F);
    layer.ffn.norm = read_norm(weights);
    return layer;
  }
};
