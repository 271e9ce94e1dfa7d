#include "shardway/device/fake_device.h"

#include <cstring>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shardway::device {
namespace {

class FakeBuffer : public Buffer {
 public:
  FakeBuffer(int device, ElementType element, absl::Span<const int64_t> dims,
             std::shared_ptr<std::atomic<int>> live)
      : device_(device),
        element_(element),
        dims_(dims.begin(), dims.end()),
        live_(std::move(live)) {
    size_t bytes = ElementBytes(element);
    for (int64_t dim : dims_) bytes *= dim;
    bytes_.resize(bytes);
    live_->fetch_add(1);
  }
  ~FakeBuffer() override { live_->fetch_sub(1); }

  ElementType element() const override { return element_; }
  absl::Span<const int64_t> dims() const override { return dims_; }
  size_t num_bytes() const override { return bytes_.size(); }
  absl::Status Await() override { return Alive(); }
  absl::Status ToHost(void* destination, size_t size) override {
    if (absl::Status status = Alive(); !status.ok()) return status;
    if (size != bytes_.size()) return absl::InvalidArgumentError("wrong size");
    if (size > 0) std::memcpy(destination, bytes_.data(), size);
    return absl::OkStatus();
  }

  int device() const { return device_; }
  std::vector<char>& bytes() { return bytes_; }
  absl::Status Alive() const {
    return deleted_.load() ? absl::InvalidArgumentError("the buffer is deleted") : absl::OkStatus();
  }
  void Delete() { deleted_.store(true); }

 private:
  const int device_;
  const ElementType element_;
  const std::vector<int64_t> dims_;
  const std::shared_ptr<std::atomic<int>> live_;
  std::vector<char> bytes_;
  std::atomic<bool> deleted_{false};
};

struct Line {
  std::string verb;
  std::string rest;
  double number = 0;
};

}  // namespace

class FakeExecutable : public Executable {
 public:
  FakeExecutable(FakeClient* client, std::vector<Line> lines)
      : client_(client), lines_(std::move(lines)) {}

  absl::Status Execute(const Launch& launch, std::vector<std::unique_ptr<Buffer>>* results,
                       bool* consumed) override;

 private:
  FakeClient* const client_;
  const std::vector<Line> lines_;
};

absl::Status FakeExecutable::Execute(const Launch& launch,
                                     std::vector<std::unique_ptr<Buffer>>* results,
                                     bool* consumed) {
  results->clear();
  *consumed = false;
  client_->executions_.fetch_add(1);
  for (Buffer* argument : launch.arguments) {
    auto* buffer = static_cast<FakeBuffer*>(argument);
    if (absl::Status status = buffer->Alive(); !status.ok()) return status;
    if (buffer->device() != launch.device) {
      return absl::InvalidArgumentError(
          absl::StrCat("an argument is on device ", buffer->device(), ", not on ", launch.device));
    }
  }
  std::vector<FakeBuffer*> donated;
  for (const Line& line : lines_) {
    const size_t index = static_cast<size_t>(line.number);
    if ((line.verb == "result" || line.verb == "donate") && index >= launch.arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("there is no argument ", index));
    }
    if (line.verb == "refuse") return absl::InvalidArgumentError(line.rest);
    if (line.verb != "donate") continue;
    bool keep = false;
    for (int64_t kept : launch.non_donatable) keep |= static_cast<size_t>(kept) == index;
    if (!keep) donated.push_back(static_cast<FakeBuffer*>(launch.arguments[index]));
  }
  *consumed = true;

  float sum = 0;
  absl::Status status;
  for (const Line& line : lines_) {
    if (line.verb == "sleep") {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(line.number)));
    } else if (line.verb == "add") {
      sum += static_cast<float>(line.number);
    } else if (line.verb == "fail") {
      status = absl::InternalError(line.rest);
    } else if (line.verb == "call" && client_->hook_ != nullptr) {
      status = client_->hook_(launch.device, launch.launch_id);
    } else if (line.verb == "result") {
      auto* argument = static_cast<FakeBuffer*>(launch.arguments[static_cast<size_t>(line.number)]);
      auto result = std::make_unique<FakeBuffer>(launch.device, argument->element(),
                                                 argument->dims(), client_->live_buffers_);
      for (size_t at = 0; at + sizeof(float) <= result->bytes().size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, argument->bytes().data() + at, sizeof(value));
        value += sum;
        std::memcpy(result->bytes().data() + at, &value, sizeof(value));
      }
      results->push_back(std::move(result));
    }
    if (!status.ok()) break;
  }
  for (FakeBuffer* buffer : donated) buffer->Delete();
  if (!status.ok()) results->clear();
  return status;
}

absl::StatusOr<std::unique_ptr<Executable>> FakeClient::Compile(std::string_view text,
                                                                std::string_view) {
  compilations_.fetch_add(1);
  std::vector<Line> lines;
  std::istringstream stream{std::string(text)};
  for (std::string text_line; std::getline(stream, text_line);) {
    std::istringstream words(text_line);
    Line line;
    words >> line.verb >> std::ws;
    std::getline(words, line.rest);
    line.number = std::atof(line.rest.c_str());
    if (line.verb == "bad") return absl::InvalidArgumentError(line.rest);
    if (line.verb == "slow_compile") {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(line.number)));
    }
    lines.push_back(std::move(line));
  }
  return std::make_unique<FakeExecutable>(this, std::move(lines));
}

absl::StatusOr<std::unique_ptr<Buffer>> FakeClient::FromHost(int device, ElementType element,
                                                             absl::Span<const int64_t> dims,
                                                             const void* data) {
  if (device < 0 || device >= num_devices_) {
    return absl::InvalidArgumentError(absl::StrCat("there is no device ", device));
  }
  auto buffer = std::make_unique<FakeBuffer>(device, element, dims, live_buffers_);
  if (buffer->num_bytes() > 0) std::memcpy(buffer->bytes().data(), data, buffer->num_bytes());
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> FakeClient::CopyTo(Buffer& source, int device) {
  auto& from = static_cast<FakeBuffer&>(source);
  if (absl::Status status = from.Alive(); !status.ok()) return status;
  return FromHost(device, from.element(), from.dims(), from.bytes().data());
}

}  // namespace shardway::device
