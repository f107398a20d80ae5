// The binary: one verb per file, and this table.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "last_words.h"
#include "layered_options.h"
#include "model_verbs.h"
#include "server/status_pages.h"
#include "verbs.h"

namespace baton {
namespace {

int run_version(int, char**) {
  std::printf("baton %s\n", std::string(baton_version()).c_str());
  return 0;
}

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(int argc, char** argv);
};

constexpr std::array kVerbs = {
    Verb{"serve", "serve a model over HTTP with the OpenAI API", &run_serve},
    Verb{"chat", "chat with a model in the terminal", &run_chat},
    Verb{"complete", "let a model go on with a text", &run_complete},
    Verb{"bench", "measure latency, throughput or a server", &run_bench},
    Verb{"doctor", "say what a checkpoint declares and what will be executed", &run_doctor},
    Verb{"inspect", "say what a checkpoint needs: parameters, bytes, memory", &run_inspect},
    Verb{"version", "print the version", &run_version},
};

void print_verbs(std::FILE* out) {
  std::fputs("usage: baton VERB [options]\n\n", out);
  for (const Verb& verb : kVerbs) std::fprintf(out, "  %-10s %s\n", verb.name, verb.summary);
  std::fputs("\nbaton VERB --help lists the options of a verb.\n", out);
}

int run_verb(const std::string& name, int argc, char** argv) {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (name == verb.name) return verb.run(argc, argv);
    names.emplace_back(verb.name);
  }
  const std::string nearest = nearest_name(name, names);
  return fail_with("unknown verb '" + name + "'" +
                   (nearest.empty() ? "; see baton --help" : "; nearest: " + nearest));
}

int run(int argc, char** argv) {
  if (argc < 2) {
    print_verbs(stderr);
    return 2;
  }
  const std::string name = argv[1];
  if (name == "help" && argc > 2) {  // baton help serve
    std::string help = "--help";
    std::array<char*, 2> verb_help = {argv[2], help.data()};
    return run_verb(argv[2], 2, verb_help.data());
  }
  if (name == "--help" || name == "-h" || name == "help") {
    print_verbs(stdout);
    return 0;
  }
  if (name == "--version") return run_version(argc, argv);
  return run_verb(name, argc - 1, argv + 1);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  return baton::run_with_last_words(&baton::run, argc, argv);
}
