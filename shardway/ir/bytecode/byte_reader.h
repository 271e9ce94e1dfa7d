// Reads MLIR bytecode's primitives from bytes that may be anything.
//
// Errors stick: after the first one every read gives zero, so that decoders check once per record
// instead of once per read. A loop's count must come from ReadCount, which bounds it by the bytes
// left; then no input makes us loop or allocate out of proportion to its size.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shardway::ir::bytecode {

// The first error of one artifact's reading, shared by all its readers.
class ErrorSink {
 public:
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

  void Invalid(std::string_view what, uint64_t offset) {
    Set(absl::InvalidArgumentError(
        absl::StrCat("malformed StableHLO artifact: ", Str(what), " (at byte ", offset, ")")));
  }
  void Invalid(std::string_view what) {
    Set(absl::InvalidArgumentError(absl::StrCat("malformed StableHLO artifact: ", Str(what))));
  }
  void Unimplemented(std::string_view what) {
    Set(absl::UnimplementedError(absl::StrCat("StableHLO artifact: ", Str(what))));
  }

 private:
  static absl::string_view Str(std::string_view s) { return {s.data(), s.size()}; }
  void Set(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  absl::Status status_;
};

class ByteReader {
 public:
  // `file_offset` is where `bytes` begins in the artifact, for messages.
  ByteReader(std::string_view bytes, uint64_t file_offset, ErrorSink* errors)
      : bytes_(bytes), file_offset_(file_offset), errors_(errors) {}

  ErrorSink* errors() const { return errors_; }
  bool ok() const { return errors_->ok(); }
  size_t remaining() const { return ok() ? bytes_.size() - at_ : 0; }
  bool empty() const { return remaining() == 0; }
  uint64_t offset() const { return file_offset_ + at_; }
  void Fail(std::string_view what) { errors_->Invalid(what, offset()); }

  uint8_t ReadByte() {
    if (remaining() == 0) {
      Fail("it ends too early");
      return 0;
    }
    return static_cast<uint8_t>(bytes_[at_++]);
  }

  // The number of trailing zero bits of the first byte is the number of bytes that follow it.
  uint64_t ReadVarInt() {
    const uint8_t first = ReadByte();
    if ((first & 1) != 0) return first >> 1;
    if (!ok()) return 0;
    const int extra = first == 0 ? 8 : std::countr_zero(first);
    if (remaining() < static_cast<size_t>(extra)) {
      Fail("it ends inside a number");
      return 0;
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + at_, extra);
    at_ += extra;
    if (extra == 8) return word;
    return ((word << 8) | first) >> (extra + 1);
  }

  int64_t ReadSignedVarInt() {
    const uint64_t zigzag = ReadVarInt();
    return static_cast<int64_t>(zigzag >> 1) ^ -static_cast<int64_t>(zigzag & 1);
  }

  // (value, flag): the flag is the lowest bit.
  std::pair<uint64_t, bool> ReadVarIntWithFlag() {
    const uint64_t both = ReadVarInt();
    return {both >> 1, (both & 1) != 0};
  }

  // A count of things that take at least `min_bytes` each.
  size_t ReadCount(size_t min_bytes = 1) { return CheckCount(ReadVarInt(), min_bytes); }
  size_t CheckCount(uint64_t count, size_t min_bytes = 1) {
    if (count > remaining() / min_bytes) {
      Fail("a count exceeds the bytes that are left");
      return 0;
    }
    return count;
  }

  std::string_view ReadBytes(uint64_t size) {
    if (size > remaining()) {
      Fail("it ends too early");
      return {};
    }
    const std::string_view result = bytes_.substr(at_, size);
    at_ += size;
    return result;
  }
  std::string_view ReadBlob() { return ReadBytes(ReadVarInt()); }

  std::string_view ReadNullTerminated() {
    if (!ok()) return {};
    const size_t end = bytes_.find('\0', at_);
    if (end == std::string_view::npos) {
      Fail("a string is not terminated");
      return {};
    }
    const std::string_view result = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t file_offset_;
  ErrorSink* errors_;
};

}  // namespace shardway::ir::bytecode
