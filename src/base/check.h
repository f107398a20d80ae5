// BATON_CHECK: a broken invariant ends the process with file, line, condition and values.
// For programmer errors only; what input can cause is a Result (base/result.h).
#pragma once

#include <sstream>
#include <string>

namespace baton {

// Prints `where: check failed: condition values` to stderr and aborts.
[[noreturn]] void check_failed(const char* file,
                               int line,
                               const char* condition,
                               const std::string& values);

template <typename... Values>
std::string check_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}

}  // namespace baton

#define BATON_CHECK(condition, ...)                                                              \
  do {                                                                                           \
    if (!(condition)) [[unlikely]] {                                                             \
      ::baton::check_failed(__FILE__, __LINE__, #condition, ::baton::check_values(__VA_ARGS__)); \
    }                                                                                            \
  } while (false)
