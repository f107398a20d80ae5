// Reads one message at a time from a person at a terminal: editing, history, pasted text with its
// line ends, lines longer than the kernel's own line editing takes. Where input or output is no
// terminal, a line of input is a message. Owns the terminal's mode while it reads; one thread.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt);

  // Somebody types and sees what is typed.
  bool interactive() const { return interactive_; }
  // Without the last line end. Nothing: Ctrl-D, or the end of the input.
  std::optional<std::string> read();

 private:
  enum class Outcome { kMore, kMessage, kEnd };

  std::optional<std::string> read_keys();
  Outcome take_keys();
  Outcome take_control(char key);
  void take_sequence(std::string_view sequence);
  void insert(std::string_view text);
  void erase(size_t begin, size_t end);
  void recall(int step);
  void interrupt();
  size_t before_cursor() const;
  size_t behind_cursor() const;
  size_t line_begin() const;
  size_t line_end() const;
  size_t word_begin() const;
  void draw(bool whole);

  const std::string prompt_;
  const bool interactive_;
  std::string input_;  // read, and not yet understood
  bool pasting_ = false;
  std::string text_;
  size_t cursor_ = 0;     // a byte of text_, or its end
  size_t drawn_row_ = 0;  // of the cursor, from the first row drawn
  std::vector<std::string> history_;
  size_t recalled_ = 0;  // of history_; its size: the text being typed
};

}  // namespace baton
