#include "model/weights/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "model/weights/fused_experts.h"
#include "model/weights/safetensors.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

// Only names inside the folder: an index must not make us read elsewhere.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.find('\0') == std::string::npos && name != "." && name != ".." &&
         fs::path(name).filename() == name;
}

Error not_a_file_name(const std::string& path, const std::string& tensor, const Json& file) {
  return invalid_argument(path + ": weight_map: tensor '" + tensor +
                          "': expected the name of a file in this folder, got " + dump_json(file));
}

Result<WeightMap> read_index(const std::string& path) {
  const Result<Json> json = read_json_file(path);
  if (!json) return json.error();
  const auto map = json->is_object() ? json->find("weight_map") : json->end();
  if (!json->is_object() || map == json->end() || !map->is_object()) {
    return invalid_argument(path + ": expected an object 'weight_map' of tensor to file");
  }
  WeightMap files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_file_name(name)) return not_a_file_name(path, tensor, file);
    files.emplace(tensor, name);
  }
  return files;
}

// model-NUMBER-of-TOTAL.safetensors without an index; empty when there is none. Some writers give
// the total six digits: model-00001-of-000163.
Result<std::vector<std::string>> numbered_shards(const std::string& folder) {
  std::set<std::string> found;
  unsigned total = 0;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), last; !code && at != last; at.increment(code)) {
    const std::string name = at->path().filename().string();
    unsigned number = 0;
    unsigned of = 0;
    int end = 0;  // set only when all of the pattern is there
    (void)std::sscanf(name.c_str(), "model-%9u-of-%9u.safetensors%n", &number, &of, &end);
    if (end > 0 && name.size() == static_cast<size_t>(end)) {
      found.insert(name);
      total = std::max(total, of);
    }
  }
  if (total > 0 && found.size() != total) {
    return not_found(folder + ": expected " + std::to_string(total) + " shards, got " +
                     std::to_string(found.size()) + " (incomplete download?)");
  }
  return std::vector<std::string>(found.begin(), found.end());
}

Error missing_shards(const std::string& folder, const std::vector<std::string>& missing) {
  std::string list;
  for (const std::string& file : missing) list += (list.empty() ? "" : ", ") + file;
  return not_found(folder + ": " + kIndexName + " lists " + std::to_string(missing.size()) +
                   " files that are not there (incomplete download?): " + list);
}

}  // namespace

Status Checkpoint::add_file(const std::string& folder, const std::string& file) {
  const std::string path = (fs::path(folder) / file).string();
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  Result<std::vector<TensorEntry>> entries = parse_safetensors(mapped->bytes(), path);
  if (!entries) return entries.error();
  const uint8_t* base = mapped->bytes().data();
  for (TensorEntry& entry : *entries) {
    StoredTensor tensor{.name = entry.name,
                        .dtype = entry.dtype,
                        .shape = std::move(entry.shape),
                        .data = base + entry.begin,
                        .bytes = entry.bytes(),
                        .file = file};
    const auto [at, inserted] = tensors_.emplace(entry.name, std::move(tensor));
    if (!inserted) {
      return invalid_argument(path + ": tensor '" + entry.name + "' is also in " + at->second.file);
    }
  }
  files_.push_back(std::move(*mapped));
  return {};
}

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  const fs::path base(folder);
  WeightMap index;
  std::vector<std::string> files;
  if (is_present((base / kIndexName).string())) {
    Result<WeightMap> read = read_index((base / kIndexName).string());
    if (!read) return read.error();
    index = std::move(*read);
    std::set<std::string> names;
    for (const auto& [tensor, file] : index) names.insert(file);
    files.assign(names.begin(), names.end());
    std::vector<std::string> missing;
    for (const std::string& file : files) {
      if (!is_present((base / file).string())) missing.push_back(file);
    }
    if (!missing.empty()) return missing_shards(folder, missing);
    if (files.empty()) {
      return invalid_argument((base / kIndexName).string() + ": weight_map is empty");
    }
  } else if (is_present((base / kSingleName).string())) {
    files = {kSingleName};
  } else {
    Result<std::vector<std::string>> shards = numbered_shards(folder);
    if (!shards) return shards.error();
    files = std::move(*shards);
  }
  if (files.empty()) {
    return not_found(folder + ": expected " + kSingleName + " or " + kIndexName +
                     ", found neither");
  }
  for (const std::string& file : files) {
    if (Status status = checkpoint.add_file(folder, file); !status) return status.error();
  }

  for (const auto& [tensor, file] : index) {
    const StoredTensor* found = checkpoint.find(tensor);
    if (found == nullptr) {
      return invalid_argument((base / file).string() + ": tensor '" + tensor + "' is listed in " +
                              kIndexName + " but not in the file");
    }
  }
  std::vector<std::string> unlisted;
  for (const auto& [name, tensor] : checkpoint.tensors_) {
    if (!index.empty() && !index.contains(name)) unlisted.push_back(name);
  }
  if (!unlisted.empty()) {
    checkpoint.warnings_.push_back(
        std::string(kIndexName) + " is incomplete: " + std::to_string(unlisted.size()) +
        " tensors of the files are not listed (they are used), first: " + unlisted.front());
  }
  if (Status status = split_fused_experts(checkpoint.tensors_); !status) {
    return invalid_argument(folder + ": " + status.error().message);
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_headers(const std::string& folder) {
  const fs::path base(folder);
  if (!is_present((base / kIndexName).string())) {
    const Result<std::vector<std::string>> shards = numbered_shards(folder);
    if (shards && shards->empty() && !is_present((base / kSingleName).string())) {
      Checkpoint empty;
      empty.names_only_ = true;
      return empty;
    }
    return open(folder);
  }
  Result<WeightMap> index = read_index((base / kIndexName).string());
  if (!index) return index.error();
  for (const auto& [tensor, file] : *index) {
    if (is_present((base / file).string())) return open(folder);
  }
  Checkpoint checkpoint;
  checkpoint.names_only_ = true;
  for (const auto& [tensor, file] : *index) {
    StoredTensor stored;
    stored.name = tensor;
    stored.file = file;
    checkpoint.tensors_.emplace(tensor, std::move(stored));
  }
  return checkpoint;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

int64_t Checkpoint::bytes() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.bytes;
  return total;
}

}  // namespace baton
