// All tensors of a Hugging Face folder by name: one or many safetensors files, mapped. Only
// headers are read when it is opened. Immutable afterwards; tensors borrow from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/tensor.h"
#include "model/weights/mapped_file.h"

namespace baton {

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;     // [outer, ..., inner]
  const uint8_t* data = nullptr;  // in the mapped file; null when only the index is there
  int64_t bytes = 0;
  std::string file;  // for messages: "model-00001-of-00002.safetensors"
};

class Checkpoint {
 public:
  // Which files: those that model.safetensors.index.json lists; without it model.safetensors, or
  // else all of model-NUMBER-of-TOTAL.safetensors. Shard headers are the truth: tensors that the
  // index does not list are there, with a warning. Fused experts appear as one tensor per expert.
  // Errors name the file; missing shards are all listed.
  static Result<Checkpoint> open(const std::string& folder);

  // As open(), but where no shard is on disk names alone are taken from the index (dtype and
  // shape unknown), and a folder without any gives an empty checkpoint.
  static Result<Checkpoint> open_headers(const std::string& folder);

  Checkpoint() = default;

  const StoredTensor* find(std::string_view name) const;
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  int64_t files() const { return static_cast<int64_t>(files_.size()); }
  int64_t bytes() const;
  bool names_only() const { return names_only_; }

 private:
  Status add_file(const std::string& folder, const std::string& file);

  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::vector<MappedFile> files_;
  std::vector<std::string> warnings_;
  bool names_only_ = false;
};

}  // namespace baton
