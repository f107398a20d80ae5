#include "text/jinja/methods.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <memory>

#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_format.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace baton::jinja {
namespace {

constexpr Integer kNoLimit = std::numeric_limits<int64_t>::max();

const MarkedText& self_text(const Value& self) {
  return *self.text();
}

const MarkedText* text_argument(const Arguments& arguments, size_t i, std::string_view name) {
  const Value* value = arguments.find(i, name);
  return value == nullptr ? nullptr : value->text();
}

Integer integer_argument(const Arguments& arguments,
                         size_t i,
                         std::string_view name,
                         Integer fallback) {
  const Value* value = arguments.find(i, name);
  return value == nullptr ? fallback : value->integral().value_or(fallback);
}

std::string map_characters(std::string_view text, char32_t (*map)(char32_t)) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    if (c.kind == Utf8Char::Kind::kValid) {
      append_utf8(out, map(c.value));
    } else {
      out.append(text.substr(i, c.length));
    }
    i += c.length;
  }
  return out;
}

// `first` maps the first character of each word (or of the text), `rest` the others.
MarkedText map_words(const MarkedText& text, bool every_word) {
  bool in_word = false;
  return text.transform([&](std::string_view part) {
    std::string out;
    for (size_t i = 0; i < part.size();) {
      const Utf8Char c = decode_utf8(part, i);
      const std::string_view bytes = part.substr(i, c.length);
      out += map_characters(bytes, in_word ? &to_lower : &to_title);
      in_word = !every_word || is_letter(c.value);
      i += c.length;
    }
    return out;
  });
}

// Byte ranges of the parts of a text.
using Parts = std::vector<TextRange>;

Value slices(const MarkedText& text, const Parts& parts) {
  List list;
  for (const TextRange& part : parts) list.items.emplace_back(text.slice(part.begin, part.end));
  return Value(std::move(list));
}

Parts split_at(std::string_view text, std::string_view separator, Integer limit) {
  Parts parts;
  size_t begin = 0;
  while (limit-- > 0) {
    const size_t found = text.find(separator, begin);
    if (found == std::string_view::npos) break;
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

Parts split_at_from_right(std::string_view text, std::string_view separator, Integer limit) {
  Parts parts;
  size_t end = text.size();
  while (limit-- > 0 && end >= separator.size()) {
    const size_t found = text.rfind(separator, end - separator.size());
    if (found == std::string_view::npos) break;
    parts.push_back({found + separator.size(), end});
    end = found;
  }
  parts.push_back({0, end});
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// Runs of white space separate; with a limit, the last part (or the first) keeps its inside.
Parts split_at_space(std::string_view text, Integer limit, bool from_right) {
  Parts words;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text, i);
    const bool space = is_white_space(c.value);
    if (!space && !in_word) words.push_back({i, i});
    if (!space) words.back().end = i + c.length;
    in_word = !space;
    i += c.length;
  }
  if (limit >= static_cast<Integer>(words.size())) return words;
  const auto keep = static_cast<ptrdiff_t>(limit);
  if (from_right) {
    const auto cut = words.end() - keep;
    const TextRange first{0, (cut - 1)->end};
    words.erase(words.begin(), cut);
    words.insert(words.begin(), first);
  } else {
    words[static_cast<size_t>(keep)].end = text.size();
    words.resize(static_cast<size_t>(keep) + 1);
  }
  return words;
}

Value split_text(Interpreter& run, const Value& self, const Arguments& arguments, bool from_right) {
  const MarkedText& text = self_text(self);
  Integer limit = integer_argument(arguments, 1, "maxsplit", -1);
  if (limit < 0) limit = kNoLimit;
  const Value* separator = arguments.find(0, "sep");
  if (separator == nullptr || separator->is_none()) {
    return slices(text, split_at_space(text.view(), limit, from_right));
  }
  if (separator->text() == nullptr || separator->text()->empty()) {
    return run.fail("split expected a separator that is a non-empty string");
  }
  const std::string_view by = separator->text()->view();
  return slices(
      text,
      from_right ? split_at_from_right(text.view(), by, limit) : split_at(text.view(), by, limit));
}

Value split(Interpreter& run, const Value& self, const Arguments& arguments) {
  return split_text(run, self, arguments, /*from_right=*/false);
}
Value rsplit(Interpreter& run, const Value& self, const Arguments& arguments) {
  return split_text(run, self, arguments, /*from_right=*/true);
}

Value splitlines(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string_view text = self_text(self).view();
  const Value* keep = arguments.find(0, "keepends");
  const bool keep_ends = keep != nullptr && keep->truth();
  Parts parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of("\n\r\v\f", begin), text.size());
    size_t next = std::min(end + 1, text.size());
    if (end < text.size() && text.substr(end, 2) == "\r\n") next = end + 2;
    parts.push_back({begin, keep_ends ? next : end});
    begin = next;
  }
  return slices(self_text(self), parts);
}

