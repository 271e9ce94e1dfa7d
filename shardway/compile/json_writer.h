// Writes JSON, one call for each token; commas come by themselves.
#pragma once

#include <string>
#include <string_view>

namespace shardway::compile {

class JsonWriter {
 public:
  JsonWriter& Object() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& Array() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view text);  // bytes that are no UTF-8 become '?'
  JsonWriter& Number(double value);           // finite
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }

  std::string Take() { return std::move(out_); }

 private:
  JsonWriter& Open(char c);
  JsonWriter& Close(char c);
  JsonWriter& Raw(std::string_view text);
  void Separate();
  void Quote(std::string_view text);

  std::string out_;
  bool first_ = true;  // nothing before in this object, array or pair
};

}  // namespace shardway::compile
