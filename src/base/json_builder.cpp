#include "base/json_builder.h"

#include <utility>

namespace baton {
namespace {

constexpr size_t kLargeObject = 32;  // keys are searched one by one up to here

}  // namespace

bool JsonBuilder::key(string_t& name) {
  open_.back().slot = &member(open_.back(), std::move(name));
  return true;
}

bool JsonBuilder::parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) {
  problem_ = e.what();
  return false;
}

Json& JsonBuilder::member(Open& object, std::string&& name) {
  auto& members = object.value->get_ref<Json::object_t&>();
  if (members.size() < kLargeObject) return members[name];
  if (object.places.empty()) {
    for (const auto& [known, value] : members) object.places.emplace(known, object.places.size());
  }
  const auto [place, is_new] = object.places.emplace(name, members.size());
  if (is_new) members.emplace_back(std::move(name), nullptr);
  return members.data()[place->second].second;
}

Json& JsonBuilder::put(Json&& value) {
  if (open_.empty()) return root_ = std::move(value);
  Open& parent = open_.back();
  if (parent.slot != nullptr) return *parent.slot = std::move(value);
  return parent.value->get_ref<Json::array_t&>().emplace_back(std::move(value));
}

bool JsonBuilder::open(Json&& empty) {
  too_deep_ = open_.size() == max_depth_;
  if (too_deep_) return false;
  open_.push_back({&put(std::move(empty))});
  return true;
}

}  // namespace baton
