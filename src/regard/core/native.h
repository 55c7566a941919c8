// What the kernels share: numbers in float32 and bf16, and a quick exponential.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

using bf16 = uint16_t;

inline float read(float x) { return x; }
inline float read(bf16 x) {
  uint32_t bits = static_cast<uint32_t>(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// Round to nearest, ties to even, as PyTorch does.
inline void write(float& to, float value) { to = value; }
inline void write(bf16& to, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  to = static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// e^x to about 1e-7 relative: 2^n by the exponent bits, the rest by a polynomial. Branchless, so that it vectorises.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  float scaled = x * 1.44269504f;
  float whole = std::nearbyint(scaled);
  float rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * rest + 1.3981999507e-3f;
  p = p * rest + 8.3334519073e-3f;
  p = p * rest + 4.1665795894e-2f;
  p = p * rest + 1.6666665459e-1f;
  p = p * rest + 5.0000001201e-1f;
  p = p * rest * rest + rest + 1.0f;
  int32_t bits = (static_cast<int32_t>(whole) + 127) << 23;
  float power;
  std::memcpy(&power, &bits, 4);
  return p * power;
}
