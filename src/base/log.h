// Leveled log lines. One process-wide sink, set once by the application before threads
// start (apps/ installs spdlog); the default sink writes plain lines to stderr. This is the
// one piece of process-wide state below the server: a log that has to be handed through
// every call would be in every signature and change nothing.
//
// Never log the content of prompts, tools or outputs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace baton {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

using LogSink = std::function<void(LogLevel, std::string_view)>;

// Call before the first thread starts. Lines under `level` are dropped.
void set_log(LogLevel level, LogSink sink);

bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);

inline void log_debug(std::string_view text) {
  log_line(LogLevel::kDebug, text);
}
inline void log_info(std::string_view text) {
  log_line(LogLevel::kInfo, text);
}
inline void log_warning(std::string_view text) {
  log_line(LogLevel::kWarning, text);
}
inline void log_error(std::string_view text) {
  log_line(LogLevel::kError, text);
}

}  // namespace baton
