// What the process says when it cannot go on: one line and an exit code instead of a core dump. For
// the three ends that no Result can carry: no memory for a small allocation, no thread, and a
// mapped weight file that became shorter while it is in use.
#pragma once

namespace baton {

// Runs `verb` so that an exception that nobody caught is a line and exit code 2.
int run_with_last_words(int (*verb)(int argc, char** argv), int argc, char** argv);

}  // namespace baton
