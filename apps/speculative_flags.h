// --speculative-config JSON and its dotted form, --speculative-config.KEY VALUE, as vLLM has them.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace baton {

struct SpeculativeFlags {
  std::string config;                         // an object as JSON text; empty: none
  std::map<std::string, std::string> values;  // by key of the dotted form; empty: not given
};

void add_speculative_options(CLI::App& app, SpeculativeFlags& flags);

// `compat`: a method that Baton does not have is a warning, and nothing is drafted.
Result<SpeculationOptions> read_speculation(const SpeculativeFlags& flags, bool compat);

}  // namespace baton
