// A memory region for large tensors, reserved once: a training step takes its tensors from it and returns them.
//
// A step returns its tensors before the next one begins, so that the region is whole again then, whatever sizes the next
// step needs. In the C library's heap small objects that live longer, such as the compiled code of a matrix product, come
// to lie between the large ones; larger tensors do not fit into the gaps, and the heap grows for hundreds of steps.
//
// Called by memory.py, which has the fallback (mallopt). training.py lists the arguments.

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <cerrno>
#include <iterator>
#include <map>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "boundary.h"

namespace {

constexpr size_t LINE = 64, LARGE = 16 << 10;  // bytes: a cache line; smaller tensors come from the C library

class Region {
 public:
  // Reserves addresses only: the system gives a page its memory when it is first written.
  void reserve(size_t bytes) {
    bytes = bytes / LINE * LINE;
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    begin_ = static_cast<char*>(memory);
    end_ = begin_ + bytes;
    add_gap(begin_, bytes);
  }

  bool has(const void* memory) const { return begin_ <= memory && memory < end_; }

  // The beginning of the smallest gap that is large enough; null if there is none.
  void* take(size_t bytes) {
    bytes = (bytes + LINE - 1) / LINE * LINE;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_size_.lower_bound(bytes);
    if (found == by_size_.end()) return nullptr;
    char* memory = found->second;
    const size_t size = found->first;
    remove_gap(gaps_.find(memory));
    if (size > bytes) add_gap(memory + bytes, size - bytes);
    taken_.emplace(memory, bytes);
    return memory;
  }

  // The memory becomes a gap, joined with the gaps beside it.
  void release(void* memory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = taken_.find(memory);
    char* begin = static_cast<char*>(memory);
    size_t bytes = found->second;
    taken_.erase(found);
    auto next = gaps_.lower_bound(begin);
    if (next != gaps_.end() && begin + bytes == next->first) {
      bytes += gap_size(next);
      next = remove_gap(next);
    }
    if (next != gaps_.begin()) {
      const auto before = std::prev(next);
      if (before->first + gap_size(before) == begin) {
        begin = before->first;
        bytes += gap_size(before);
        remove_gap(before);
      }
    }
    add_gap(begin, bytes);
  }

 private:
  using BySize = std::multimap<size_t, char*>;  // among equals, the oldest first
  using Gaps = std::map<char*, BySize::iterator>;

  static size_t gap_size(Gaps::iterator gap) { return gap->second->first; }
  void add_gap(char* begin, size_t bytes) {
    const auto added = by_size_.emplace(bytes, begin);
    try {
      gaps_.emplace(begin, added);
    } catch (...) {
      by_size_.erase(added);
      throw;
    }
  }
  Gaps::iterator remove_gap(Gaps::iterator gap) {
    by_size_.erase(gap->second);
    return gaps_.erase(gap);
  }

  char *begin_ = nullptr, *end_ = nullptr;
  Gaps gaps_;
  BySize by_size_;
  std::unordered_map<void*, size_t> taken_;
  std::mutex mutex_;
};

// Never destroyed: tensors may be freed after all static objects are destroyed.
Region& region = *new Region;

// Called by destructors, so it must not throw: if there is no memory for the bookkeeping, this piece is never used again.
void free_tensor(void* memory) noexcept {
  if (!region.has(memory)) return c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  try {
    region.release(memory);
  } catch (...) {
  }
}

class RegionAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = bytes < LARGE ? nullptr : region.take(bytes);
    if (memory == nullptr) memory = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    return {memory, memory, &free_tensor, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_tensor; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

RegionAllocator& region_allocator = *new RegionAllocator;

}  // namespace

extern "C" {

// Call it once, before the other.
int32_t regard_reserve_region(size_t bytes) {
  return guarded([=] { region.reserve(bytes); });
}

// New tensors come from the region, or from the C library again; existing tensors stay where they are.
int32_t regard_use_region(bool use) {
  return guarded([=] {
    c10::SetCPUAllocator(use ? static_cast<c10::Allocator*>(&region_allocator) : c10::GetDefaultCPUAllocator());
  });
}
}
