#include "shardway/ir/bytecode/byte_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardway::ir::bytecode {
namespace {

using testing::HasSubstr;

std::string PrefixVarInt(uint64_t value) {
  int extra = 0;
  while (extra < 8 && (value >> (7 * (extra + 1))) != 0) ++extra;
  if (extra >= 8) return std::string(1, '\0') + std::string(reinterpret_cast<char*>(&value), 8);
  const uint64_t word = (value << (extra + 1)) | (uint64_t{1} << extra);
  return std::string(reinterpret_cast<const char*>(&word), extra + 1);
}

TEST(ByteReader, NumbersOfEveryLength) {
  for (int bits = 0; bits < 64; ++bits) {
    for (const uint64_t value : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1}) {
      ErrorSink errors;
      const std::string bytes = PrefixVarInt(value);
      ByteReader reader(bytes, 0, &errors);
      EXPECT_EQ(reader.ReadVarInt(), value);
      EXPECT_TRUE(reader.empty() && errors.ok()) << value;
    }
  }
}

TEST(ByteReader, SignedNumbers) {
  for (const auto& [zigzag, value] : std::vector<std::pair<uint64_t, int64_t>>{
           {0, 0}, {1, -1}, {2, 1}, {UINT64_MAX, INT64_MIN}}) {
    ErrorSink errors;
    const std::string bytes = PrefixVarInt(zigzag);
    EXPECT_EQ(ByteReader(bytes, 0, &errors).ReadSignedVarInt(), value);
  }
}

TEST(ByteReader, ErrorsStickAndSayWhere) {
  ErrorSink errors;
  ByteReader reader(std::string_view("\x02", 1), 100, &errors);  // two bytes announced, one there
  EXPECT_EQ(reader.ReadVarInt(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.ReadByte(), 0);
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_THAT(errors.status().message(), HasSubstr("(at byte 101)"));
}

TEST(ByteReader, CountsAreBoundedByWhatIsLeft) {
  ErrorSink errors;
  const std::string bytes = PrefixVarInt(uint64_t{1} << 60) + "abc";
  ByteReader reader(bytes, 0, &errors);
  EXPECT_EQ(reader.ReadCount(), 0u);
  EXPECT_FALSE(errors.ok());
}

}  // namespace
}  // namespace shardway::ir::bytecode
