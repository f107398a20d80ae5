#include "text/jinja/filters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "text/jinja/interpreter.h"
#include "text/jinja/methods.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_format.h"
#include "text/jinja/sequence_filters.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace baton::jinja {
namespace {

bool flag(const Arguments& arguments, size_t i, std::string_view name, bool fallback = false) {
  const Value* value = arguments.find(i, name);
  return value == nullptr ? fallback : value->truth();
}

Value default_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const bool use_default =
      input.is_undefined() || (flag(arguments, 1, "boolean") && !input.truth());
  if (!use_default) return input;
  const Value* value = arguments.find(0, "default_value");
  return value == nullptr ? Value("") : *value;
}

Value tojson(Interpreter& run, const Value& input, const Arguments& arguments) {
  JsonStyle style;
  style.ensure_ascii = flag(arguments, 0, "ensure_ascii");
  style.sort_keys = flag(arguments, 3, "sort_keys");
  if (const Value* indent = arguments.find(1, "indent"); indent != nullptr && !indent->is_none()) {
    const Integer width = std::clamp<Integer>(indent->integral().value_or(0), 0, 64);
    style.indent = indent->text() != nullptr ? indent->text()->bytes()
                                             : std::string(static_cast<size_t>(width), ' ');
    style.item_separator = std::string(",");
  }
  if (const Value* separators = arguments.find(2, "separators");
      separators != nullptr && !separators->is_none()) {
    const std::vector<Value> parts = iterate(run, *separators);
    if (parts.size() != 2) return run.fail("tojson expected two separators");
    style.item_separator = str_of(parts[0]).bytes();
    style.key_separator = str_of(parts[1]).bytes();
  }
  std::string error;
  std::optional<MarkedText> json = json_of(input, style, error);
  return json ? Value(std::move(*json)) : run.fail(error);
}

// Not Jinja2's: templates written for llama.cpp use it on tool-call arguments. Untrusted text
// gives untrusted values.
Value from_json(Interpreter& run, const Value& input, const Arguments&) {
  const MarkedText text = str_of(input);
  const Result<Json> json = parse_json(text.view(), "from_json");
  if (!json) return run.fail(json.error().message);
  return Value::from_json(*json, !text.untrusted().empty());
}

Value trim(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* characters = arguments.find(0, "chars");
  const bool given = characters != nullptr && characters->text() != nullptr;
  return Value(stripped(
      str_of(input), given ? std::optional(characters->text()->view()) : std::nullopt, true, true));
}

Value upper_filter(Interpreter&, const Value& input, const Arguments&) {
  return Value(upper(str_of(input)));
}
Value lower_filter(Interpreter&, const Value& input, const Arguments&) {
  return Value(lower(str_of(input)));
}
Value capitalize(Interpreter&, const Value& input, const Arguments&) {
  return Value(capitalized(str_of(input)));
}
Value title_filter(Interpreter&, const Value& input, const Arguments&) {
  return Value(title(str_of(input)));
}
Value string_filter(Interpreter&, const Value& input, const Arguments&) {
  return input.text() != nullptr ? input : Value(str_of(input));
}
Value safe(Interpreter& run, const Value& input, const Arguments& arguments) {
  return string_filter(run, input, arguments);
}

Value replace_filter(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* from = arguments.find(0, "old");
  const Value* to = arguments.find(1, "new");
  if (from == nullptr || to == nullptr) return run.fail("replace expected two strings");
  const Value* count = arguments.find(2, "count");
  return Value(replaced(str_of(input),
                        str_of(*from).view(),
                        str_of(*to),
                        count == nullptr ? Integer{-1} : count->integral().value_or(-1)));
}

Value escape(Interpreter&, const Value& input, const Arguments&) {
  return Value(str_of(input).transform([](std::string_view text) {
    constexpr std::array<std::pair<char, std::string_view>, 5> kEntities = {
        {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}}};
    std::string out;
    for (const char c : text) {
      const auto entity = std::find_if(
          kEntities.begin(), kEntities.end(), [&](const auto& e) { return e.first == c; });
      if (entity == kEntities.end()) {
        out += c;
      } else {
        out += entity->second;
      }
    }
    return out;
  }));
}

