// Drives a worker in this process through a channel, as the controller would. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shardway/base/ids.h"
#include "shardway/collective/spec.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"
#include "shardway/worker/daemon.h"
#include "shardway/worker/visible_channel.h"

namespace shardway::worker {

// The controller's end. All waits give up after a while and fail the test.
class WorkerHarness {
 public:
  static constexpr uint64_t kSession = 3;

  // A worker for host `host`, with its devices [first, first + count) of `total`.
  WorkerHarness(PartsFactory parts, wire::Configure configure) {
    auto ends = wire::MakeChannelPair();
    EXPECT_TRUE(ends.ok()) << ends.status();
    auto order = std::make_shared<Mutex>();
    channel_ = std::make_unique<VisibleChannel>(std::move(ends->first), order);
    worker_end_ = std::make_unique<VisibleChannel>(std::move(ends->second), order);
    thread_ =
        std::thread([this, parts = std::move(parts)] { served_ = Serve(*worker_end_, parts); });
    wire::ToWorker message;
    configure.set_protocol(wire::kWorkerProtocol);
    *message.mutable_configure() = std::move(configure);
    Send(message);
    ready_ = wire::FromProto(
        Await([](const wire::FromWorker& m) { return m.has_ready(); }).ready().status());
  }
  ~WorkerHarness() {
    channel_->Close();
    thread_.join();
    EXPECT_TRUE(served_.ok() || !ready_.ok()) << served_;
  }

  static wire::Configure OneHost(int num_devices) { return Host(0, 1, num_devices); }
  static wire::Configure Host(int host, int num_hosts, int devices_per_host) {
    wire::Configure configure;
    configure.set_host(host);
    for (int device = 0; device < num_hosts * devices_per_host; ++device) {
      configure.add_hosts_of_devices(device / devices_per_host);
      if (device / devices_per_host == host) configure.add_devices(device);
    }
    return configure;
  }

  const absl::Status& ready() const { return ready_; }