Value partition_at(const MarkedText& text, size_t found, size_t length, bool rest_is_last) {
  List list{{}, true, false};
  if (found == std::string::npos) {
    list.items = {Value(""), Value(""), Value("")};
    list.items[rest_is_last ? 2 : 0] = Value(text);
  } else {
    list.items = {Value(text.slice(0, found)),
                  Value(text.slice(found, found + length)),
                  Value(text.slice(found + length, text.size()))};
  }
  return Value(std::move(list));
}

Value partition(Interpreter& run, const Value& self, const Arguments& arguments) {
  const MarkedText* separator = text_argument(arguments, 0, "sep");
  if (separator == nullptr || separator->empty()) return run.fail("partition expected a separator");
  return partition_at(
      self_text(self), self_text(self).bytes().find(separator->bytes()), separator->size(), false);
}

Value rpartition(Interpreter& run, const Value& self, const Arguments& arguments) {
  const MarkedText* separator = text_argument(arguments, 0, "sep");
  if (separator == nullptr || separator->empty())
    return run.fail("rpartition expected a separator");
  return partition_at(
      self_text(self), self_text(self).bytes().rfind(separator->bytes()), separator->size(), true);
}

Value strip_sides(const Value& self, const Arguments& arguments, bool left, bool right) {
  const MarkedText* characters = text_argument(arguments, 0, "chars");
  return Value(stripped(self_text(self),
                        characters == nullptr ? std::nullopt : std::optional(characters->view()),
                        left,
                        right));
}
Value strip(Interpreter&, const Value& self, const Arguments& arguments) {
  return strip_sides(self, arguments, true, true);
}
Value lstrip(Interpreter&, const Value& self, const Arguments& arguments) {
  return strip_sides(self, arguments, true, false);
}
Value rstrip(Interpreter&, const Value& self, const Arguments& arguments) {
  return strip_sides(self, arguments, false, true);
}

// One text or a tuple of them.
bool any_affix(const Arguments& arguments, const std::function<bool(std::string_view)>& holds) {
  const Value* affix = arguments.find(0, "prefix");
  if (affix == nullptr) return false;
  if (affix->text() != nullptr) return holds(affix->text()->view());
  return affix->list() != nullptr &&
         std::any_of(affix->list()->items.begin(), affix->list()->items.end(), [&](const Value& v) {
           return v.text() != nullptr && holds(v.text()->view());
         });
}
Value startswith(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string_view text = self_text(self).view();
  return Value(any_affix(arguments, [&](std::string_view s) { return text.starts_with(s); }));
}
Value endswith(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::string_view text = self_text(self).view();
  return Value(any_affix(arguments, [&](std::string_view s) { return text.ends_with(s); }));
}

Value removeprefix(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText* prefix = text_argument(arguments, 0, "prefix");
  const MarkedText& text = self_text(self);
  const bool has = prefix != nullptr && text.view().starts_with(prefix->view());
  return Value(text.slice(has ? prefix->size() : 0, text.size()));
}
Value removesuffix(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText* suffix = text_argument(arguments, 0, "suffix");
  const MarkedText& text = self_text(self);
  const bool has = suffix != nullptr && text.view().ends_with(suffix->view());
  return Value(text.slice(0, text.size() - (has ? suffix->size() : 0)));
}

Value replace(Interpreter& run, const Value& self, const Arguments& arguments) {
  const MarkedText* from = text_argument(arguments, 0, "old");
  const MarkedText* to = text_argument(arguments, 1, "new");
  if (from == nullptr || to == nullptr) return run.fail("replace expected two strings");
  return Value(
      replaced(self_text(self), from->view(), *to, integer_argument(arguments, 2, "count", -1)));
}

Value join(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Value* items = arguments.find(0, "iterable");
  if (items == nullptr) return run.fail("join expected a list");
  return Value(joined(iterate(run, *items), self_text(self)));
}

