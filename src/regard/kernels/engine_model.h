// The Transformer's weights, laid out for translating. engine.py lists them in the order in which they are taken here.
#pragma once

#include "rows.h"

struct Sizes {
  int64_t d_model, n_heads, d_ff, encoder_layers, decoder_layers, src_vocabulary, tgt_vocabulary;
  int64_t post, centred, activation, output_bias, rotary;
};

// Takes the weights one by one, in the order in which engine.py lists them.
struct Weights {
  const float* const* next;
  const float* take() { return *next++; }
};

template <typename NumberFormat>
struct Attention {
  Product<NumberFormat> qkv, out;  // of cross-attention: the query alone
  Product<NumberFormat> memory;    // of cross-attention: keys and values
  Norm norm;
};

template <typename NumberFormat>
struct FeedForward {
  Product<NumberFormat> up, down;
  Norm norm;
};

template <typename NumberFormat>
struct Layer {
  Attention<NumberFormat> self, cross;
  FeedForward<NumberFormat> ffn;
};

template <typename NumberFormat>
struct Model {
  Sizes sizes;
  float eps;
  float scale;  // of the embeddings
  const float *src_table, *tgt_table;
  std::vector<Layer<NumberFormat>> encoder, decoder;
  Norm encoder_norm, decoder_norm;  // of pre-norm stacks
  Product<NumberFormat> vocabulary;
  std::vector<int64_t> suppressed;

  Model(const Sizes& s, float eps, float scale, Weights weights, std::vector<int64_t> suppressed)
      : sizes(s), eps(eps), scale(scale), suppressed(std::move(suppressed)) {
    src_table = weights.take();
    tgt_table = weights.take();
    for (int64_t i = 0; i < s.encoder_layers; ++i) encoder.push_back(layer(weights, false));
    for (int64_t i = 0; i < s.decoder_layers; ++i) decoder.push_back(layer(weights, true));
    if (!s.post) {
      encoder_norm = norm(weights);
      decoder_norm = norm(weights);
    }
    const float* matrix = weights.take();
    vocabulary = Product<NumberFormat>(matrix, s.output_bias ? weights.take() : nullptr, s.tgt_vocabulary, s.d_model);
  }

  Norm norm(Weights& weights) const {
    const float* gain = weights.take();
    return {gain, sizes.centred ? weights.take() : nullptr, eps, sizes.centred != 0};
  }

  Layer<NumberFormat> layer(Weights& weights, bool crosses) const {
    const int64_t D = sizes.d_model, F = sizes.d_ff, up = sizes.activation == SWIGLU ? 2 * F : F;
    auto product = [&](int64_t columns, int64_t width) {
      const float* matrix = weights.take();
      return Product<NumberFormat>(matrix, weights.take(), columns, width);
    };
    Layer<NumberFormat> made;
    made.self.qkv = product(3 * D, D);
    made.self.out = product(D, D);
    made.self.norm = norm(weights);
    if (crosses) {
      const float *matrix = weights.take(), *bias = weights.take();
      made.cross.qkv = Product<NumberFormat>(matrix, bias, D, D);
      made.cross.memory = Product<NumberFormat>(matrix + D * D, bias + D, 2 * D, D);
      made.cross.out = product(D, D);
      made.cross.norm = norm(weights);
    }
    made.ffn.up = product(up, D);
    made.ffn.down = product(D, F);
    made.ffn.norm = norm(weights);
    return made;
  }
};
