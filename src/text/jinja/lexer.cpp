#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "text/utf8.h"

namespace baton::jinja {
namespace {

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

// \r\n and \r become \n, and one newline at the end goes.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Longest first, so that "//" is not read as two "/".
constexpr std::array<std::string_view, 28> kOperators = {
    "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">",
    "=",  "|",  ".",  ",",  ":",  ";",  "(", ")", "[", "]", "{", "}", "&", "^"};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), rest_(source_) {}

  Result<std::vector<Token>> run() {
    while (!rest_.empty() && !error_) text();
    if (error_) return *error_;
    add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void fail(const std::string& message) {
    if (!error_) error_ = invalid_argument("line " + std::to_string(line_) + ": " + message);
  }

  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  void advance(size_t count) {
    line_ += static_cast<int>(
        std::count(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count), '\n'));
    at_line_start_ = count > 0 ? rest_[count - 1] == '\n' : at_line_start_;
    rest_.remove_prefix(count);
  }

  void skip_space() {
    size_t count = 0;
    while (count < rest_.size() && is_space(rest_[count])) ++count;
    advance(count);
  }

  // Text up to the next tag, then the tag.
  void text() {
    size_t end = 0;
    while (end < rest_.size()) {
      end = rest_.find('{', end);
      if (end == std::string_view::npos) end = rest_.size();
      if (end + 1 >= rest_.size()) {
        end = rest_.size();
      } else if (const char next = rest_[end + 1]; next == '{' || next == '%' || next == '#') {
        break;
      } else {
        ++end;
      }
    }
    const std::string_view before = rest_.substr(0, end);
    const std::string_view tag = rest_.substr(end);
    const std::string shown(before.substr(0, before.size() - stripped_before(before, tag)));
    if (!shown.empty()) add(Token::Kind::kText, shown);
    advance(end);
    if (tag.empty()) return;
    const char kind = tag[1];
    advance(2);
    if (!rest_.empty() && (rest_[0] == '-' || rest_[0] == '+')) advance(1);
    if (kind == '#') {
      comment();
    } else if (kind == '%') {
      block();
    } else {
      add(Token::Kind::kVariableBegin, "");
      expression(Token::Kind::kVariableEnd, "}}");
    }
  }

  // Bytes at the end of `before` that the tag after it removes.
  size_t stripped_before(std::string_view before, std::string_view tag) const {
    if (tag.size() < 2) return 0;
    const char sign = tag.size() > 2 ? tag[2] : ' ';
    if (sign == '-') {
      size_t count = 0;
      while (count < before.size() && is_space(before[before.size() - 1 - count])) ++count;
      return count;
    }
    if (sign == '+' || tag[1] == '{') return 0;
    const size_t newline = before.rfind('\n');
    const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    if (line_start == 0 && !at_line_start_) return 0;
    const std::string_view line = before.substr(line_start);
    return std::all_of(line.begin(), line.end(), is_space) ? line.size() : 0;
  }

