// The verbs of the binary. Each gets its own name as argv[0] and returns the exit code: 0, 1 for
// a failure on the way, 2 for input that can never work.
#pragma once

namespace baton {

int run_serve(int argc, char** argv);
int run_chat(int argc, char** argv);
int run_complete(int argc, char** argv);
int run_bench(int argc, char** argv);

}  // namespace baton
