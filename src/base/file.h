// Files that come from outside, opened with care: only regular files (a FIFO would wait for ever,
// a device never ends), and errors that name the path and, for a dangling link, its target. Text
// files are read by json.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace baton {

// Is there an entry of this name, be it a dangling link?
bool is_present(const std::string& path);

// An open file descriptor for reading and the size that the file had.
class OpenFile {
 public:
  // kNotFound only where nothing of this name exists.
  static Result<OpenFile> open(const std::string& path);

  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  int64_t bytes() const { return bytes_; }

 private:
  OpenFile(int descriptor, int64_t bytes) : descriptor_(descriptor), bytes_(bytes) {}

  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace baton
