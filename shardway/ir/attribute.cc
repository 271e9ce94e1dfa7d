#include "shardway/ir/attribute.h"

#include <algorithm>

#include "shardway/ir/scalar.h"

namespace shardway::ir {
namespace {

auto LowerBound(const AttrDict& dict, std::string_view name) {
  return std::lower_bound(dict.begin(), dict.end(), name,
                          [](const auto& entry, std::string_view n) { return entry.first < n; });
}

}  // namespace

Constant Constant::Copy(Type type, std::string_view bytes, bool splat) {
  auto owned = std::make_shared<const std::string>(bytes);
  Constant constant;
  constant.type = std::move(type);
  constant.bytes = *owned;
  constant.splat = splat;
  constant.owner = std::move(owned);
  return constant;
}

std::string Constant::Materialize() const {
  if (!splat) return std::string(bytes);
  std::string all;
  const int64_t n = type.num_elements();
  all.reserve(n * bytes.size());
  for (int64_t i = 0; i < n; ++i) all += bytes;
  return all;
}

std::vector<int64_t> Constant::Ints() const {
  const int64_t n = type.num_elements();
  const int width = ElementBytes(type.element);
  std::vector<int64_t> values;
  values.reserve(n);
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(IntFromElement(type.element, bytes.substr(splat ? 0 : i * width, width)));
  }
  return values;
}

Constant Constant::FromInts(Type type, absl::Span<const int64_t> values) {
  std::string bytes;
  for (int64_t v : values) bytes += ElementFromInt(type.element, v);
  return Copy(std::move(type), bytes, /*splat=*/false);
}

const Attribute* Find(const AttrDict& dict, std::string_view name) {
  const auto it = LowerBound(dict, name);
  return it == dict.end() || it->first != name ? nullptr : &it->second;
}

void Set(AttrDict& dict, std::string_view name, Attribute value) {
  const auto it = LowerBound(dict, name);
  if (it != dict.end() && it->first == name) {
    dict[it - dict.begin()].second = std::move(value);
  } else {
    dict.emplace(it, std::string(name), std::move(value));
  }
}

void Erase(AttrDict& dict, std::string_view name) {
  const auto it = LowerBound(dict, name);
  if (it != dict.end() && it->first == name) dict.erase(it);
}

}  // namespace shardway::ir