  // What follows the end of a block or comment: '-' takes all whitespace, otherwise one newline.
  void trim_after(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && !rest_.empty() && rest_[0] == '\n') {
      advance(1);
    }
  }

  void comment() {
    const size_t end = rest_.find("#}");
    if (end == std::string_view::npos) return fail("missing end of comment tag '#}'");
    const char sign = end > 0 ? rest_[end - 1] : ' ';
    advance(end + 2);
    trim_after(sign);
  }

  void block() {
    if (raw_block()) return;
    add(Token::Kind::kBlockBegin, "");
    expression(Token::Kind::kBlockEnd, "%}");
  }

  // {% raw %} ... {% endraw %}: text, whatever is in it.
  bool raw_block() {
    std::string_view head = rest_;
    const auto skip = [&] {
      while (!head.empty() && is_space(head[0])) head.remove_prefix(1);
    };
    skip();
    if (!head.starts_with("raw")) return false;
    head.remove_prefix(3);
    skip();
    const char sign = head.empty() ? ' ' : head[0];
    if (sign == '-' || sign == '+') head.remove_prefix(1);
    if (!head.starts_with("%}")) return false;
    head.remove_prefix(2);
    advance(rest_.size() - head.size());
    trim_after(sign);
    for (size_t begin = rest_.find("{%"); begin != std::string_view::npos;
         begin = rest_.find("{%", begin + 2)) {
      size_t i = begin + 2;
      if (i < rest_.size() && (rest_[i] == '-' || rest_[i] == '+')) ++i;
      while (i < rest_.size() && is_space(rest_[i])) ++i;
      if (!rest_.substr(i).starts_with("endraw")) continue;
      i += 6;
      while (i < rest_.size() && is_space(rest_[i])) ++i;
      const char end_sign = i < rest_.size() ? rest_[i] : ' ';
      if (end_sign == '-' || end_sign == '+') ++i;
      if (!rest_.substr(i).starts_with("%}")) continue;
      const std::string_view body = rest_.substr(0, begin);
      const size_t stripped = stripped_before(body, rest_.substr(begin));
      add(Token::Kind::kText, std::string(body.substr(0, body.size() - stripped)));
      advance(i + 2);
      trim_after(end_sign);
      return true;
    }
    fail("missing end of raw block");
    return true;
  }

  // Tokens up to `close`, which does not count inside brackets.
  void expression(Token::Kind end_kind, std::string_view close) {
    std::vector<char> open;
    const bool is_block = end_kind == Token::Kind::kBlockEnd;
    while (!error_) {
      skip_space();
      if (rest_.empty()) return fail("missing '" + std::string(close) + "'");
      const char c = rest_[0];
      const bool has_sign = c == '-' || (c == '+' && is_block);
      if (open.empty() && rest_.substr(has_sign ? 1 : 0).starts_with(close)) {
        add(end_kind, "");
        advance(close.size() + (has_sign ? 1 : 0));
        if (is_block) {
          trim_after(has_sign ? c : ' ');
        } else if (c == '-') {
          skip_space();
        }
        return;
      }
      if (c == '\'' || c == '"') {
        string(c);
      } else if (is_digit(c)) {
        number();
      } else if (is_name_start(c)) {
        size_t count = 1;
        while (count < rest_.size() && is_name(rest_[count])) ++count;
        add(Token::Kind::kName, std::string(rest_.substr(0, count)));
        advance(count);
      } else {
        operator_token(open);
      }
    }
  }

  void operator_token(std::vector<char>& open) {
    for (const std::string_view candidate : kOperators) {
      if (!rest_.starts_with(candidate)) continue;
      const char c = candidate[0];
      if (c == '(' || c == '[' || c == '{') {
        open.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
      } else if (c == ')' || c == ']' || c == '}') {
        if (open.empty() || open.back() != c) return fail(std::string("unexpected '") + c + "'");
        open.pop_back();
      }
      add(Token::Kind::kOperator, std::string(candidate));
      return advance(candidate.size());
    }
    fail("unexpected character '" + std::string(rest_.substr(0, decode_utf8(rest_, 0).length)) +
         "'");
  }

  // Decimal with '_', 0x/0o/0b, or a float with a fraction, an exponent or both.
  void number() {
    if (rest_[0] == '0' && rest_.size() > 2 &&
        std::isalpha(static_cast<unsigned char>(rest_[1])) != 0) {
      const char base = static_cast<char>(std::tolower(static_cast<unsigned char>(rest_[1])));
      const int radix = base == 'x' ? 16 : base == 'o' ? 8 : base == 'b' ? 2 : 0;
      size_t count = 2;
      while (count < rest_.size() &&
             (std::isxdigit(static_cast<unsigned char>(rest_[count])) != 0 || rest_[count] == '_'))
        ++count;
      std::string digits(rest_.substr(2, count - 2));
      std::erase(digits, '_');
      char* end = nullptr;
      const auto value = std::strtoull(digits.c_str(), &end, radix == 0 ? 10 : radix);
      if (radix == 0 || digits.empty() || *end != '\0') return fail("bad number");
      add(Token::Kind::kInteger, std::to_string(value));
      return advance(count);
    }
    size_t count = digits_from(0);
    Token::Kind kind = Token::Kind::kInteger;
    if (count + 1 < rest_.size() && rest_[count] == '.' && is_digit(rest_[count + 1])) {
      count = digits_from(count + 1);
      kind = Token::Kind::kFloat;
    }
    if (count < rest_.size() && (rest_[count] == 'e' || rest_[count] == 'E')) {
      size_t digits = count + 1;
      if (digits < rest_.size() && (rest_[digits] == '+' || rest_[digits] == '-')) ++digits;
      if (digits < rest_.size() && is_digit(rest_[digits])) {
        count = digits_from(digits);
        kind = Token::Kind::kFloat;
      }
    }
    std::string value(rest_.substr(0, count));
    std::erase(value, '_');
    add(kind, std::move(value));
    advance(count);
  }

  size_t digits_from(size_t position) const {
    while (position < rest_.size() && (is_digit(rest_[position]) || rest_[position] == '_')) {
      ++position;
    }
    return position;
  }

  void string(char quote) {
    const int first_line = line_;
    size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) return fail("missing end of string");
    std::string value = unescape(rest_.substr(1, end - 1));
    advance(end + 1);
    tokens_.push_back({Token::Kind::kString, std::move(value), first_line});
  }

  // Python's escapes; an unknown one stays as it is.
  std::string unescape(std::string_view text) {
    constexpr std::string_view kLetters = "ntrbfav\\'\"0";
    constexpr std::string_view kValues("\n\t\r\b\f\a\v\\'\"\0", 11);
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 == text.size()) {
        out.push_back(text[i]);
        continue;
      }
      const char letter = text[++i];
      const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
      const size_t known = kLetters.find(letter);
      if (digits > 0) {
        const std::string hex(text.substr(i + 1, digits));
        char* stop = nullptr;
        const auto value = std::strtoul(hex.c_str(), &stop, 16);
        if (hex.size() < digits || *stop != '\0' || value > 0x10FFFF) {
          fail(std::string("bad escape '\\") + letter + hex + "'");
          return out;
        }
        append_utf8(out, static_cast<char32_t>(value));
        i += digits;
      } else if (letter == '\n') {
        continue;
      } else if (known != std::string_view::npos) {
        out.push_back(kValues[known]);
      } else {
        out.push_back('\\');
        out.push_back(letter);
      }
    }
    return out;
  }

  std::string source_;
  std::string_view rest_;
  int line_ = 1;
  bool at_line_start_ = true;
  std::vector<Token> tokens_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace baton::jinja
