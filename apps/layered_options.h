// Options from four places: command line, then environment (BATON_*), then a YAML file
// (--config), then the default. Unknown names are errors that name the nearest one.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace baton {

// Adds --config, --print-config and --compat to an app and reads them with everything else.
class LayeredOptions {
 public:
  explicit LayeredOptions(CLI::App& app);

  // An exit code when the verb ends here: 0 after --help or --print-config, 2 after one line of
  // error on stderr. Else every variable bound to an option has its value.
  std::optional<int> parse(int argc, char** argv);
  bool compat() const { return compat_; }

 private:
  Status parse_layers(const std::vector<std::string>& command_line);
  bool add_environment(const CLI::Option& option, std::vector<std::string>& layered);
  void add_file(const CLI::Option& option, std::vector<std::string>& layered);
  std::string blame(const std::string& complaint) const;
  Status check_unknown(const std::vector<std::string>& remaining) const;
  Status check_file_names() const;
  Status load_file();
  std::string config_text() const;

  CLI::App& app_;
  std::string config_path_;
  bool print_config_ = false;
  bool compat_ = false;
  std::map<std::string, std::vector<std::string>> file_;  // name without dashes -> values
  std::map<std::string, std::string> source_;             // name -> where its value is from
};

// "32k" = 32,000, "32K" = 32,768, "1.5M", "4GiB", "123": small letters are decimal, capital ones
// binary, as in vLLM.
Result<int64_t> parse_human_size(const std::string& text);

// The name with the fewest edits to `name`; empty when none is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);

// One line on stderr; returns 2, the exit code of everything the user can mend.
int fail_with(const std::string& message);

}  // namespace baton
