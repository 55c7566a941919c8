// Memory for tensors that is kept: one region for all large ones, from which a step takes and to which it gives back.
//
// What a step takes it gives back before the next begins, so the region is whole again then, whatever sizes the next
// one asks for. In the C library's heap small things that stay, a product's compiled code among them, come to stand
// between the large ones; where those were, larger ones do not fit, and the heap grows for hundreds of steps.

#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>

namespace {

constexpr size_t LINE = 64, LARGE = 16 << 10;  // bytes: a line of the cache; what is less comes from the C library

class Region {
 public:
  // Only addresses are taken here. The system gives a page its memory when it is first written.
  bool reserve(size_t bytes) {
    bytes = bytes / LINE * LINE;
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    begin_ = static_cast<char*>(memory);
    end_ = begin_ + bytes;
    add_gap(begin_, bytes);
    return true;
  }

  bool has(const void* memory) const { return begin_ <= memory && memory < end_; }

  // The smallest gap that is large enough, from its beginning; null if there is none.
  void* take(size_t bytes) {
    bytes = (bytes + LINE - 1) / LINE * LINE;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = by_size_.lower_bound(bytes);
    if (found == by_size_.end()) return nullptr;
    char* memory = found->second;
    const size_t room = found->first;
    remove_gap(gaps_.find(memory));
    if (room > bytes) add_gap(memory + bytes, room - bytes);
    taken_.emplace(memory, bytes);
    return memory;
  }

  // What was taken becomes a gap, one with its neighbours.
  void give_back(void* memory) {
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
  using BySize = std::multimap<size_t, char*>;  // of equal ones that which has been there longest
  using Gaps = std::map<char*, BySize::iterator>;

  static size_t gap_size(Gaps::iterator gap) { return gap->second->first; }
  void add_gap(char* begin, size_t bytes) { gaps_.emplace(begin, by_size_.emplace(bytes, begin)); }
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

// Never destroyed: tensors may be freed after everything else has ended.
Region& region = *new Region;

void free_tensor(void* memory) {
  if (region.has(memory)) {
    region.give_back(memory);
  } else {
    c10::GetDefaultCPUAllocator()->raw_deallocate(memory);
  }
}

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = bytes < LARGE ? nullptr : region.take(bytes);
    if (memory == nullptr) memory = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    return {memory, memory, &free_tensor, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_tensor; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

KeepingAllocator& keeping = *new KeepingAllocator;

}  // namespace

extern "C" {

// Once, before the others.
bool regard_reserve(size_t bytes) { return region.reserve(bytes); }

// From now on tensors come from the region (or from the C library again); those that there are stay where they are.
void regard_keep_memory(bool keep) {
  c10::SetCPUAllocator(keep ? static_cast<c10::Allocator*>(&keeping) : c10::GetDefaultCPUAllocator());
}
}
