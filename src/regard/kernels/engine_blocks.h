// Memory for the keys and values of a search.
//
// Called by engine_state.h.
#pragma once

#include "common.h"

// Memory for the keys and values of the times so far, in blocks from `spare`, to which they return.
class BlockAllocator {
 public:
  explicit BlockAllocator(std::vector<AlignedArray<char>>& spare) : spare_(spare) {}
  ~BlockAllocator() {
    for (auto& block : taken_) spare_.push_back(std::move(block));
  }
  char* allocate_bytes(int64_t bytes) {
    bytes = round_up(bytes, 64);
    if (bytes > SIZE) {
      large_.push_back(allocate<char>(bytes));
      return large_.back().get();
    }
    if (taken_.empty() || used_ + bytes > SIZE) {
      if (spare_.empty()) spare_.push_back(allocate<char>(SIZE));
      spare_.reserve(spare_.size() + taken_.size());  // so that the destructor never allocates
      taken_.push_back(std::move(spare_.back()));
      spare_.pop_back();
      used_ = 0;
    }
    used_ += bytes;
    return taken_.back().get() + used_ - bytes;
  }

 private:
  static constexpr int64_t SIZE = 1 << 20;
  std::vector<AlignedArray<char>>& spare_;
  std::vector<AlignedArray<char>> taken_, large_;
  int64_t used_ = 0;
};
