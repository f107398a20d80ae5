#include "model/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

namespace baton {
namespace {

constexpr std::string_view kLfsMagic = "version https://git-lfs";
constexpr int64_t kMaxBytes = int64_t{1} << 56;

constexpr std::array kDTypes{
    DType::kF64,
    DType::kF32,
    DType::kF16,
    DType::kBF16,
    DType::kF8E4M3,
    DType::kF8E5M2,
    DType::kF8E8M0,
    DType::kU8,
    DType::kI8,
    DType::kI16,
    DType::kI32,
    DType::kI64,
    DType::kBool,
};

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType dtype : kDTypes) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

// One entry as written: which fields came is known.
struct RawEntry {
  TensorEntry tensor;
  std::string dtype;
  std::vector<int64_t> offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Receives the header's JSON piece by piece. Streaming keeps memory near the header's size and
// sees duplicate names, which a parsed object would have lost.
class HeaderReader {
 public:
  using Sax = nlohmann::json;

  std::vector<RawEntry>& entries() { return entries_; }
  const std::string& error() const { return error_; }

  bool start_object(size_t) {
    ++depth_;
    if (depth_ == 1) return true;
    if (depth_ == 2 && !in_array_) {
      if (name_ == "__metadata__") {
        metadata_ = true;
        return true;
      }
      entries_.emplace_back();
      entries_.back().tensor.name = name_;
      return true;
    }
    return fail("expected at most one object inside another");
  }
  bool end_object() {
    if (depth_ == 2) metadata_ = false;
    --depth_;
    return true;
  }
  bool start_array(size_t) {
    if (depth_ != 2 || metadata_ || in_array_ || (field_ != "shape" && field_ != "data_offsets")) {
      return fail("unexpected list");
    }
    in_array_ = true;
    if (field_ == "shape") entries_.back().has_shape = true;
    if (field_ == "data_offsets") entries_.back().has_offsets = true;
    return true;
  }
  bool end_array() {
    in_array_ = false;
    return true;
  }
  bool key(std::string& text) {
    if (depth_ == 1) {
      if (!names_.insert(text).second) {
        name_ = text;
        return fail("the name appears twice");
      }
      name_ = text;
      return true;
    }
    field_ = text;
    if (metadata_) return true;
    RawEntry& entry = entries_.back();
    if ((field_ == "dtype" && entry.has_dtype) || (field_ == "shape" && entry.has_shape) ||
        (field_ == "data_offsets" && entry.has_offsets)) {
      return fail("field '" + field_ + "' appears twice");
    }
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      return fail("unknown field '" + field_.substr(0, 40) + "'");
    }
    return true;
  }
  bool string(std::string& text) {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || in_array_ || field_ != "dtype") return fail("unexpected string");
    entries_.back().dtype = text;
    entries_.back().has_dtype = true;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (!in_array_) return fail("unexpected number");
    if (value > static_cast<uint64_t>(kMaxBytes)) return fail("number too large in " + field_);
    RawEntry& entry = entries_.back();
    auto& list = field_ == "shape" ? entry.tensor.shape : entry.offsets;
    if (list.size() >= 16) return fail("too many numbers in " + field_);
    list.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(int64_t) { return fail("negative number in " + field_); }
  bool number_float(double, const std::string&) { return fail("fractional number in " + field_); }
  bool null() { return fail("unexpected null"); }
  bool boolean(bool) { return fail("unexpected true or false"); }
  bool binary(nlohmann::json::binary_t&) { return fail("unexpected binary value"); }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) {
    if (error_.empty()) {
      error_ = "header is not valid JSON near byte " + std::to_string(at) + " of it";
    }
    return false;
  }

 private:
  bool fail(const std::string& reason) {
    error_ =
        name_.empty() ? "header: " + reason : "tensor '" + name_.substr(0, 200) + "': " + reason;
    return false;
  }

  std::vector<RawEntry> entries_;
  std::unordered_set<std::string> names_;
  std::string name_, field_, error_;
  int depth_ = 0;
  bool in_array_ = false;
  bool metadata_ = false;
};

// product(shape) * width, or nothing on overflow.
std::optional<int64_t> stored_bytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = dtype_bytes(dtype);
  for (const int64_t dim : shape) {
    if (dim != 0 && bytes > kMaxBytes / dim) return std::nullopt;
    bytes *= dim;
  }
  return bytes;
}