  void Send(const wire::ToWorker& message, int fd = -1) {
    const absl::Status status = channel_->Send(message, fd);
    EXPECT_TRUE(status.ok()) << status;
  }
  // Messages until the one that fits; the others are kept for later calls.
  wire::FromWorker Await(const std::function<bool(const wire::FromWorker&)>& fits) {
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (!fits(*it)) continue;
      wire::FromWorker found = std::move(*it);
      kept_.erase(it);
      return found;
    }
    const TimePoint deadline = Clock::Real()->Now() + std::chrono::seconds(60);
    while (Clock::Real()->Now() < deadline) {
      wire::FromWorker message;
      absl::Status status = channel_->Receive(&message, std::chrono::seconds(1));
      if (absl::IsDeadlineExceeded(status)) continue;
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) break;
      for (uint64_t id : message.done().ids()) ended_[id] = absl::OkStatus();
      for (const auto& failure : message.done().failures()) {
        ended_[failure.id()] = wire::FromProto(failure.status());
      }
      num_done_messages_ += message.has_done();
      if (fits(message)) return message;
      if (!message.has_done()) kept_.push_back(std::move(message));
    }
    ADD_FAILURE() << "the expected message did not come";
    return {};
  }

  static uint64_t Id(uint64_t local) { return (kSession << kSessionIdShift) | local; }

  void OpenSession(int arena_fd = -1, uint64_t arena_bytes = 0) {
    wire::ToWorker message;
    message.mutable_session_open()->set_session(kSession);
    message.mutable_session_open()->set_arena_bytes(arena_bytes);
    Send(message, arena_fd);
  }
  void CloseSession() {
    wire::ToWorker message;
    message.mutable_session_close()->set_session(kSession);
    Send(message);
  }

  struct ProgramSpec {
    std::string text;
    std::vector<int> devices;
    int num_parameters = 1;
    int num_results = 1;
    std::set<int> donated;
    std::vector<collective::Spec> collectives;
    bool uses_coordinates = false;
    std::string xla_options;
  };
  void Load(uint64_t program, const ProgramSpec& spec) {
    wire::ToWorker message;
    wire::LoadProgram* load = message.mutable_load();
    load->set_program(Id(program));
    load->set_name("p" + std::to_string(program));
    load->set_text(spec.text);
    load->set_manifest(collective::Serialize(spec.collectives));
    for (int device : spec.devices) load->add_devices(device);
    load->set_num_partitions(static_cast<int64_t>(spec.devices.size()));
    load->set_uses_coordinates(spec.uses_coordinates);
    load->set_xla_options(spec.xla_options);
    for (int i = 0; i < spec.num_parameters; ++i) {
      wire::BoundaryProto* parameter = load->add_parameters();
      SetBoundary(parameter);
      parameter->set_donated(spec.donated.contains(i));
      parameter->set_alias_result(-1);
    }
    for (int i = 0; i < spec.num_results; ++i) SetBoundary(load->add_results());
    Send(message);
  }
  absl::Status AwaitLoaded(uint64_t program) {
    return wire::FromProto(Await([&](const wire::FromWorker& m) {
                             return m.has_loaded() && m.loaded().program() == Id(program);
                           })
                               .loaded()
                               .status());
  }

  // An f32 array [values per shard]; shard i on devices[i].
  void Put(uint64_t op, uint64_t array, const std::vector<int>& devices,
           const std::vector<std::vector<float>>& shards) {
    wire::ToWorker message;
    wire::HostPut* put = message.mutable_put();
    put->set_op(op);
    put->set_array(Id(array));
    put->set_element(static_cast<uint32_t>(ElementType::kF32));
    put->add_shard_dims(shards[0].size());
    for (size_t i = 0; i < devices.size(); ++i) {
      put->add_devices(devices[i]);
      put->add_inline_shard(i);
      put->mutable_inline_data()->append(reinterpret_cast<const char*>(shards[i].data()),
                                         shards[i].size() * sizeof(float));
    }
    Send(message);
  }
  void RunProgram(uint64_t run, uint64_t program, const std::vector<uint64_t>& arguments,
                  const std::vector<uint64_t>& results, const std::vector<uint32_t>& keep = {}) {
    wire::ToWorker message;
    message.mutable_run()->set_run(run);
    message.mutable_run()->set_program(Id(program));
    for (uint64_t id : arguments) message.mutable_run()->add_arguments(Id(id));
    for (uint64_t id : results) message.mutable_run()->add_results(Id(id));
    for (uint32_t index : keep) message.mutable_run()->add_keep(index);
    Send(message);
  }
  void Free(const std::vector<uint64_t>& arrays) {
    wire::ToWorker message;
    for (uint64_t id : arrays) message.mutable_free()->add_arrays(Id(id));
    Send(message);
  }

  // The status with which the run or operation ended.
  absl::Status AwaitEnded(uint64_t id) {
    while (!ended_.contains(id)) {
      if (!Await([](const wire::FromWorker& m) { return m.has_done(); }).has_done()) break;
    }
    return ended_[id];
  }

  absl::StatusOr<std::vector<float>> Read(uint64_t array, uint32_t shard) {
    const uint64_t request = ++last_request_;
    wire::ToWorker message;
    message.mutable_read()->set_request(request);
    message.mutable_read()->set_session(kSession);
    message.mutable_read()->set_array(Id(array));
    message.mutable_read()->set_shard(shard);
    Send(message);
    const wire::ReadDone done = Await([&](const wire::FromWorker& m) {
                                  return m.has_read_done() && m.read_done().request() == request;
                                }).read_done();
    if (absl::Status status = wire::FromProto(done.status()); !status.ok()) return status;
    std::vector<float> values(done.data().size() / sizeof(float));
    std::memcpy(values.data(), done.data().data(), done.data().size());
    return values;
  }

  int num_done_messages() const { return num_done_messages_; }

 private:
  static void SetBoundary(wire::BoundaryProto* boundary) {
    boundary->set_element(static_cast<uint32_t>(ElementType::kF32));
  }

  std::unique_ptr<wire::Channel> channel_;
  std::unique_ptr<wire::Channel> worker_end_;
  absl::Status served_;
  std::thread thread_;
  absl::Status ready_;
  std::vector<wire::FromWorker> kept_;
  std::map<uint64_t, absl::Status> ended_;
  int num_done_messages_ = 0;
  uint64_t last_request_ = 0;
};

}  // namespace shardway::worker
