#include "model/testing/checkpoint_editor.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "kernels/reference/weights.h"
#include "model/weights/checkpoint.h"

namespace baton::testing {

namespace fs = std::filesystem;

TempFolder::TempFolder(const std::string& name) {
  std::string pattern = (fs::temp_directory_path() / "baton_test_XXXXXX").string();
  BATON_CHECK(mkdtemp(pattern.data()) != nullptr, pattern);
  root_ = pattern;
  path_ = root_ + "/" + name;
  fs::create_directories(path_);
}

TempFolder::~TempFolder() {
  std::error_code code;
  fs::remove_all(root_, code);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  BATON_CHECK(out.good(), path);
}

EditedTensor raw_tensor(DType dtype, std::vector<int64_t> shape, const std::string& bytes) {
  return {.dtype = dtype, .shape = std::move(shape), .bytes = bytes};
}

EditedTensor f32_tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return raw_tensor(DType::kF32, std::move(shape), bytes);
}

std::vector<float> values_of(const EditedTensor& tensor) {
  const auto count = static_cast<int64_t>(tensor.bytes.size()) / dtype_bytes(tensor.dtype);
  std::vector<float> values(static_cast<size_t>(count));
  std::vector<uint64_t> aligned(tensor.bytes.size() / 8 + 1);
  std::memcpy(aligned.data(), tensor.bytes.data(), tensor.bytes.size());
  reference::expand_values(aligned.data(), tensor.dtype, 0, count, values.data());
  return values;
}

std::string with_header(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return bytes + header + data;
}

std::string safetensors_bytes(const std::map<std::string, EditedTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {{"dtype", std::string(dtype_name(tensor.dtype))},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  header["__metadata__"] = {{"format", "pt"}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return with_header(text, data);
}

CheckpointEditor CheckpointEditor::read(const std::string& folder) {
  CheckpointEditor editor;
  const Result<Json> config = read_json_file(folder + "/config.json");
  BATON_CHECK(config.has_value(), folder);
  editor.config = *config;
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder);
  BATON_CHECK(checkpoint.has_value(), folder);
  for (const auto& [name, stored] : checkpoint->tensors()) {
    editor.tensors[name] = raw_tensor(
        stored.dtype,
        stored.shape,
        std::string(reinterpret_cast<const char*>(stored.data), static_cast<size_t>(stored.bytes)));
  }
  return editor;
}

void CheckpointEditor::write(const std::string& folder, int shards) const {
  write_text(folder + "/config.json", dump_json(config));
  if (shards == 1) {
    write_text(folder + "/model.safetensors", safetensors_bytes(tensors));
    return;
  }
  std::vector<std::map<std::string, EditedTensor>> parts(static_cast<size_t>(shards));
  nlohmann::json map = nlohmann::json::object();
  size_t i = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t part = i++ * parts.size() / tensors.size();
    char file[64];
    std::snprintf(file, sizeof file, "model-%05zu-of-%05d.safetensors", part + 1, shards);
    parts[part].emplace(name, tensor);
    map[name] = file;
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    char file[64];
    std::snprintf(file, sizeof file, "model-%05zu-of-%05d.safetensors", part + 1, shards);
    write_text(folder + "/" + file, safetensors_bytes(parts[part]));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", map}};
  write_text(folder + "/model.safetensors.index.json", index.dump());
}

}  // namespace baton::testing
