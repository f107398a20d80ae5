#include "server/openai/json_body.h"

#include <simdjson.h>

#include "base/json_builder.h"

namespace baton {
namespace {

// \\ud83d and its like. simdjson 3.0 takes halves of pairs, and pairs of which only the first is a
// half, for characters.
bool spells_surrogates(std::string_view body) {
  for (size_t at = 0; (at = body.find('\\', at)) != std::string_view::npos; at += 2) {
    const std::string_view escape = body.substr(at + 1, 2);
    if (escape == "ud" || escape == "uD") return true;
  }
  return false;
}

// Of an element that is known to be of this type.
template <typename T>
T get(simdjson::dom::element element) {
  return element.get<T>().value_unsafe();
}

bool walk(simdjson::dom::element element, JsonBuilder& builder);

bool walk_object(simdjson::dom::object object, JsonBuilder& builder) {
  if (!builder.start_object(object.size())) return false;
  for (const auto& [name, value] : object) {
    std::string key(name);
    if (!builder.key(key) || !walk(value, builder)) return false;
  }
  return builder.end_object();
}

bool walk_array(simdjson::dom::array array, JsonBuilder& builder) {
  if (!builder.start_array(array.size())) return false;
  for (const simdjson::dom::element element : array) {
    if (!walk(element, builder)) return false;
  }
  return builder.end_array();
}

bool walk(simdjson::dom::element element, JsonBuilder& builder) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::OBJECT:
      return walk_object(get<simdjson::dom::object>(element), builder);
    case Type::ARRAY:
      return walk_array(get<simdjson::dom::array>(element), builder);
    case Type::STRING: {
      std::string text(get<std::string_view>(element));
      return builder.string(text);
    }
    case Type::INT64: {
      // Unsigned where it can be, as nlohmann's parser has it.
      const auto value = get<int64_t>(element);
      return value < 0 ? builder.number_integer(value)
                       : builder.number_unsigned(static_cast<uint64_t>(value));
    }
    case Type::UINT64:
      return builder.number_unsigned(get<uint64_t>(element));
    case Type::DOUBLE:
      return builder.number_float(get<double>(element), {});
    case Type::BOOL:
      return builder.boolean(get<bool>(element));
    case Type::NULL_VALUE:
      return builder.null();
  }
  return false;
}

}  // namespace

Result<Json> parse_json_body(const std::string& body) {
  if (!spells_surrogates(body)) {
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    JsonBuilder builder(JsonLimits{}.max_depth);
    if (parser.parse(body).get(root) == simdjson::SUCCESS && walk(root, builder)) {
      return builder.take();
    }
  }
  return parse_json(body, "request body");
}

}  // namespace baton
