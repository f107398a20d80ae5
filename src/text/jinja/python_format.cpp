#include "text/jinja/python_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/unicode.h"
#include "text/utf8.h"

namespace baton::jinja {
namespace {

std::string hex_escape(char kind, uint32_t value, int digits) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\%c%0*x", kind, digits, value);
  return buffer.data();
}

std::string escape_for_repr(std::string_view text, char quote) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const std::string_view bytes = text.substr(i, c.length);
    i += c.length;
    if (bytes == "\n") {
      out += "\\n";
    } else if (bytes == "\r") {
      out += "\\r";
    } else if (bytes == "\t") {
      out += "\\t";
    } else if (bytes == "\\" || (bytes.size() == 1 && bytes[0] == quote)) {
      out += '\\';
      out += bytes;
    } else if (is_printable(c.value)) {
      out += bytes;
    } else if (c.value < 0x100) {
      out += hex_escape('x', c.value, 2);
    } else if (c.value < 0x10000) {
      out += hex_escape('u', c.value, 4);
    } else {
      out += hex_escape('U', c.value, 8);
    }
  }
  return out;
}

MarkedText text_repr(const MarkedText& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  MarkedText out{std::string(1, quote)};
  out.append(text.transform([&](std::string_view s) { return escape_for_repr(s, quote); }));
  out.append(std::string_view(&quote, 1));
  return out;
}

void append_joined(MarkedText& out, const List& list) {
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(repr_of(list.items[i]));
  }
}

MarkedText list_repr(const List& list) {
  MarkedText out{list.is_tuple ? "(" : "["};
  append_joined(out, list);
  if (list.is_tuple && list.items.size() == 1) out.append(",");
  out.append(list.is_tuple ? ")" : "]");
  return out;
}

MarkedText dict_repr(const Dict& dict) {
  MarkedText out{std::string("{")};
  for (size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(repr_of(dict.items[i].first));
    out.append(": ");
    out.append(repr_of(dict.items[i].second));
  }
  out.append("}");
  return out;
}

std::string escape_for_json(std::string_view text, bool ensure_ascii) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const std::string_view bytes = text.substr(i, c.length);
    i += c.length;
    const size_t special = bytes.size() == 1 ? kShort.find(bytes[0]) : std::string_view::npos;
    if (special != std::string_view::npos) {
      out += '\\';
      out += kLetters[special];
    } else if (c.value < 0x20 || (ensure_ascii && c.value > 0x7E && c.value < 0x10000)) {
      out += hex_escape('u', c.value, 4);
    } else if (ensure_ascii && c.value >= 0x10000) {
      const char32_t offset = c.value - 0x10000;
      out += hex_escape('u', 0xD800U + (offset >> 10U), 4);
      out += hex_escape('u', 0xDC00U + (offset & 0x3FFU), 4);
    } else {
      out += bytes;
    }
  }
  return out;
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle& style) : style_(style) {}

  bool write(const Value& value) {
    if (value.is_none()) {
      out_.append("null");
    } else if (const bool* flag = value.boolean()) {
      out_.append(*flag ? "true" : "false");
    } else if (value.is_int()) {
      out_.append(integer_text(*value.integral()));
    } else if (value.is_float()) {
      out_.append(json_float(*value.number()));
    } else if (value.text() != nullptr) {
      write_text(*value.text());
    } else if (value.list() != nullptr) {
      return write_list(*value.list());
    } else if (value.dict() != nullptr) {
      return write_dict(*value.dict());
    } else {
      error_ = std::string("object of type ") + value.type_name() + " is not JSON serializable";
      return false;
    }
    return true;
  }

  MarkedText take() { return std::move(out_); }
  const std::string& error() const { return error_; }

 private:
  static std::string json_float(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_repr(value);
  }

  void write_text(const MarkedText& text) {
    out_.append("\"");
    out_.append(text.transform(
        [&](std::string_view s) { return escape_for_json(s, style_.ensure_ascii); }));
    out_.append("\"");
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    for (size_t i = 0; i < depth_; ++i) out_.append(*style_.indent);
  }

  // `write_item(i)` for each i, between separators and on lines of their own if indented.
  template <typename WriteItem>
  bool write_items(std::string_view open,
                   size_t count,
                   std::string_view close,
                   const WriteItem& write_item) {
    out_.append(open);
    ++depth_;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out_.append(style_.item_separator);
      new_line();
      if (!write_item(i)) return false;
    }
    --depth_;
    if (count > 0) new_line();
    out_.append(close);
    return true;
  }

  bool write_list(const List& list) {
    return write_items("[", list.items.size(), "]", [&](size_t i) { return write(list.items[i]); });
  }

  bool write_dict(const Dict& dict) {
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [](const auto* a, const auto* b) {
        return a->first.compare(b->first).value_or(0) < 0;
      });
    }
    return write_items("{", items.size(), "}", [&](size_t i) {
      if (!write_key(items[i]->first)) return false;
      out_.append(style_.key_separator);
      return write(items[i]->second);
    });
  }

  bool write_key(const Value& key) {
    if (key.text() != nullptr) {
      write_text(*key.text());
      return true;
    }
    out_.append("\"");
    const bool written = key.list() == nullptr && key.dict() == nullptr && write(key);
    if (!written)
      error_ = std::string("keys must be str, int, float, bool or None, not ") + key.type_name();
    out_.append("\"");
    return written;
  }

  const JsonStyle& style_;
  MarkedText out_;
  std::string error_;
  size_t depth_ = 0;
};

}  // namespace

std::string integer_text(Integer value) {
  if (value == 0) return "0";
  std::string digits;
  const bool negative = value < 0;
  while (value != 0) {
    const auto digit = static_cast<int>(value % 10);
    digits.push_back(static_cast<char>('0' + std::abs(digit)));
    value /= 10;
  }
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer{};
  const auto end = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  const size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  // Python's repr: positional for exponents from -4 to 15, else the shortest scientific form.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string out(buffer.data(), static_cast<size_t>(fixed.ptr - buffer.data()));
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

MarkedText repr_of(const Value& value) {
  if (value.text() != nullptr) return text_repr(*value.text());
  if (value.is_undefined()) return MarkedText("Undefined");
  return str_of(value);
}

MarkedText str_of(const Value& value) {
  if (value.text() != nullptr) return *value.text();
  if (value.is_none()) return MarkedText("None");
  if (const bool* flag = value.boolean()) return MarkedText(*flag ? "True" : "False");
  if (value.is_int()) return MarkedText(integer_text(*value.integral()));
  if (value.is_float()) return MarkedText(float_repr(*value.number()));
  if (value.list() != nullptr) return list_repr(*value.list());
  if (value.dict() != nullptr) return dict_repr(*value.dict());
  if (const Function* function = value.function()) {
    return MarkedText("<function " + function->name + ">");
  }
  return value.is_undefined() ? MarkedText()
                              : MarkedText(std::string("<") + value.type_name() + ">");
}

std::optional<MarkedText> json_of(const Value& value, const JsonStyle& style, std::string& error) {
  JsonWriter writer(style);
  if (writer.write(value)) return writer.take();
  error = writer.error();
  return std::nullopt;
}

}  // namespace baton::jinja
