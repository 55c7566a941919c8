// Working memory for the threads of an OpenMP parallel region.
#pragma once

#if defined(_OPENMP)
#include <omp.h>
#else  // the engine: one thread per batch, without OpenMP's library
inline int omp_get_max_threads() { return 1; }
inline int omp_get_num_threads() { return 1; }
inline int omp_get_thread_num() { return 0; }
#endif

#include <memory>
#include <vector>

// One T per thread, constructed by the calling thread before the region begins: if an allocation fails, it throws there.
// An exception in a worker thread could not leave the region and would end the process, so nothing inside a region
// allocates. Whatever a T must be filled with is filled inside the region, by the thread that uses it.
template <typename T>
class PerThread {
 public:
  template <typename... Arguments>
  explicit PerThread(const Arguments&... arguments) {
    const int threads = omp_get_max_threads();
    items_.reserve(threads);
    for (int thread = 0; thread < threads; ++thread) items_.push_back(std::make_unique<T>(arguments...));
  }

  T& current() const noexcept { return *items_[omp_get_thread_num()]; }

  // In the order of the threads' numbers, so that a sum over threads is always taken in the same order.
  template <typename Use>
  void for_each(const Use& use) const {
    for (const auto& item : items_) use(*item);
  }

 private:
  std::vector<std::unique_ptr<T>> items_;
};
