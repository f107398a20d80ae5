#include "text/tool_calls/argument_types.h"

#include <optional>

namespace baton {
namespace {

// Deep enough for any schema written by hand; a cycle of references ends here.
constexpr int kMaxDepth = 16;

void add_type(ArgumentTypes& types, std::string_view name) {
  types.known = true;
  if (name == "string") types.string = true;
  if (name == "integer") types.integer = true;
  if (name == "number") types.number = true;
  if (name == "boolean") types.boolean = true;
  if (name == "null") types.null = true;
  if (name == "array") types.array = true;
  if (name == "object") types.object = true;
}

std::string_view type_of(const Json& value) {
  if (value.is_string()) return "string";
  if (value.is_number_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_boolean()) return "boolean";
  if (value.is_null()) return "null";
  return value.is_array() ? "array" : "object";
}

// "#/$defs/P" within `root`; null when it leads nowhere.
const Json* resolve(const Json& root, const std::string& reference) {
  if (!reference.starts_with("#/")) return nullptr;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

void collect(const Json& root, const Json& schema, int depth, ArgumentTypes& types) {
  if (!schema.is_object() || depth > kMaxDepth) return;
  if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
    if (const Json* target = resolve(root, ref->get<std::string>())) {
      collect(root, *target, depth + 1, types);
    }
  }
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) add_type(types, type->get_ref<const std::string&>());
    if (type->is_array()) {
      for (const Json& name : *type) {
        if (name.is_string()) add_type(types, name.get_ref<const std::string&>());
      }
    }
  }
  for (const char* key : {"anyOf", "oneOf", "allOf"}) {
    const auto branches = schema.find(key);
    if (branches == schema.end() || !branches->is_array()) continue;
    for (const Json& branch : *branches) collect(root, branch, depth + 1, types);
  }
  if (schema.contains("type")) return;  // enum and const only narrow what `type` says
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    for (const Json& value : *values) add_type(types, type_of(value));
  }
  if (const auto value = schema.find("const"); value != schema.end()) {
    add_type(types, type_of(*value));
  }
  if (schema.contains("properties")) add_type(types, "object");
  if (schema.contains("items")) add_type(types, "array");
}

bool allows(const ArgumentTypes& types, const Json& value) {
  const std::string_view name = type_of(value);
  if (name == "integer") return types.integer || types.number;
  if (name == "number") return types.number;
  if (name == "boolean") return types.boolean;
  if (name == "null") return types.null;
  if (name == "array") return types.array;
  if (name == "object") return types.object;
  return types.string;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::optional<Json> json_value(std::string_view text) {
  const std::string_view value = trimmed(text);
  if (value == "True") return Json(true);
  if (value == "False") return Json(false);
  if (value == "None") return Json(nullptr);
  if (value.empty()) return std::nullopt;
  Result<Json> parsed = parse_json(value, "argument");
  if (!parsed) return std::nullopt;
  return *std::move(parsed);
}

std::string string_literal(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out += '"';
}

}  // namespace

ArgumentTypes argument_types(const Json& parameters, std::string_view name) {
  ArgumentTypes types;
  if (!parameters.is_object()) return types;
  const auto properties = parameters.find("properties");
  if (properties == parameters.end() || !properties->is_object()) return types;
  const auto schema = properties->find(std::string(name));
  if (schema != properties->end()) collect(parameters, *schema, 0, types);
  return types;
}

std::string argument_json(const ArgumentTypes& types, std::string_view text) {
  if (types.only_string()) return string_literal(text);
  const std::optional<Json> value = json_value(text);
  if (!value || value->is_string()) {
    // A quoted string where other types are allowed too was written as JSON.
    if (value && types.known && types.string) return string_literal(value->get<std::string>());
    return string_literal(text);
  }
  if (types.known && types.string && !allows(types, *value)) return string_literal(text);
  // What the model wrote is kept to the letter (1e5, 1.0), unless it was Python.
  const std::string_view written = trimmed(text);
  if (written == "True" || written == "False" || written == "None") return dump_json(*value);
  return std::string(written);
}

}  // namespace baton
