// A session without a cluster, for this folder's tests: arrays are strings in this process, each
// call is noted as one line ("put 1 f32[2] on 0,1"), and runs end when the test says so.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shardway/client/session.h"
#include "shardway/client/strided_copy.h"

namespace shardway::pjrt_plugin {

// What a fake leaves behind: it belongs to the client, the test looks here.
struct FakeSessionLog {
  std::vector<std::string> calls;
  std::map<uint64_t, std::vector<std::string>> arrays;  // shards' bytes, by id
  client::Program next_program;                         // what Compile returns
  client::CompileOptions compiled_with;
  absl::Status put_status;
  bool hold_runs = false;  // runs end in FinishRuns, not at once
  std::vector<client::Session::DoneCallback> held;

  void FinishRuns(const absl::Status& status) {
    for (auto& done : std::exchange(held, {})) {
      done(status);
    }
  }
  std::vector<std::string> TakeCalls() { return std::exchange(calls, {}); }
};

class FakeSession : public client::Session {
 public:
  FakeSession(std::shared_ptr<FakeSessionLog> log, int islands, int devices_per_island)
      : log_(std::move(log)) {
    for (int i = 0; i < islands * devices_per_island; ++i) {
      devices_.push_back({.id = i,
                          .island = i / devices_per_island,
                          .host = 0,
                          .local = i % devices_per_island,
                          .coords = {i % devices_per_island, 0, 0}});
    }
  }

  const std::string& platform() const override { return platform_; }
  const std::string& platform_version() const override { return platform_; }
  const std::string& link_prices() const override { return link_prices_; }
  const std::vector<client::Device>& devices() const override { return devices_; }

  absl::StatusOr<ArrayId> Put(const client::ArraySpec& spec,
                              absl::Span<const client::HostShard> shards) override {
    if (!log_->put_status.ok()) return log_->put_status;
    const ArrayId id = Next();
    std::map<const void*, size_t> distinct;
    for (const client::HostShard& shard : shards) {
      size_t bytes = ElementBytes(spec.element);
      for (const int64_t dim : spec.shard_dims) bytes *= dim;
      std::string& copy = log_->arrays[id.value].emplace_back(bytes, '\0');
      client::CopyStrided(copy.data(), static_cast<const char*>(shard.data), spec.shard_dims,
                          shard.byte_strides, ElementBytes(spec.element));
      distinct.emplace(shard.data, 0);
    }
    Note("put ", id.value, " ", std::string(ElementTypeName(spec.element)), "[",
         absl::StrJoin(spec.shard_dims, ","), "] on ", absl::StrJoin(spec.devices, ","), ", ",
         distinct.size(), " distinct");
    return id;
  }

  ArrayId Assemble(absl::Span<const ArrayId> arrays, absl::Span<const uint32_t> shards) override {
    const ArrayId id = Next();
    std::vector<std::string> parts;
    for (size_t i = 0; i < arrays.size(); ++i) {
      parts.push_back(absl::StrCat(arrays[i].value, ":", shards[i]));
      log_->arrays[id.value].push_back(log_->arrays.at(arrays[i].value).at(shards[i]));
    }
    Note("assemble ", id.value, " of ", absl::StrJoin(parts, ","));
    return id;
  }

  ArrayId Copy(ArrayId source, absl::Span<const int> devices) override {
    const ArrayId id = Next();
    log_->arrays[id.value] = log_->arrays.at(source.value);
    Note("copy ", id.value, " of ", source.value, " to ", absl::StrJoin(devices, ","));
    return id;
  }

  absl::StatusOr<client::Program> Compile(std::string artifact,
                                          const client::CompileOptions& options) override {
    log_->compiled_with = options;
    if (artifact == "bad") return absl::InvalidArgumentError("line 1: this is no program");
    client::Program program = log_->next_program;
    program.id = ProgramId{++last_program_};
    program.devices = options.devices;
    Note("compile ", program.id.value);
    return program;
  }

  // Result r is argument r.
  ArrayId Run(ProgramId program, absl::Span<const ArrayId> arguments, int num_results,
              absl::Span<const uint32_t> keep, DoneCallback done) override {
    const ArrayId first{last_array_ + 1};
    for (int r = 0; r < num_results; ++r) {
      const ArrayId id = Next();
      if (static_cast<size_t>(r) < arguments.size()) {
        log_->arrays[id.value] = log_->arrays.at(arguments[r].value);
      }
    }
    Note("run ", program.value, " of ",
         absl::StrJoin(arguments, ",",
                       [](std::string* out, ArrayId id) { absl::StrAppend(out, id.value); }),
         keep.empty() ? "" : absl::StrCat(" keep ", absl::StrJoin(keep, ",")));
    log_->held.push_back(std::move(done));
    if (!log_->hold_runs) log_->FinishRuns(absl::OkStatus());
    return first;
  }

  void OnReady(ArrayId, DoneCallback callback) override { callback(absl::OkStatus()); }
  bool IsReady(ArrayId) override { return true; }
  void OnAllEnded(absl::AnyInvocable<void() &&> callback) override {
    if (log_->held.empty()) return std::move(callback)();
    DoneCallback last = std::move(log_->held.back());
    log_->held.back() = [last = std::move(last),
                         callback = std::move(callback)](const absl::Status& status) mutable {
      last(status);
      std::move(callback)();
    };
  }

  void Read(ArrayId array, uint32_t shard, void* destination, size_t size,
            DoneCallback callback) override {
    Note("read ", array.value, ":", shard);
    const std::string& bytes = log_->arrays.at(array.value).at(shard);
    if (bytes.size() != size) {
      callback(absl::InternalError("a read of the wrong size"));
      return;
    }
    bytes.copy(static_cast<char*>(destination), size);
    callback(absl::OkStatus());
  }

  void Free(ArrayId array) override {
    Note("free ", array.value);
    log_->arrays.erase(array.value);
  }
  void FreeProgram(ProgramId program) override { Note("free program ", program.value); }
  absl::StatusOr<MemoryStats> DeviceMemory(int device) override {
    Note("memory of ", device);
    return MemoryStats{.bytes_in_use = 100 + device, .bytes_limit = 1000};
  }
  void SetCallbackHandler(client::CallbackHandler) override {}

 private:
  ArrayId Next() { return ArrayId{++last_array_}; }
  template <typename... Part>
  void Note(const Part&... part) {
    log_->calls.push_back(absl::StrCat(part...));
  }

  const std::shared_ptr<FakeSessionLog> log_;
  const std::string platform_ = "cpu";
  const std::string link_prices_ = "hosts=1:1,islands=4:4";
  std::vector<client::Device> devices_;
  uint64_t last_array_ = 0;
  uint64_t last_program_ = 0;
};

}  // namespace shardway::pjrt_plugin
