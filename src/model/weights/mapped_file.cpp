#include "model/weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
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
    const std::string target = std::filesystem::read_symlink(path, code).string();
    return not_found(path + ": is a link to " + target + ", which does not exist");
  }
  const std::string message = path + ": cannot open: " + std::strerror(error);
  return error == ENOENT ? not_found(message) : invalid_argument(message);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return open_error(path, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return invalid_argument(path + ": expected a regular file");
  }
  MappedFile file;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* data = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    const int error = errno;
    if (data == MAP_FAILED) {
      file.size_ = 0;
      close(fd);
      return invalid_argument(path + ": cannot map: " + std::strerror(error));
    }
    file.data_ = static_cast<const uint8_t*>(data);
  }
  close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void release_pages(const uint8_t* data, int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data));
  const int64_t first = (address + page - 1) / page * page - address;
  const int64_t end = (address + bytes) / page * page - address;
  if (end <= first) return;
  madvise(const_cast<uint8_t*>(data) + first, static_cast<size_t>(end - first), MADV_DONTNEED);
}

}  // namespace baton