// In characters, as Python counts.
Value position_of(std::string_view text, size_t byte) {
  if (byte == std::string_view::npos) return Value::integer(-1);
  return Value::size(character_offsets(text.substr(0, byte)).size() - 1);
}
Value find(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText* wanted = text_argument(arguments, 0, "sub");
  const std::string_view text = self_text(self).view();
  return position_of(text, wanted == nullptr ? std::string_view::npos : text.find(wanted->view()));
}
Value rfind(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText* wanted = text_argument(arguments, 0, "sub");
  const std::string_view text = self_text(self).view();
  return position_of(text, wanted == nullptr ? std::string_view::npos : text.rfind(wanted->view()));
}
Value text_index(Interpreter& run, const Value& self, const Arguments& arguments) {
  Value position = find(run, self, arguments);
  return *position.integral() < 0 ? run.fail("substring not found") : position;
}
Value text_count(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText* wanted = text_argument(arguments, 0, "sub");
  if (wanted == nullptr || wanted->empty()) return Value::integer(0);
  return Value::size(split_at(self_text(self).view(), wanted->view(), kNoLimit).size() - 1);
}

Value upper_method(Interpreter&, const Value& self, const Arguments&) {
  return Value(upper(self_text(self)));
}
Value lower_method(Interpreter&, const Value& self, const Arguments&) {
  return Value(lower(self_text(self)));
}
Value capitalize_method(Interpreter&, const Value& self, const Arguments&) {
  return Value(capitalized(self_text(self)));
}
Value title_method(Interpreter&, const Value& self, const Arguments&) {
  return Value(title(self_text(self)));
}

// True if the text is not empty and `holds` for each character.
template <bool (*holds)(char32_t)>
Value every(Interpreter&, const Value& self, const Arguments&) {
  const std::string_view text = self_text(self).view();
  bool all = !text.empty();
  for (size_t i = 0; i < text.size() && all;) {
    const Utf8Char c = decode_utf8(text, i);
    all = holds(c.value);
    i += c.length;
  }
  return Value(all);
}
bool is_alphanumeric(char32_t c) {
  return is_letter(c) || is_number(c);
}

// True if there is a cased character and mapping changes nothing.
Value islower(Interpreter&, const Value& self, const Arguments&) {
  const MarkedText& text = self_text(self);
  return Value(lower(text).view() == text.view() && upper(text).view() != text.view());
}
Value isupper(Interpreter&, const Value& self, const Arguments&) {
  const MarkedText& text = self_text(self);
  return Value(upper(text).view() == text.view() && lower(text).view() != text.view());
}

char32_t swap_case(char32_t c) {
  return to_upper(c) != c ? to_upper(c) : to_lower(c);
}
Value swapcase(Interpreter&, const Value& self, const Arguments&) {
  return Value(
      self_text(self).transform([](std::string_view s) { return map_characters(s, &swap_case); }));
}

