// A Transformer's weights, packed for the engine, in the order in which decode/engine_weights.py lists them. A model may have
// an encoder, a decoder, or both.
//
// Used by engine_stream.h and engine_state.h; built by engine.cpp.
#pragma once

#include "engine_mixture.h"
#include "engine_rows.h"

struct ModelSettings {
  int64_t d_model, n_heads, head_size, d_ff, encoder_layers, decoder_layers, src_vocabulary, tgt_vocabulary;
  int64_t post, centred, activation, linear_bias, output_bias, rotary, first_norm;
  float eps, embedding_scale, score_scale, output_scale;
  MixtureSettings mixture;

  int64_t inner() const { return n_heads * head_size; }  // the width of all heads
};

// A tensor as a model folder has it: float32, bf16, or int8 with a scale per row. A vector has one row.
struct StoredTensor {
  enum Type : int64_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2 };
  const void* data;
  const float* scales;
  int64_t type, rows, columns;

  // A row as float32: where it is stored, or in `buffer`.
  const float* row(int64_t number, float* buffer) const {
    const int64_t start = number * columns;
    if (type == FLOAT32) return static_cast<const float*>(data) + start;
    if (type == BFLOAT16) {
      convert_row(static_cast<const bf16*>(data) + start, buffer, columns);
    } else {
      const int8_t* bytes = static_cast<const int8_t*>(data) + start;
      const float scale = scales[number];
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) buffer[i] = bytes[i] * scale;
    }
    return buffer;
  }
};

// Hands out the weights one by one. Each must have the shape that is asked for.
struct WeightList {
  const StoredTensor *position, *end;

  const StoredTensor& next(int64_t rows, int64_t columns) {
    if (position == end) throw std::invalid_argument("the engine needs more weights than it was given");
    const StoredTensor& tensor = *position++;
    if (tensor.rows != rows || tensor.columns != columns) {
      throw std::invalid_argument("a weight is " + std::to_string(tensor.rows) + " x " + std::to_string(tensor.columns) +
                                  "; the engine needs " + std::to_string(rows) + " x " + std::to_string(columns));
    }
    if (tensor.data == nullptr || (tensor.type == StoredTensor::INT8 && tensor.scales == nullptr) ||
        tensor.type < StoredTensor::FLOAT32 || tensor.type > StoredTensor::INT8) {
      throw std::invalid_argument("a weight has no numbers that the engine can read");
    }
    return tensor;
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
  PackedLinear<NumberFormat> up, down;  // or
  Mixture<NumberFormat> mixture;
  Norm norm;
};

template <typename NumberFormat>
struct Layer {
  Attention<NumberFormat> self, cross;
  FeedForward<NumberFormat> ffn;
};

template <typename NumberFormat>
struct Model {
  using Packed = PackedLinear<NumberFormat>;

  ModelSettings settings;
  StoredTensor src_table = {}, tgt_table = {};  // read where they are stored
  std::vector<Layer<NumberFormat>> encoder, decoder;
  Norm first_norm;                  // of the embeddings; some models have it
  Norm encoder_norm, decoder_norm;  // pre-norm only
  Packed vocabulary;

  Model(const ModelSettings& s, WeightList weights) : settings(s) {
    check(s);
    if (s.encoder_layers) src_table = weights.next(s.src_vocabulary, s.d_model);
    if (s.decoder_layers) tgt_table = weights.next(s.tgt_vocabulary, s.d_model);
    if (s.first_norm) first_norm = read_norm(weights);
    for (int64_t i = 0; i < s.encoder_layers; ++i) encoder.push_back(read_layer(weights, false));
    for (int64_t i = 0; i < s.decoder_layers; ++i) decoder.push_back(read_layer(weights, s.encoder_layers > 0));
    if (!s.post && s.encoder_layers) encoder_norm = read_norm(weights);
    if (!s.post && s.decoder_layers) decoder_norm = read_norm(weights, s.output_scale);
    if (s.decoder_layers) {
      const StoredTensor& matrix = weights.next(s.tgt_vocabulary, s.d_model);
      vocabulary = pack(matrix, s.output_bias ? read_vector(weights, s.tgt_vocabulary) : nullptr, 0, s.tgt_vocabulary);
    }
    if (weights.position != weights.end) throw std::invalid_argument("the engine was given more weights than it needs");
  }

