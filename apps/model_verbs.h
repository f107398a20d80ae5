// The verbs that look at a model folder without running it. argv[0] is the verb's name; they
// return the exit code: 0, or 2 for a folder that would not load and for other bad input.
#pragma once

namespace baton {

int run_doctor(int argc, char** argv);   // doctor DIR [--json]
int run_inspect(int argc, char** argv);  // inspect DIR [--max-model-len N] [--max-num-seqs N] ...

}  // namespace baton
