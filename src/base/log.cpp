#include "base/log.h"

#include <cstdio>
#include <utility>

namespace baton {
namespace {

struct Log {
  LogLevel level = LogLevel::kInfo;
  LogSink sink;
};

Log& process_log() {
  static Log log;
  return log;
}

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "?";
}

}  // namespace

void set_log(LogLevel level, LogSink sink) {
  process_log() = {level, std::move(sink)};
}

bool log_enabled(LogLevel level) {
  return level >= process_log().level;
}

void log_line(LogLevel level, std::string_view text) {
  if (!log_enabled(level)) return;
  if (const LogSink& sink = process_log().sink) {
    sink(level, text);
    return;
  }
  std::fprintf(stderr, "%s: %.*s\n", name_of(level), static_cast<int>(text.size()), text.data());
}

}  // namespace baton
