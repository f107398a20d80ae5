#include "model/weights/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"

namespace baton {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const Result<OpenFile> opened = OpenFile::open(path);
  if (!opened) return opened.error();
  MappedFile file;
  if (opened->bytes() == 0) return file;
  const auto size = static_cast<size_t>(opened->bytes());
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, opened->descriptor(), 0);
  if (data == MAP_FAILED) {
    return invalid_argument(path + ": cannot map " + std::to_string(size) + " bytes: " +
                            std::strerror(errno) + " (is the address space limited, ulimit -v?)");
  }
  file.data_ = static_cast<const uint8_t*>(data);
  file.size_ = size;
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
