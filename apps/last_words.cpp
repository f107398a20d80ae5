#include "last_words.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "layered_options.h"

namespace baton {
namespace {

constexpr int kBadInput = 2;

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

uintptr_t hexadecimal(std::string_view& text) {
  uintptr_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value * 16 + static_cast<uintptr_t>(digit);
    text.remove_prefix(1);
  }
  return value;
}

// The name at the end of a line of /proc/self/maps if `address` is in its range.
std::string_view name_if_mapped(std::string_view line, uintptr_t address) {
  const uintptr_t begin = hexadecimal(line);
  if (!line.starts_with('-')) return {};
  line.remove_prefix(1);
  const uintptr_t end = hexadecimal(line);
  const size_t slash = line.find('/');
  return address >= begin && address < end && slash != std::string_view::npos ? line.substr(slash)
                                                                              : std::string_view();
}

// Only what may be called in a signal handler.
void say_which_file(uintptr_t address) {
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> line{};
  size_t length = 0;
  char c = 0;
  while (maps >= 0 && read(maps, &c, 1) == 1) {
    if (c != '\n') {
      if (length < line.size()) line[length++] = c;
      continue;
    }
    const std::string_view name = name_if_mapped({line.data(), length}, address);
    length = 0;
    if (name.empty()) continue;
    say(name);
    return;
  }
  say("a mapped file");
}

void on_bus_error(int, siginfo_t* info, void*) {
  say("baton: ");
  say_which_file(reinterpret_cast<uintptr_t>(info->si_addr));
  say(": cannot be read any more: the file became shorter, or its disk failed, while in use\n");
  _exit(kBadInput);
}

constexpr std::string_view kNoThread =
    "; lower --cpu-threads or raise the limits of this process (ulimit -u, -v)";

// An exception on a thread that has no one to catch it; or none, where some threads of a pool have
// started and the next could not.
[[noreturn]] void on_terminate() {
  const std::exception_ptr current = std::current_exception();
  say("baton: ");
  if (current == nullptr) {
    say("cannot start all threads");
    say(kNoThread);
  } else {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      say("ended by ");
      say(error.what());
    } catch (...) {
      say("ended by an exception");
    }
  }
  say("\n");
  _exit(current == nullptr ? kBadInput : 1);
}

}  // namespace

int run_with_last_words(int (*verb)(int argc, char** argv), int argc, char** argv) {
  struct sigaction action {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
  std::set_terminate(&on_terminate);
  try {
    return verb(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail_with(
        "out of host memory; lower --max-model-len, --max-num-seqs or --max-num-batched-tokens, or "
        "raise the limit of this process (ulimit -v, its container)");
  } catch (const std::system_error& error) {
    return fail_with(std::string("cannot start a thread: ") + error.what() +
                     std::string(kNoThread));
  } catch (const std::exception& error) {
    return fail_with(error.what());
  }
}

}  // namespace baton
