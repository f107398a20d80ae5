#include "line_editor.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <iostream>

namespace baton {
namespace {

constexpr std::string_view kPasteBegin = "\x1b[200~";
constexpr std::string_view kPasteEnd = "\x1b[201~";

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool can_edit() {
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb";
  return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0 && !dumb;
}

// Keys come one by one, unechoed, and none of them is a signal; pasted text is marked as such.
class RawMode {
 public:
  RawMode() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    write_out("\x1b[?2004h");
  }
  ~RawMode() {
    write_out("\x1b[?2004l");
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  RawMode(const RawMode&) = delete;
  RawMode& operator=(const RawMode&) = delete;

 private:
  termios before_{};
};

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

size_t character_end(std::string_view text, size_t at) {
  size_t end = std::min(at + 1, text.size());
  while (end < text.size() && continues_character(text[end])) ++end;
  return end;
}

// Columns of one character on the screen.
int width_of(std::string_view character) {
  wchar_t wide = 0;
  std::mbstate_t state{};
  const size_t bytes = std::mbrtowc(&wide, character.data(), character.size(), &state);
  if (bytes == 0 || bytes > character.size()) return 1;
  return std::max(0, wcwidth(wide));
}

// What is on the screen: the prompt and the text, in rows no wider than it.
struct Rows {
  std::vector<std::string> rows;
  size_t cursor_row = 0;
  int cursor_column = 0;
};

Rows lay_out(const std::string& prompt, const std::string& text, size_t cursor, int columns) {
  Rows out;
  out.rows.push_back(prompt);
  const int indent = static_cast<int>(prompt.size());
  int column = indent;
  const auto next_row = [&](int begin) {
    out.rows.emplace_back(static_cast<size_t>(begin), ' ');
    column = begin;
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = character_end(text, at);
    const std::string_view character = std::string_view(text).substr(at, end - at);
    const std::string_view shown = character == "\t" ? "    " : character;
    const int width = character == "\t" ? 4 : character.empty() ? 1 : width_of(character);
    if (character != "\n" && column + width > columns) next_row(0);
    if (at == cursor) {
      out.cursor_row = out.rows.size() - 1;
      out.cursor_column = column;
    }
    if (at == text.size()) break;
    at = end;
    if (character == "\n") {
      next_row(indent);
      continue;
    }
    out.rows.back() += shown;
    column += width;
  }
  return out;
}

winsize screen_size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 4 || size.ws_row < 2) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

}  // namespace

LineEditor::LineEditor(std::string prompt) : prompt_(std::move(prompt)), interactive_(can_edit()) {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the width of characters
}

std::optional<std::string> LineEditor::read() {
  if (interactive_) return read_keys();
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

std::optional<std::string> LineEditor::read_keys() {
  const RawMode raw;
  text_.clear();
  cursor_ = drawn_row_ = 0;
  recalled_ = history_.size();
  draw(false);
  while (true) {
    const Outcome outcome = take_keys();
    if (outcome != Outcome::kMore) {
      cursor_ = text_.size();
      draw(/*whole=*/true);
      write_out("\r\n");
      if (outcome == Outcome::kEnd) return std::nullopt;
      if (!text_.empty() && (history_.empty() || history_.back() != text_)) {
        history_.push_back(text_);
      }
      return text_;
    }
    draw(false);
    char piece[4096];
    const ssize_t bytes = ::read(STDIN_FILENO, piece, sizeof piece);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return std::nullopt;
    input_.append(piece, static_cast<size_t>(bytes));
  }
}

// As far as the input goes; the beginning of a sequence waits for the rest.
LineEditor::Outcome LineEditor::take_keys() {
  while (!input_.empty()) {
    if (pasting_) {
      const size_t end = input_.find(kPasteEnd);
      if (end == std::string::npos) return Outcome::kMore;
      insert(std::string_view(input_).substr(0, end));
      input_.erase(0, end + kPasteEnd.size());
      pasting_ = false;
    } else if (input_[0] == '\x1b') {
      if (input_.size() == 1) return Outcome::kMore;
      size_t end = 2;
      if (input_[1] == '[' || input_[1] == 'O') {
        while (end < input_.size() && (input_[end] < '@' || input_[end] > '~')) ++end;
        if (end++ == input_.size()) return Outcome::kMore;
      }
      take_sequence(std::string_view(input_).substr(0, end));
      input_.erase(0, end);
    } else if (static_cast<unsigned char>(input_[0]) < ' ' || input_[0] == '\x7f') {
      const char key = input_[0];
      input_.erase(0, 1);
      if (const Outcome outcome = take_control(key); outcome != Outcome::kMore) return outcome;
    } else {
      const auto control = std::find_if(input_.begin(), input_.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
      });
      insert(std::string_view(input_).substr(0, static_cast<size_t>(control - input_.begin())));
      input_.erase(input_.begin(), control);
    }
  }
  return Outcome::kMore;
}