// Lines after the first (or all) begin with the indent; empty ones do not unless asked.
Value indent(Interpreter&, const Value& input, const Arguments& arguments) {
  const MarkedText text = str_of(input);
  const Value* width = arguments.find(0, "width");
  MarkedText margin("    ");
  if (width != nullptr && width->text() != nullptr) margin = *width->text();
  if (width != nullptr && width->integral()) {
    const Integer spaces = std::clamp<Integer>(*width->integral(), 0, 256);
    margin = MarkedText(std::string(static_cast<size_t>(spaces), ' '));
  }
  const bool first = flag(arguments, 1, "first");
  const bool blank = flag(arguments, 2, "blank");
  MarkedText out;
  for (size_t begin = 0, line = 0; begin <= text.size(); ++line) {
    const size_t end = std::min(text.view().find('\n', begin), text.size());
    if (line > 0) out.append("\n");
    if (line == 0 ? first : (blank || end > begin)) out.append(margin);
    out.append(text, begin, end);
    begin = end + 1;
  }
  return Value(std::move(out));
}

Value length(Interpreter& run, const Value& input, const Arguments&) {
  if (input.text() != nullptr) {
    return Value::size(character_offsets(input.text()->view()).size() - 1);
  }
  if (input.list() != nullptr) return Value::size(input.list()->items.size());
  if (input.dict() != nullptr) return Value::size(input.dict()->items.size());
  if (input.is_undefined()) return Value::integer(0);
  return run.fail(std::string("object of type '") + input.type_name() + "' has no len()");
}

Value int_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* fallback = arguments.find(0, "default");
  if (input.integral()) return Value(*input.integral());
  if (input.number() && std::isfinite(*input.number()) && std::abs(*input.number()) < 9e18) {
    return Value(static_cast<Integer>(*input.number()));
  }
  if (input.text() != nullptr) {
    const std::string digits = stripped(*input.text(), std::nullopt, true, true).bytes();
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == '\0' && std::abs(value) < 9e18) {
      const bool plain = digits.find_first_not_of("+-0123456789") == std::string::npos;
      return plain ? Value::integer(std::strtoll(digits.c_str(), nullptr, 10))
                   : Value(static_cast<Integer>(value));
    }
  }
  return fallback == nullptr ? Value::integer(0) : *fallback;
}

Value float_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  if (input.number()) return Value(*input.number());
  if (input.text() != nullptr) {
    const std::string digits = stripped(*input.text(), std::nullopt, true, true).bytes();
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (!digits.empty() && *end == '\0') return Value(value);
  }
  const Value* fallback = arguments.find(0, "default");
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Value abs_filter(Interpreter& run, const Value& input, const Arguments&) {
  if (input.integral())
    return Value(*input.integral() < 0 ? -*input.integral() : *input.integral());
  if (input.number()) return Value(std::abs(*input.number()));
  return run.fail(std::string("bad operand type for abs(): '") + input.type_name() + "'");
}

Value round_filter(Interpreter& run, const Value& input, const Arguments& arguments) {
  if (!input.number()) return run.fail("round expected a number");
  const Value* precision = arguments.find(0, "precision");
  const Value* method = arguments.find(1, "method");
  const double scale =
      std::pow(10.0, precision == nullptr ? 0.0 : precision->number().value_or(0.0));
  const double scaled = *input.number() * scale;
  const std::string how =
      method == nullptr || method->text() == nullptr ? "common" : method->text()->bytes();
  const double rounded = how == "ceil"    ? std::ceil(scaled)
                         : how == "floor" ? std::floor(scaled)
                                          : std::nearbyint(scaled);
  return Value(rounded / scale);
}

Value format_filter(Interpreter& run, const Value& input, const Arguments& arguments) {
  return percent_format(run, str_of(input), arguments);
}

