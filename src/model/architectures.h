// The table of data flows: the only place that joins model names to code.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "kv_cache/block_layout.h"
#include "model/config.h"
#include "model/model.h"
#include "model/weights/weight_reader.h"

namespace baton {

// Row formats chosen for a model; what does not fit its attention is ignored.
struct CacheFormats {
  LatentRowFormat latent = LatentRowFormat::kBF16;
  IndexKeyFormat index = IndexKeyFormat::kBF16;
  PlainRowFormat plain = PlainRowFormat::kBF16;
};

// Reads every weight and lays out the cache. Problems stay in the reader (sticky); the model must
// not run unless reader.finish() is fine.
using BuildModel = std::unique_ptr<Model> (*)(const ModelConfig&,
                                              const CacheFormats&,
                                              WeightReader&);

struct Architecture {
  std::string_view model_type;
  std::string_view flow;  // "latent attention (MLA)", for people
  BuildModel build;
};

std::span<const Architecture> architectures();

// Null for a model type without weights ("scripted").
const Architecture* find_architecture(std::string_view model_type);

// --kv-cache-dtype and --index-cache-dtype, with "auto" resolved (model.h), checked against what
// the model's attention can store. `dtype`: LoadOptions::dtype.
Result<CacheFormats> cache_formats(const ModelConfig& config,
                                   KvCacheDtype kv,
                                   KvCacheDtype index,
                                   std::string_view dtype);

BlockLayout model_block_layout(const ModelConfig& config, const CacheFormats& formats);

std::unique_ptr<Model> build_mla_decoder(const ModelConfig& config,
                                         const CacheFormats& formats,
                                         WeightReader& weights);
std::unique_ptr<Model> build_gqa_decoder(const ModelConfig& config,
                                         const CacheFormats& formats,
                                         WeightReader& weights);

}  // namespace baton
