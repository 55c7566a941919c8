// The C interface of a library: status codes in place of exceptions, and the layouts of shared structures.
//
// Every exported function runs its body through `guarded`, which catches every exception and returns a Status;
// loader.py raises the matching Python exception with the message of `regard_last_error`. A structure that Python fills
// in is exported with EXPORT_LAYOUT; loader.py compares it with the ctypes structure and refuses the library if
// they differ. Include this header in one source file per library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <new>
#include <stdexcept>

// The numbers are those of `STATUS_ERRORS` in loader.py.
enum Status : int32_t { SUCCESS = 0, OUT_OF_MEMORY = 1, INDEX_OUT_OF_RANGE = 2, INVALID_ARGUMENT = 3, FAILED = 4 };

namespace {

thread_local char last_error[512] = "";

Status fail(Status status, const char* message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

template <typename Body>
int32_t guarded(const Body& body) noexcept {
  try {
    body();
    return SUCCESS;
  } catch (const std::bad_alloc&) {
    return fail(OUT_OF_MEMORY, "a kernel could not allocate its working memory");
  } catch (const std::length_error&) {  // a std::vector of an impossible size
    return fail(OUT_OF_MEMORY, "a kernel could not allocate its working memory");
  } catch (const std::out_of_range& error) {
    return fail(INDEX_OUT_OF_RANGE, error.what());
  } catch (const std::invalid_argument& error) {
    return fail(INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return fail(FAILED, error.what());
  } catch (...) {
    return fail(FAILED, "a kernel threw an unknown exception");
  }
}

}  // namespace

// The message of the last call in this thread whose status was not SUCCESS.
extern "C" const char* regard_last_error() { return last_error; }

// A structure's size, then the offset and size of each field, in order; returns how many numbers these are.
#define FIELD(type, name) static_cast<int64_t>(offsetof(type, name)), static_cast<int64_t>(sizeof(type::name))
#define EXPORT_LAYOUT(name, type, ...)                                                  \
  extern "C" int64_t regard_layout_##name(const int64_t** numbers) {                    \
    static constexpr int64_t LAYOUT[] = {static_cast<int64_t>(sizeof(type)), __VA_ARGS__}; \
    *numbers = LAYOUT;                                                                  \
    return static_cast<int64_t>(std::size(LAYOUT));                                     \
  }
