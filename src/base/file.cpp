#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace baton {
namespace {

Error open_error(const std::string& path, int error) {
  std::error_code code;
  if (error == ENOENT && std::filesystem::is_symlink(path, code)) {
    return invalid_argument(path + ": is a link to " +
                            std::filesystem::read_symlink(path, code).string() +
                            ", which does not exist");
  }
  const std::string message = path + ": cannot open: " + std::strerror(error);
  return error == ENOENT ? not_found(message) : invalid_argument(message);
}

}  // namespace

bool is_present(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

Result<OpenFile> OpenFile::open(const std::string& path) {
  // Not blocking: opening a FIFO returns at once, and is then refused.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return open_error(path, errno);
  OpenFile file(descriptor, 0);
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return open_error(path, errno);
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument(path + ": expected a regular file, got " +
                            (S_ISDIR(info.st_mode) ? "a folder" : "something else"));
  }
  file.bytes_ = info.st_size;
  return file;
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace baton