// Pads to a width in characters; the left side gets `left` of the padding, in halves.
Value pad(Interpreter& run, const Value& self, const Arguments& arguments, Integer left_halves) {
  const MarkedText& text = self_text(self);
  const Integer width = integer_argument(arguments, 0, "width", 0);
  if (width > 4096) return run.fail("width too large");
  const auto length = static_cast<Integer>(character_offsets(text.view()).size()) - 1;
  const Integer missing = std::max<Integer>(width - length, 0);
  const MarkedText* given = text_argument(arguments, 1, "fillchar");
  const MarkedText fill = given == nullptr ? MarkedText(" ") : *given;
  // Python's center puts the odd character on the left if the width is odd.
  const Integer left =
      left_halves == 1 ? missing / 2 + (missing & width & 1) : missing * left_halves / 2;
  MarkedText out;
  for (Integer i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (Integer i = left; i < missing; ++i) out.append(fill);
  return Value(std::move(out));
}
Value ljust(Interpreter& run, const Value& self, const Arguments& arguments) {
  return pad(run, self, arguments, 0);
}
Value center(Interpreter& run, const Value& self, const Arguments& arguments) {
  return pad(run, self, arguments, 1);
}
Value rjust(Interpreter& run, const Value& self, const Arguments& arguments) {
  return pad(run, self, arguments, 2);
}

Value zfill(Interpreter&, const Value& self, const Arguments& arguments) {
  const MarkedText& text = self_text(self);
  const Integer width = std::min<Integer>(integer_argument(arguments, 0, "width", 0), 4096);
  const auto length = static_cast<Integer>(character_offsets(text.view()).size()) - 1;
  const size_t sign = text.view().starts_with("-") || text.view().starts_with("+") ? 1 : 0;
  MarkedText out = text.slice(0, sign);
  if (width > length) out.append(std::string(static_cast<size_t>(width - length), '0'));
  out.append(text, sign, text.size());
  return Value(std::move(out));
}

// "{} {0} {name}": plain fields only.
Value format(Interpreter& run, const Value& self, const Arguments& arguments) {
  const MarkedText& text = self_text(self);
  const std::string_view view = text.view();
  MarkedText out;
  size_t next = 0;
  for (size_t i = 0; i < view.size();) {
    const std::string_view two = view.substr(i, 2);
    if (two == "{{" || two == "}}") {
      out.append(text, i, i + 1);
      i += 2;
      continue;
    }
    if (view[i] != '{') {
      const size_t end = std::min(view.find_first_of("{}", i + 1), view.size());
      out.append(text, i, end);
      i = end;
      continue;
    }
    const size_t end = view.find('}', i);
    if (end == std::string_view::npos) return run.fail("format: missing '}'");
    const std::string field(view.substr(i + 1, end - i - 1));
    const bool is_number = !field.empty() && std::all_of(field.begin(), field.end(), [](char c) {
      return c >= '0' && c <= '9';
    }) && field.size() < 4;
    const size_t position = field.empty() ? next++
                            : is_number   ? static_cast<size_t>(std::stoi(field))
                                          : std::numeric_limits<size_t>::max();
    const Value* value = arguments.find(position, field);
    if (value == nullptr) return run.fail("format: no value for field '" + field + "'");
    out.append(str_of(*value));
    i = end + 1;
  }
  return Value(std::move(out));
}

Value items(Interpreter&, const Value& self, const Arguments&) {
  List list;
  for (const auto& [key, value] : self.dict()->items) {
    list.items.emplace_back(List{{key, value}, true, false});
  }
  return Value(std::move(list));
}
Value keys(Interpreter& run, const Value& self, const Arguments&) {
  return Value(List{iterate(run, self), false, false});
}
Value values(Interpreter&, const Value& self, const Arguments&) {
  List list;
  for (const auto& [key, value] : self.dict()->items) list.items.push_back(value);
  return Value(std::move(list));
}
Value get(Interpreter& run, const Value& self, const Arguments& arguments) {
  const Value* key = arguments.find(0, "key");
  if (key == nullptr) return run.fail("get expected a key");
  if (const Value* value = self.dict()->find(*key)) return *value;
  const Value* fallback = arguments.find(1, "default");
  return fallback == nullptr ? Value(None{}) : *fallback;
}
Value copy(Interpreter&, const Value& self, const Arguments&) {
  return self;
}

Value list_index(Interpreter& run, const Value& self, const Arguments& arguments) {
  const std::vector<Value>& list = self.list()->items;
  for (size_t i = 0; i < list.size() && !arguments.positional.empty(); ++i) {
    if (list[i].equals(arguments.positional[0])) return Value::size(i);
  }
  return run.fail("value is not in the list");
}
Value list_count(Interpreter&, const Value& self, const Arguments& arguments) {
  const std::vector<Value>& list = self.list()->items;
  return Value::size(
      static_cast<size_t>(std::count_if(list.begin(), list.end(), [&](const Value& v) {
        return !arguments.positional.empty() && v.equals(arguments.positional[0]);
      })));
}

Value cycle(Interpreter& run, const Value& self, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("cycle expected values");
  return arguments.positional[self.loop()->index % arguments.positional.size()];
}
Value changed(Interpreter& run, const Value& self, const Arguments& arguments) {
  Value now(List{arguments.positional, true, false});
  const std::shared_ptr<Value>& last = self.loop()->last_changed;
  const bool differs = !now.equals(*last);
  if (last->is_undefined()) run.keep(last);
  *last = std::move(now);
  return Value(differs);
}

constexpr std::array kTextMethods = {Method{"strip", strip},
                                     Method{"split", split},
                                     Method{"startswith", startswith},
                                     Method{"endswith", endswith},
                                     Method{"lstrip", lstrip},
                                     Method{"rstrip", rstrip},
                                     Method{"replace", replace},
                                     Method{"join", join},
                                     Method{"upper", upper_method},
                                     Method{"lower", lower_method},
                                     Method{"title", title_method},
                                     Method{"capitalize", capitalize_method},
                                     Method{"rsplit", rsplit},
                                     Method{"splitlines", splitlines},
                                     Method{"partition", partition},
                                     Method{"rpartition", rpartition},
                                     Method{"find", find},
                                     Method{"rfind", rfind},
                                     Method{"index", text_index},
                                     Method{"count", text_count},
                                     Method{"removeprefix", removeprefix},
                                     Method{"removesuffix", removesuffix},
                                     Method{"isdigit", every<is_number>},
                                     Method{"isnumeric", every<is_number>},
                                     Method{"isalpha", every<is_letter>},
                                     Method{"isalnum", every<is_alphanumeric>},
                                     Method{"isspace", every<is_white_space>},
                                     Method{"islower", islower},
                                     Method{"isupper", isupper},
                                     Method{"zfill", zfill},
                                     Method{"format", format},
                                     Method{"swapcase", swapcase},
                                     Method{"ljust", ljust},
                                     Method{"rjust", rjust},
                                     Method{"center", center}};

constexpr std::array kDictMethods = {Method{"items", items},
                                     Method{"get", get},
                                     Method{"keys", keys},
                                     Method{"values", values},
                                     Method{"copy", copy}};

constexpr std::array kListMethods = {
    Method{"index", list_index}, Method{"count", list_count}, Method{"copy", copy}};

constexpr std::array kLoopMethods = {Method{"cycle", cycle}, Method{"changed", changed}};

template <typename Table>
const Method* find_in(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Method& m) { return m.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Method* find_method(const Value& self, std::string_view name) {
  if (self.text() != nullptr) return find_in(kTextMethods, name);
  if (self.dict() != nullptr) return find_in(kDictMethods, name);
  if (self.list() != nullptr) return find_in(kListMethods, name);
  return self.loop() != nullptr ? find_in(kLoopMethods, name) : nullptr;
}

MarkedText stripped(const MarkedText& text,
                    std::optional<std::string_view> characters,
                    bool left,
                    bool right) {
  const auto strips = [&](size_t begin, size_t length) {
    if (!characters) return is_white_space(decode_utf8(text.view(), begin).value);
    return characters->find(text.view().substr(begin, length)) != std::string_view::npos;
  };
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    const size_t length = decode_utf8(text.view(), begin).length;
    if (!strips(begin, length)) break;
    begin += length;
  }
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<uint8_t>(text.view()[last]) & 0xC0U) == 0x80) --last;
    if (!strips(last, end - last)) break;
    end = last;
  }
  return text.slice(begin, end);
}