LineEditor::Outcome LineEditor::take_control(char key) {
  const auto control = [](char letter) { return static_cast<char>(letter & 0x1f); };
  if (key == '\r') return Outcome::kMessage;
  if (key == control('D') && text_.empty()) return Outcome::kEnd;
  if (key == '\n') insert("\n");
  if (key == '\t') insert("\t");
  if (key == '\x7f' || key == '\b') erase(before_cursor(), cursor_);
  if (key == control('D')) erase(cursor_, behind_cursor());
  if (key == control('A')) cursor_ = line_begin();
  if (key == control('E')) cursor_ = line_end();
  if (key == control('B')) cursor_ = before_cursor();
  if (key == control('F')) cursor_ = behind_cursor();
  if (key == control('U')) erase(line_begin(), cursor_);
  if (key == control('K')) erase(cursor_, line_end());
  if (key == control('W')) erase(word_begin(), cursor_);
  if (key == control('P')) recall(-1);
  if (key == control('N')) recall(1);
  if (key == control('C')) interrupt();
  if (key == control('L')) {
    write_out("\x1b[2J\x1b[H");
    drawn_row_ = 0;
  }
  return Outcome::kMore;
}

void LineEditor::take_sequence(std::string_view sequence) {
  if (sequence == kPasteBegin) pasting_ = true;
  if (sequence == "\x1b\r" || sequence == "\x1b\n") insert("\n");  // Alt-Enter
  if (sequence == "\x1b[A" || sequence == "\x1bOA") recall(-1);
  if (sequence == "\x1b[B" || sequence == "\x1bOB") recall(1);
  if (sequence == "\x1b[C" || sequence == "\x1bOC") cursor_ = behind_cursor();
  if (sequence == "\x1b[D" || sequence == "\x1bOD") cursor_ = before_cursor();
  if (sequence == "\x1b[H" || sequence == "\x1bOH" || sequence == "\x1b[1~") cursor_ = line_begin();
  if (sequence == "\x1b[F" || sequence == "\x1bOF" || sequence == "\x1b[4~") cursor_ = line_end();
  if (sequence == "\x1b[3~") erase(cursor_, behind_cursor());
}

void LineEditor::insert(std::string_view text) {
  std::string clean;
  for (const char c : text) {
    if (c == '\r') {
      clean += '\n';
    } else if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t') {
      clean += c;
    }
  }
  text_.insert(cursor_, clean);
  cursor_ += clean.size();
}

void LineEditor::erase(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void LineEditor::recall(int step) {
  if (step < 0 ? recalled_ == 0 : recalled_ == history_.size()) return;
  recalled_ = step < 0 ? recalled_ - 1 : recalled_ + 1;
  text_ = recalled_ == history_.size() ? std::string() : history_[recalled_];
  cursor_ = text_.size();
}

// What was typed is given up, or, where there is nothing, how to leave is said.
void LineEditor::interrupt() {
  cursor_ = text_.size();
  draw(/*whole=*/true);
  write_out(text_.empty() ? "(Ctrl-D leaves)\r\n" : "^C\r\n");
  text_.clear();
  cursor_ = drawn_row_ = 0;
}

size_t LineEditor::before_cursor() const {
  size_t at = cursor_;
  while (at > 0 && continues_character(text_[at - 1])) --at;
  return at > 0 ? at - 1 : 0;
}

size_t LineEditor::behind_cursor() const {
  return character_end(text_, cursor_);
}

size_t LineEditor::line_begin() const {
  const size_t end = cursor_ == 0 ? std::string::npos : text_.rfind('\n', cursor_ - 1);
  return end == std::string::npos ? 0 : end + 1;
}

size_t LineEditor::line_end() const {
  return std::min(text_.find('\n', cursor_), text_.size());
}

size_t LineEditor::word_begin() const {
  const auto blank = [this](size_t at) { return text_[at] == ' ' || text_[at] == '\n'; };
  size_t at = cursor_;
  while (at > 0 && blank(at - 1)) --at;
  while (at > 0 && !blank(at - 1)) --at;
  return at;
}

// Over what was drawn before. `whole`: the rows that do not fit the screen too, for its
// scroll-back.
void LineEditor::draw(bool whole) {
  const winsize screen = screen_size();
  const Rows layout = lay_out(prompt_, text_, cursor_, screen.ws_col);
  const size_t height = screen.ws_row;
  size_t first = 0, end = layout.rows.size();
  if (!whole && end > height) {
    first = layout.cursor_row < height ? 0 : layout.cursor_row + 1 - height;
    end = first + height;
  }
  std::string out = "\r";
  if (drawn_row_ > 0) out += "\x1b[" + std::to_string(drawn_row_) + "A";
  out += "\x1b[J";
  for (size_t row = first; row < end; ++row) {
    if (row > first) out += "\r\n";
    out += layout.rows[row];
  }
  if (const size_t up = end - 1 - layout.cursor_row; up > 0) {
    out += "\x1b[" + std::to_string(up) + "A";
  }
  out += "\r";
  if (layout.cursor_column > 0) out += "\x1b[" + std::to_string(layout.cursor_column) + "C";
  drawn_row_ = layout.cursor_row - first;
  write_out(out);
}

}  // namespace baton
