// baton inspect DIR: parameters, bytes by form, KV bytes per row format, memory plan.
#include "model/inspect.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "layered_options.h"
#include "model_verbs.h"

namespace baton {

int run_inspect(int argc, char** argv) {
  CLI::App app("How large a model is and what memory it needs", "baton inspect");
  std::string folder;
  std::string kv = "auto";
  bool json = false;
  InspectOptions options;
  app.add_option("model", folder, "model folder (its JSON files are enough)")->required();
  app.add_option("--max-model-len", options.context_tokens, "tokens per sequence");
  app.add_option("--max-num-seqs", options.concurrency, "sequences at once");
  app.add_option("--max-num-batched-tokens", options.batched_tokens, "tokens in one step");
  app.add_option("--kv-cache-dtype", kv, "row format of the plan");
  app.add_flag("--json", json, "machine-readable");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : fail_with(std::string("inspect: ") + error.what());
  }
  const Result<KvCacheDtype> dtype = parse_kv_cache_dtype(kv);
  if (dtype) options.kv_cache_dtype = *dtype;
  const Result<InspectReport> report =
      dtype ? inspect_model(folder, options) : Result<InspectReport>(dtype.error());
  if (!report) return fail_with(report.error().message);
  const std::string text =
      json ? inspect_json(*report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
           : inspect_text(*report);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace baton