// Fills dtype and offsets (relative to the file), and checks this entry alone.
std::optional<std::string> resolve(RawEntry& raw, int64_t data_start, int64_t file_bytes) {
  if (!raw.has_dtype || !raw.has_shape || !raw.has_offsets) {
    return "expected dtype, shape and data_offsets";
  }
  const std::optional<DType> dtype = dtype_of(raw.dtype);
  if (!dtype) return "unknown dtype '" + raw.dtype.substr(0, 40) + "'";
  raw.tensor.dtype = *dtype;
  if (raw.offsets.size() != 2) return "expected two data_offsets";
  const auto [begin, end] = std::pair(raw.offsets[0], raw.offsets[1]);
  const std::string span =
      "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
  if (begin > end) return span + " are reversed";
  const std::optional<int64_t> bytes = stored_bytes(*dtype, raw.tensor.shape);
  if (!bytes || *bytes != end - begin) {
    return span + " hold " + std::to_string(end - begin) + " bytes, but " +
           describe_stored(*dtype, raw.tensor.shape) + " needs " +
           (bytes ? std::to_string(*bytes) : "more than can be addressed");
  }
  raw.tensor.begin = data_start + begin;
  raw.tensor.end = data_start + end;
  if (raw.tensor.end > file_bytes) {
    return span + " end outside the file: expected a file of at least " +
           std::to_string(raw.tensor.end) + " bytes, got " + std::to_string(file_bytes) +
           " (truncated or incomplete download?)";
  }
  return std::nullopt;
}

// Sorted entries must tile the data area: no overlap, no hole, nothing after the last.
std::optional<std::string> check_tiling(const std::vector<TensorEntry>& entries,
                                        int64_t data_start,
                                        int64_t file_bytes) {
  int64_t at = data_start;
  std::string previous;
  for (const TensorEntry& entry : entries) {
    if (entry.begin < at) {
      return "tensor '" + entry.name + "' overlaps tensor '" + previous + "' by " +
             std::to_string(at - entry.begin) + " bytes";
    }
    if (entry.begin > at) {
      return "hole of " + std::to_string(entry.begin - at) + " bytes before tensor '" + entry.name +
             "'";
    }
    at = entry.end;
    previous = entry.name;
  }
  if (at != file_bytes) {
    return std::to_string(file_bytes - at) + " bytes after the last tensor: expected a file of " +
           std::to_string(at) + " bytes, got " + std::to_string(file_bytes);
  }
  return std::nullopt;
}

// The header's JSON text, once its length makes sense.
Result<std::string_view> header_text(std::span<const uint8_t> file, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(kLfsMagic)) {
    return invalid_argument(path +
                            ": is a Git LFS pointer, not the file itself; fetch it with "
                            "'git lfs pull'");
  }
  if (file.size() < 8) {
    return invalid_argument(path + ": expected at least 8 bytes of safetensors, got " +
                            std::to_string(file.size()));
  }
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | file[i];
  if (length == 0) return invalid_argument(path + ": header length is 0");
  if (length > kMaxHeaderBytes) {
    return invalid_argument(path + ": header length " + std::to_string(length) +
                            " is above the limit of " + std::to_string(kMaxHeaderBytes));
  }
  if (length > file.size() - 8) {
    return invalid_argument(path + ": header of " + std::to_string(length) +
                            " bytes ends outside the file of " + std::to_string(file.size()) +
                            " bytes (truncated or incomplete download?)");
  }
  return text.substr(8, length);
}

}  // namespace

std::string describe_stored(DType dtype, const std::vector<int64_t>& shape) {
  std::string text = std::string(dtype_name(dtype)) + " [";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

Result<std::vector<TensorEntry>> parse_safetensors(std::span<const uint8_t> file,
                                                   std::string_view path) {
  const std::string where(path);
  const Result<std::string_view> text = header_text(file, where);
  if (!text) return text.error();
  if (text->front() != '{') return invalid_argument(where + ": header does not begin with '{'");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(*text, &reader)) {
    return invalid_argument(where + ": " + reader.error());
  }
  const auto data_start = static_cast<int64_t>(8 + text->size());
  const auto file_bytes = static_cast<int64_t>(file.size());
  std::vector<TensorEntry> entries;
  entries.reserve(reader.entries().size());
  for (RawEntry& raw : reader.entries()) {
    if (const auto reason = resolve(raw, data_start, file_bytes)) {
      return invalid_argument(where + ": tensor '" + raw.tensor.name.substr(0, 200) +
                              "': " + *reason);
    }
    entries.push_back(std::move(raw.tensor));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (const auto reason = check_tiling(entries, data_start, file_bytes)) {
    return invalid_argument(where + ": " + *reason);
  }
  return entries;
}

}  // namespace baton
