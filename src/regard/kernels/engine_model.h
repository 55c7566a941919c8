// A Transformer's weights, packed for the engine, in the order in which decode/engine_weights.py lists them.
//
// Used by engine_stream.h and engine_state.h; built by engine.cpp.
#pragma once

#include "engine_rows.h"
#include "gemm.h"

struct ModelSettings {
  int64_t d_model, n_heads, head_size, d_ff, encoder_layers, decoder_layers, src_vocabulary, tgt_vocabulary;
  int64_t post, centred, activation, linear_bias, output_bias, rotary;
  float eps, embedding_scale, score_scale, output_scale;

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
  using Packed = PackedLinear<NumberFormat>;

  ModelSettings settings;
  StoredTensor src_table, tgt_table;  // read where they are stored
  std::vector<Layer<NumberFormat>> encoder, decoder;
  Norm encoder_norm, decoder_norm;  // pre-norm only
  Packed vocabulary;
  std::vector<int64_t> suppressed;  // tokens that are never chosen

  Model(const ModelSettings& s, WeightList weights, std::vector<int64_t> suppressed)
      : settings(s), suppressed(std::move(suppressed)) {
    if (s.encoder_layers < 1 || s.decoder_layers < 1) throw std::invalid_argument("the engine needs at least one layer");
    check_indices(this->suppressed.data(), this->suppressed.size(), s.tgt_vocabulary, "suppressed token");
    src_table = weights.next(s.src_vocabulary, s.d_model);
    tgt_table = weights.next(s.tgt_vocabulary, s.d_model);
    for (int64_t i = 0; i < s.encoder_layers; ++i) encoder.push_back(read_layer(weights, false));
    for (int64_t i = 0; i < s.decoder_layers; ++i) decoder.push_back(read_layer(weights, true));
    if (!s.post) {
      encoder_norm = read_norm(weights);
      decoder_norm = read_norm(weights, s.output_scale);
    }
    const StoredTensor& matrix = weights.next(s.tgt_vocabulary, s.d_model);
    vocabulary = pack(matrix, s.output_bias ? read_vector(weights, s.tgt_vocabulary) : nullptr, 0, s.tgt_vocabulary);
    if (weights.position != weights.end) throw std::invalid_argument("the engine was given more weights than it needs");
  }

 private:
  // Times `scale`, as float32, for as long as the model is there.
  const float* read_vector(WeightList& weights, int64_t size, float scale = 1.0f) {
    const StoredTensor& tensor = weights.next(1, size);
    vectors_.push_back(allocate<float>(size));
    float* vector = vectors_.back().get();
    const float* values = tensor.row(0, vector);
    for (int64_t i = 0; i < size; ++i) vector[i] = values[i] * scale;
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
    layer.ffn.up = read_linear(weights, up, D);
    layer.ffn.down = read_linear(weights, D, F);
    layer.ffn.norm = read_norm(weights);
    return layer;
  }

  std::vector<AlignedArray<float>> vectors_;
  Buffer<float> row_;
};
