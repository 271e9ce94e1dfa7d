#include "shardway/compile/json_writer.h"

#include <gtest/gtest.h>

namespace shardway::compile {
namespace {

TEST(JsonWriter, PutsCommasBetween) {
  JsonWriter json;
  json.Object().Key("a").Array().Number(1).Number(2.5).Null().EndArray();
  json.Key("b").Bool(true).Key("c").Object().EndObject().EndObject();
  EXPECT_EQ(json.Take(), R"({"a":[1,2.5,null],"b":true,"c":{}})");
}

TEST(JsonWriter, NothingEscapesAString) {
  JsonWriter json;
  json.Array().String("a\"b\\c\n").String("\xc3\xa9\xff").EndArray();
  EXPECT_EQ(json.Take(), "[\"a\\\"b\\\\c\\u000a\",\"\xc3\xa9?\"]");
}

}  // namespace
}  // namespace shardway::compile
