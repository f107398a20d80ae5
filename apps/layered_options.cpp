#include "layered_options.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "base/json.h"

namespace baton {
namespace {

// Flags of vLLM that have no meaning here yet. Under --compat they are passed over with the
// reason; otherwise they stop the start, so that nobody believes in them.
struct ForeignFlag {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array kForeignFlags = {
    ForeignFlag{"tensor-parallel-size", "Baton runs on one device"},
    ForeignFlag{"tp", "Baton runs on one device"},
    ForeignFlag{"pipeline-parallel-size", "Baton runs on one device"},
    ForeignFlag{"data-parallel-size", "Baton runs on one device"},
    ForeignFlag{"enable-expert-parallel", "Baton runs on one device"},
    ForeignFlag{"quantization", "the form of the weights is read from the checkpoint"},
    ForeignFlag{"load-format", "checkpoints are safetensors"},
    ForeignFlag{"block-size", "a block is 64 tokens"},
    ForeignFlag{"enable-chunked-prefill", "prefill is always chunked"},
    ForeignFlag{"trust-remote-code", "Baton runs no code of a checkpoint"},
    ForeignFlag{"hf-overrides", "config.json is read as it is"},
    ForeignFlag{"otlp-traces-endpoint", "tracing is not there yet"},
    ForeignFlag{"disable-log-requests", "requests are logged without content; see --log-level"},
    ForeignFlag{"enable-prompt-tokens-details", "they are always reported"},
    ForeignFlag{"chat-template-content-format", "contents are joined to strings"},
    ForeignFlag{"structured-outputs-config", "constrained output is not there yet"},
    ForeignFlag{"kv-events-config", "KV events are not there yet"},
    ForeignFlag{"kv-transfer-config", "KV transfer is not there yet"},
    ForeignFlag{"max-logprobs", "the limit is 20"},
    ForeignFlag{"enforce-eager", "see --no-enable-graphs"},
};

std::string bare(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  if (const size_t end = name.find('='); end != std::string::npos) name.resize(end);
  return name;
}

const ForeignFlag* find_foreign(const std::string& name) {
  const std::string stem = name.substr(0, name.find('.'));
  const auto found = std::find_if(kForeignFlags.begin(),
                                  kForeignFlags.end(),
                                  [&](const ForeignFlag& flag) { return flag.name == stem; });
  return found == kForeignFlags.end() ? nullptr : &*found;
}

// The keys behind a dot are those of a JSON object and keep their form.
std::string with_dashes(std::string name) {
  const auto dot = std::ranges::find(name, '.');
  std::replace(name.begin(), dot, '_', '-');
  return name;
}

std::string environment_name(const std::string& name) {
  std::string out = "BATON_";
  for (const char c : name) {
    out +=
        c == '-' || c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

// The long name an option goes by; empty for --help.
std::string main_name(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  return names.empty() || names[0] == "help" ? std::string() : names[0];
}

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  std::erase(names, "help");
  return names;
}

Error unknown_flag(const std::string& name, const ForeignFlag* foreign, const CLI::App& app) {
  if (foreign != nullptr) {
    return invalid_argument("--" + name + " is not supported: " + std::string(foreign->reason) +
                            "; with --compat it is passed over");
  }
  const std::string nearest = nearest_name(name, names_of(app));
  return invalid_argument("unknown flag --" + name +
                          (nearest.empty() ? "; see --help" : "; nearest: --" + nearest));
}

std::string as_flag(const std::string& name, const std::string& value) {
  return "--" + name + "=" + value;
}

// As in a YAML file; a flag without a value is on.
std::string listed(const std::vector<std::string>& values) {
  if (values.empty()) return "true";
  if (values.size() == 1) return values[0];
  std::string list;
  for (const std::string& value : values) {
    list += list.empty() ? "[" : ", ";
    list += value;
  }
  return list + "]";
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace

int fail_with(const std::string& message) {
  std::fprintf(stderr, "baton: %s\n", one_line(message).c_str());
  return 2;
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(3, name.size() / 2);
  for (const std::string& candidate : names) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

Result<int64_t> parse_human_size(const std::string& text) {
  const Error error = invalid_argument("expected a size like 4096, 32k, 32K or 1.5G, got '" +
                                       text.substr(0, 40) + "'");
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end == text.c_str() || !std::isfinite(number) || number < 0) return error;
  std::string suffix(end);
  if (suffix.size() == 3 && suffix.ends_with("iB")) suffix.resize(1);
  double unit = 1;
  if (!suffix.empty()) {
    static constexpr std::string_view kDecimal = "kmgt";
    static constexpr std::string_view kBinary = "KMGT";
    if (suffix.size() != 1) return error;
    if (const size_t power = kDecimal.find(suffix[0]); power != std::string_view::npos) {
      unit = std::pow(1000.0, static_cast<double>(power + 1));
    } else if (const size_t binary = kBinary.find(suffix[0]); binary != std::string_view::npos) {
      unit = std::pow(1024.0, static_cast<double>(binary + 1));
    } else {
      return error;
    }
  }
  if (number * unit > 9e18) return error;
  return static_cast<int64_t>(number * unit);
}

LayeredOptions::LayeredOptions(CLI::App& app) : app_(app) {
  app_.allow_extras();
  app_.add_option("--config", config_path_, "YAML file with the same names as the flags");
  app_.add_flag("--print-config", print_config_, "print every option with its source, and end");
  app_.add_flag("--compat", compat_, "pass over vLLM flags that Baton does not have");
}

std::optional<int> LayeredOptions::parse(int argc, char** argv) {
  try {
    if (Status status = parse_layers(std::vector<std::string>(argv + 1, argv + argc)); !status) {
      return fail_with(status.error().message);
    }
  } catch (const CLI::CallForHelp&) {
    std::cout << app_.help();
    return 0;
  } catch (const CLI::ParseError& e) {
    return fail_with(e.what());
  } catch (const std::exception& e) {
    return fail_with(e.what());
  }
  if (!print_config_) return std::nullopt;
  std::cout << config_text();
  return 0;
}

// First the command line alone, to know what it leaves open; then all of it.
Status LayeredOptions::parse_layers(const std::vector<std::string>& command_line) {
  std::vector<std::string> args(command_line.rbegin(), command_line.rend());
  app_.parse(args);
  if (config_path_.empty()) {
    if (const char* path = std::getenv("BATON_CONFIG"); path != nullptr) config_path_ = path;
  }
  if (!config_path_.empty()) {
    if (Status status = load_file(); !status) return status;
  }
  std::vector<std::string> layered;
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = main_name(*option);
    if (name.empty() || name == "config") continue;
    if (option->count() > 0) {
      source_[name] = "flag";
    } else if (!add_environment(*option, layered)) {
      add_file(*option, layered);
    }
  }
  if (!layered.empty()) {
    // Behind the command line: an option that takes a list would swallow the model's name.
    layered.insert(layered.begin(), command_line.begin(), command_line.end());
    std::reverse(layered.begin(), layered.end());
    try {
      app_.parse(layered);
    } catch (const CLI::ParseError& e) {
      return invalid_argument(e.what() + blame(e.what()));
    }
  }
  if (Status status = check_file_names(); !status) return status;
  return check_unknown(app_.remaining());
}

bool LayeredOptions::add_environment(const CLI::Option& option, std::vector<std::string>& layered) {
  for (const std::string& name : option.get_lnames()) {
    const char* value = std::getenv(environment_name(name).c_str());
    if (value == nullptr || *value == '\0') continue;
    layered.push_back(as_flag(name, value));
    source_[main_name(option)] = "environment";
    return true;
  }
  return false;
}

// An empty value is none, as in the environment.
void LayeredOptions::add_file(const CLI::Option& option, std::vector<std::string>& layered) {
  for (const std::string& name : option.get_lnames()) {
    const auto found = file_.find(name);
    if (found == file_.end() || found->second == std::vector<std::string>{""}) continue;
    for (const std::string& value : found->second) layered.push_back(as_flag(name, value));
    source_[main_name(option)] = "file";
  }
}

// Where the option that `complaint` is about has its value from.
std::string LayeredOptions::blame(const std::string& complaint) const {
  for (const auto& [name, source] : source_) {
    if (source == "flag" || complaint.find("--" + name) == std::string::npos) continue;
    return source == "file" ? "; from " + config_path_
                            : "; from the environment, " + environment_name(name);
  }
  return {};
}

Status LayeredOptions::check_unknown(const std::vector<std::string>& remaining) const {
  for (const std::string& argument : remaining) {
    if (!argument.starts_with("-")) {
      if (compat_) continue;  // the value of a flag passed over
      return invalid_argument("unexpected argument '" + argument + "'");
    }
    const std::string name = bare(argument);
    const ForeignFlag* foreign = find_foreign(name);
    if (compat_) {
      std::fprintf(stderr,
                   "baton: warning: --%s is ignored: %s\n",
                   name.c_str(),
                   foreign != nullptr ? std::string(foreign->reason).c_str() : "unknown flag");
      continue;
    }
    return unknown_flag(name, foreign, app_);
  }
  return {};
}

Status LayeredOptions::load_file() {
  Result<std::string> text = read_file(config_path_);
  if (!text) return invalid_argument("--config " + text.error().message);
  YAML::Node root;
  try {
    root = YAML::Load(*text);
  } catch (const YAML::Exception& e) {
    return invalid_argument("--config " + config_path_ + ": not valid YAML: " + e.what());
  }
  if (root.IsNull()) return {};
  if (!root.IsMap()) {
    return invalid_argument("--config " + config_path_ + ": expected names and values");
  }
  for (const auto& entry : root) {
    const std::string name = with_dashes(entry.first.as<std::string>());
    if (entry.second.IsMap()) {  // of a flag with a dotted form
      for (const auto& value : entry.second) {
        file_[name + "." + value.first.as<std::string>()].push_back(value.second.as<std::string>());
      }
      continue;
    }
    std::vector<std::string>& values = file_[name];
    if (entry.second.IsScalar()) {
      values.push_back(entry.second.as<std::string>());
    } else if (entry.second.IsSequence()) {
      for (const auto& value : entry.second) values.push_back(value.as<std::string>());
    } else if (!entry.second.IsNull()) {
      return invalid_argument("--config " + config_path_ + ": " + name +
                              ": expected a value or a list");
    }
  }
  return {};
}

Status LayeredOptions::check_file_names() const {
  std::vector<std::string> names = names_of(app_);
  std::erase(names, "config");
  for (const auto& [name, values] : file_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (compat_ && find_foreign(name) != nullptr) continue;
    const std::string nearest = nearest_name(name, names);
    return invalid_argument("--config " + config_path_ + ": unknown name '" + name + "'" +
                            (nearest.empty() ? "" : "; nearest: " + nearest));
  }
  return {};
}

std::string LayeredOptions::config_text() const {
  std::string out;
  for (const CLI::Option* option : app_.get_options()) {
    const std::string name = main_name(*option);
    if (name.empty() || name == "config" || name == "print-config") continue;
    std::string value = option->get_default_str();
    if (value.empty() && option->get_items_expected_max() == 0) value = "false";
    if (option->count() > 0) value = listed(option->results());
    if (name == "api-key" && !value.empty()) value = "***";
    const auto source = source_.find(name);
    out += name;
    out += ": ";
    // In quotes what YAML would take for nothing, or for an alias.
    out += value.empty() || value.starts_with('*') ? '"' + value + '"' : value;
    out += "  # ";
    out += source == source_.end() ? "default" : source->second;
    out += '\n';
  }
  return out;
}

}  // namespace baton
