// baton doctor DIR [--json]: what a checkpoint declares and what will be executed of it.
#include "model/doctor.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "layered_options.h"
#include "model_verbs.h"

namespace baton {

int run_doctor(int argc, char** argv) {
  CLI::App app("What a checkpoint declares and what Baton will execute of it", "baton doctor");
  std::string folder;
  bool json = false;
  app.add_option("model", folder, "model folder (its JSON files are enough)")->required();
  app.add_flag("--json", json, "machine-readable");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error)
                                      : fail_with(std::string("doctor: ") + error.what());
  }
  const Result<DoctorReport> report = examine_model(folder);
  if (!report) return fail_with(report.error().message);
  const std::string text =
      json ? doctor_json(*report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
           : doctor_text(*report);
  std::fputs(text.c_str(), stdout);
  return report->problem ? fail_with(*report->problem) : 0;
}

}  // namespace baton
