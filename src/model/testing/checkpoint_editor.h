// For tests: a checkpoint in memory that can be changed and written to a temporary folder, well
// formed unless a test breaks it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "device/tensor.h"

namespace baton::testing {

// A folder that is removed with everything in it.
class TempFolder {
 public:
  explicit TempFolder(const std::string& name = "model");
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string root_, path_;
};

void write_text(const std::string& path, const std::string& text);

struct EditedTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;
};

EditedTensor f32_tensor(std::vector<int64_t> shape, const std::vector<float>& values);
EditedTensor raw_tensor(DType dtype, std::vector<int64_t> shape, const std::string& bytes);
// Values of an F32, BF16 or F16 tensor.
std::vector<float> values_of(const EditedTensor& tensor);

// A whole safetensors file.
std::string safetensors_bytes(const std::map<std::string, EditedTensor>& tensors);
// The same around any header.
std::string with_header(const std::string& header, const std::string& data);

struct CheckpointEditor {
  Json config;
  std::map<std::string, EditedTensor> tensors;

  // Reads config.json and all tensors of a sound folder.
  static CheckpointEditor read(const std::string& folder);

  // One file without an index, or `shards` files with one.
  void write(const std::string& folder, int shards = 1) const;
};

}  // namespace baton::testing
