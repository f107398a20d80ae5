// A whole file mapped read-only. Nothing is read until it is touched. The mapping lives as long
// as the object; moving keeps addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace baton {

class MappedFile {
 public:
  // Errors name the path; a dangling link is named with its target.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

// Drops the pages of a mapped range from this process; they can be read again.
void release_pages(const uint8_t* data, int64_t bytes);

}  // namespace baton