 private:
  static void check(const ModelSettings& s) {
    const MixtureSettings& m = s.mixture;
    const bool sizes = s.d_model > 0 && s.n_heads > 0 && s.head_size > 0 && s.d_ff > 0;
    const bool layers = s.encoder_layers >= 0 && s.decoder_layers >= 0 && s.encoder_layers + s.decoder_layers > 0;
    const bool groups = m.n_groups > 0 && m.n_experts % m.n_groups == 0 && m.groups_per_token > 0;
    const bool experts = m.d_ff > 0 && m.experts_per_token > 0 && m.experts_per_token <= m.n_experts && groups;
    if (!sizes || !layers || (m.n_experts && !experts)) throw std::invalid_argument("the engine has no such model");
  }

  // As float32, for as long as the model is there.
  float* read_rows(WeightList& weights, int64_t rows, int64_t columns) {
    const StoredTensor& tensor = weights.next(rows, columns);
    kept_.push_back(allocate<float>(rows, columns));
    float* to = kept_.back().get();
    for (int64_t row = 0; row < rows; ++row) {
      const float* values = tensor.row(row, to + row * columns);
      if (values != to + row * columns) std::copy_n(values, columns, to + row * columns);
    }
    return to;
  }

  const float* read_vector(WeightList& weights, int64_t size, float scale = 1.0f) {
    float* vector = read_rows(weights, 1, size);
    for (int64_t i = 0; i < size; ++i) vector[i] *= scale;
    return vector;
  }

  // With its result times `scale`.
  Norm read_norm(WeightList& weights, float scale = 1.0f) {
    const float* gain = read_vector(weights, settings.d_model, scale);
    const float* bias = settings.centred ? read_vector(weights, settings.d_model, scale) : nullptr;
    return {gain, bias, settings.eps, settings.centred != 0};
  }

  const float* read_bias(WeightList& weights, int64_t size) {
    return settings.linear_bias ? read_vector(weights, size) : nullptr;
  }

  // Some rows of a matrix as a layer; `bias` is that of the first of them.
  Packed pack(const StoredTensor& matrix, const float* bias, int64_t first, int64_t count) {
    float* buffer = row_.at_least(matrix.columns);
    return Packed([&](int64_t row) { return matrix.row(first + row, buffer); }, bias, count, matrix.columns);
  }

  Packed read_linear(WeightList& weights, int64_t columns, int64_t width) {
    const StoredTensor& matrix = weights.next(columns, width);
    return pack(matrix, read_bias(weights, columns), 0, columns);
  }

  Layer<NumberFormat> read_layer(WeightList& weights, bool has_cross) {
    const int64_t D = settings.d_model, I = settings.inner(), F = settings.d_ff;
    const int64_t up = is_gated(settings.activation) ? 2 * F : F;
    Layer<NumberFormat> layer;
    layer.self.qkv = read_linear(weights, 3 * I, D);
    layer.self.out = read_linear(weights, D, I);
    layer.self.norm = read_norm(weights);
    if (has_cross) {
      const StoredTensor& matrix = weights.next(3 * I, D);
      const float* bias = read_bias(weights, 3 * I);
      layer.cross.qkv = pack(matrix, bias, 0, I);
      layer.cross.memory = pack(matrix, bias ? bias + I : nullptr, I, 2 * I);
      layer.cross.out = read_linear(weights, D, I);
      layer.cross.norm = read_norm(weights);
    }
    if (settings.mixture.n_experts) {
      layer.ffn.mixture = read_mixture(weights);
    } else {
      layer.ffn.up = read_linear(weights, up, D);
      layer.ffn.down = read_linear(weights, D, F);
    }
    layer.ffn.norm = read_norm(weights);
    return layer;
  }

  Mixture<NumberFormat> read_mixture(WeightList& weights) {
    const MixtureSettings& m = settings.mixture;
    const int64_t D = settings.d_model, E = m.n_experts, gates = is_gated(m.activation) ? 2 : 1;
    Mixture<NumberFormat> mixture;
    const float* matrix = read_rows(weights, E, D);
    mixture.router = Router(m, matrix, m.corrected ? read_vector(weights, E) : nullptr, D);
    mixture.experts.resize(E);
    for (const bool up : {true, false}) {
      const int64_t rows = up ? gates * m.d_ff : D, columns = up ? D : m.d_ff;
      const StoredTensor& stack = weights.next(E * rows, columns);
      const float* biases = settings.linear_bias ? read_rows(weights, E, rows) : nullptr;
      for (int64_t e = 0; e < E; ++e) {
        Packed& linear = up ? mixture.experts[e].up : mixture.experts[e].down;
        linear = pack(stack, biases ? biases + e * rows : nullptr, e * rows, rows);
      }
    }
    if (m.shared_d_ff) {
      mixture.shared.up = read_linear(weights, gates * m.shared_d_ff, D);
      mixture.shared.down = read_linear(weights, D, m.shared_d_ff);
    }
    return mixture;
  }

  std::vector<AlignedArray<float>> kept_;
  Buffer<float> row_;
};