// Percent-encodes all but letters, digits and "_.-~/".
Value urlencode(Interpreter&, const Value& input, const Arguments&) {
  return Value(str_of(input).transform([](std::string_view text) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      const bool plain =
          byte < 0x80 && (is_letter(byte) || is_number(byte) ||
                          std::string_view("_.-~/").find(c) != std::string_view::npos);
      if (plain) {
        out += c;
      } else {
        out += '%';
        out += kHex[byte >> 4U];
        out += kHex[byte & 0xFU];
      }
    }
    return out;
  }));
}

Value wordcount(Interpreter&, const Value& input, const Arguments&) {
  const MarkedText text = str_of(input);
  Integer words = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.view(), i);
    const bool is_word = is_word_character(c.value);
    words += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    i += c.length;
  }
  return Value(words);
}

// Cuts to a length in characters, at a word unless killwords, with a tolerance of five.
Value truncate(Interpreter& run, const Value& input, const Arguments& arguments) {
  const MarkedText text = str_of(input);
  const Value* given_length = arguments.find(0, "length");
  const Value* given_end = arguments.find(2, "end");
  const Value* given_leeway = arguments.find(3, "leeway");
  const Integer length = given_length == nullptr ? 255 : given_length->integral().value_or(255);
  const MarkedText end = given_end == nullptr ? MarkedText("...") : str_of(*given_end);
  const Integer leeway = given_leeway == nullptr ? 5 : given_leeway->integral().value_or(5);
  const std::vector<size_t> offsets = character_offsets(text.view());
  const auto size = static_cast<Integer>(offsets.size()) - 1;
  if (size <= length + leeway) return Value(text);
  const auto end_size = static_cast<Integer>(character_offsets(end.view()).size()) - 1;
  if (length < end_size) return run.fail("truncate: length is shorter than its end");
  size_t cut = offsets[static_cast<size_t>(length - end_size)];
  if (!flag(arguments, 1, "killwords")) {
    cut = std::min(cut, text.view().substr(0, cut).rfind(' '));
  }
  MarkedText out = text.slice(0, cut);
  out.append(end);
  return Value(std::move(out));
}

Value attr(Interpreter& run, const Value& input, const Arguments& arguments) {
  const Value* name = arguments.find(0, "name");
  if (name == nullptr || name->text() == nullptr) return run.fail("attr expected a name");
  return attribute(run, input, name->text()->bytes());
}

constexpr std::array kFilters = {
    Filter{"abs", "", abs_filter},
    Filter{"attr", "name", attr},
    Filter{"capitalize", "", capitalize},
    Filter{"count", "", length},
    Filter{"d", "default_value boolean", default_filter},
    Filter{"default", "default_value boolean", default_filter},
    Filter{"e", "", escape},
    Filter{"escape", "", escape},
    Filter{"float", "default", float_filter},
    Filter{"format", "*", format_filter},
    Filter{"from_json", "", from_json},
    Filter{"indent", "width first blank", indent},
    Filter{"int", "default base", int_filter},
    Filter{"length", "", length},
    Filter{"lower", "", lower_filter},
    Filter{"replace", "old new count", replace_filter},
    Filter{"round", "precision method", round_filter},
    Filter{"safe", "", safe},
    Filter{"string", "", string_filter},
    Filter{"title", "", title_filter},
    Filter{"tojson", "ensure_ascii indent separators sort_keys", tojson},
    Filter{"trim", "chars", trim},
    Filter{"truncate", "length killwords end leeway", truncate},
    Filter{"upper", "", upper_filter},
    Filter{"urlencode", "", urlencode},
    Filter{"wordcount", "", wordcount},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto found = std::find_if(
      kFilters.begin(), kFilters.end(), [&](const Filter& filter) { return filter.name == name; });
  return found == kFilters.end() ? find_sequence_filter(name) : &*found;
}

bool takes(const Filter& filter, std::string_view parameter) {
  if (filter.parameters == "*") return true;
  std::string_view rest = filter.parameters;
  while (!rest.empty()) {
    const size_t space = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, space) == parameter) return true;
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  return false;
}

}  // namespace baton::jinja
