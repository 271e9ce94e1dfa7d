// Devices for tests: a Client without XLA, which ThreadSanitizer can see into.
//
// Its programs are lines of text, executed in order on each device. Results and arguments are f32
// arrays; `result N` gives argument N plus what `add` lines added; without it there are none.
//
//   sleep MICROSECONDS      takes time
//   add VALUE               to every result
//   result ARGUMENT         one more result: argument + sum of adds so far
//   donate ARGUMENT         the argument is consumed once the program has started
//   call                    runs the client's hook (a test's collective) and fails if that fails
//   fail MESSAGE            ends with an error (after the start)
//   refuse MESSAGE          does not start: nothing is consumed
//   bad MESSAGE             does not compile
//   slow_compile MICROSECONDS   takes time to compile
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "shardway/base/mutex.h"
#include "shardway/device/device.h"

namespace shardway::device {

class FakeClient : public Client {
 public:
  // Called by `call` lines with the device and the launch id, on the executing thread.
  using Hook = std::function<absl::Status(int device, int32_t launch_id)>;

  explicit FakeClient(int num_devices, Hook hook = nullptr)
      : num_devices_(num_devices), hook_(std::move(hook)) {}

  const std::string& platform_name() const override { return name_; }
  const std::string& platform_version() const override { return name_; }
  int num_devices() const override { return num_devices_; }
  absl::StatusOr<std::unique_ptr<Executable>> Compile(std::string_view text,
                                                      std::string_view xla_options) override;
  absl::StatusOr<std::unique_ptr<Buffer>> FromHost(int device, ElementType element,
                                                   absl::Span<const int64_t> dims,
                                                   const void* data) override;
  absl::StatusOr<std::unique_ptr<Buffer>> CopyTo(Buffer& source, int device) override;
  absl::Status RegisterHandler(std::string_view, void*) override { return absl::OkStatus(); }

  // For tests.
  int compilations() const { return compilations_.load(); }
  int executions() const { return executions_.load(); }
  int live_buffers() const { return live_buffers_->load(); }

 private:
  friend class FakeExecutable;

  const std::string name_ = "fake";
  const int num_devices_;
  const Hook hook_;
  std::atomic<int> compilations_{0};
  std::atomic<int> executions_{0};
  std::shared_ptr<std::atomic<int>> live_buffers_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace shardway::device