MarkedText replaced(const MarkedText& text,
                    std::string_view from,
                    const MarkedText& to,
                    Integer at_most) {
  if (from.empty()) return text;
  const Parts parts = split_at(text.view(), from, at_most < 0 ? kNoLimit : at_most);
  MarkedText out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(to);
    out.append(text, parts[i].begin, parts[i].end);
  }
  return out;
}

MarkedText joined(const std::vector<Value>& list, const MarkedText& separator) {
  MarkedText out;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(str_of(list[i]));
  }
  return out;
}

MarkedText upper(const MarkedText& text) {
  return text.transform([](std::string_view s) { return map_characters(s, &to_upper); });
}
MarkedText lower(const MarkedText& text) {
  return text.transform([](std::string_view s) { return map_characters(s, &to_lower); });
}
MarkedText capitalized(const MarkedText& text) {
  return map_words(text, /*every_word=*/false);
}
MarkedText title(const MarkedText& text) {
  return map_words(text, /*every_word=*/true);
}

Value percent_format(Interpreter& run, const MarkedText& format_text, const Arguments& arguments) {
  const std::string_view view = format_text.view();
  MarkedText out;
  size_t next = 0;
  for (size_t i = 0; i < view.size();) {
    const size_t percent = std::min(view.find('%', i), view.size());
    out.append(format_text, i, percent);
    i = percent + 1;
    if (percent == view.size()) break;
    const size_t end = view.find_first_not_of("0123456789.-+ #", i);
    if (end == std::string_view::npos) return run.fail("incomplete format");
    const std::string flags(view.substr(i, end - i));
    const char kind = view[end];
    i = end + 1;
    if (kind == '%') {
      out.append("%");
      continue;
    }
    const Value* value = arguments.find(next++, "");
    if (value == nullptr) return run.fail("not enough arguments for format string");
    if (flags.size() > 8) return run.fail("unsupported format '%" + flags + "'");
    std::array<char, 512> buffer{};
    if (kind == 's' || kind == 'r') {
      out.append(kind == 's' ? str_of(*value) : repr_of(*value));
    } else if ((kind == 'd' || kind == 'i' || kind == 'x' || kind == 'X') && value->number()) {
      const auto integer = value->integral().value_or(static_cast<Integer>(*value->number()));
      const std::string spec = "%" + flags + "ll" + (kind == 'i' ? 'd' : kind);
      std::snprintf(buffer.data(), buffer.size(), spec.c_str(), static_cast<long long>(integer));
      out.append(buffer.data());
    } else if ((kind == 'f' || kind == 'g' || kind == 'e') && value->number()) {
      std::snprintf(buffer.data(), buffer.size(), ("%" + flags + kind).c_str(), *value->number());
      out.append(buffer.data());
    } else {
      return run.fail(std::string("unsupported format '%") + kind + "' for " + value->type_name());
    }
  }
  return Value(std::move(out));
}

}  // namespace baton::jinja
