// For tests: a worker at the end of a channel. It ends every operation at once and in order, with a
// failure where it is told so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shardway/base/mutex.h"
#include "shardway/topology/links.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/validate.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::controller {

class FakeWorker {
 public:
  // `ready`: what WorkerReady says.
  explicit FakeWorker(std::unique_ptr<wire::Channel> channel, absl::Status ready = absl::OkStatus())
      : channel_(std::move(channel)), ready_(std::move(ready)), thread_([this] { Serve(); }) {}
  ~FakeWorker() {
    Freeze(false);
    channel_->Close();
    thread_.join();
  }

  // As if the process were stopped: it reads nothing.
  void Freeze(bool frozen) {
    MutexLock lock(mutex_);
    frozen_ = frozen;
    thawed_.NotifyAll();
  }
  // As if the process had died.
  void Die() { channel_->Close(); }
  int64_t runs() {
    MutexLock lock(mutex_);
    return runs_;
  }
  bool saw_session_close() {
    MutexLock lock(mutex_);
    return closed_;
  }
  // What probes of links between this host and others find; nullopt: no answer.
  void SetLink(std::optional<topology::Link> link) {
    MutexLock lock(mutex_);
    answers_probes_ = link.has_value();
    link_ = link.value_or(topology::Link());
  }
  // Runs from now on fail with `status` (OK: they don't).
  void FailRuns(absl::Status status) {
    MutexLock lock(mutex_);
    failure_ = std::move(status);
  }

 private:
  void Serve() {
    wire::ToWorker message;
    for (;;) {
      const absl::Status status = channel_->Receive(&message, std::chrono::seconds(5));
      if (absl::IsDeadlineExceeded(status)) continue;
      if (!status.ok()) return;
      {
        MutexLock lock(mutex_);
        while (frozen_) thawed_.Wait(mutex_);
      }
      wire::FromWorker answer;
      switch (message.kind_case()) {
        case wire::ToWorker::kConfigure:
          wire::ToProto(ready_, answer.mutable_ready()->mutable_status());
          answer.mutable_ready()->set_platform("fake");
          break;
        case wire::ToWorker::kMeasureLink: {
          MutexLock lock(mutex_);
          if (!answers_probes_) continue;
          wire::LinkMeasured& measured = *answer.mutable_link_measured();
          measured.set_launch(message.measure_link().launch());
          measured.set_latency_s(link_.latency_s);
          measured.set_bytes_per_s(link_.bytes_per_s);
          break;
        }
        case wire::ToWorker::kRun: {
          MutexLock lock(mutex_);
          ++runs_;
          End(message.run().run(), failure_, &answer);
          break;
        }
        case wire::ToWorker::kPut:
          End(message.put().op(), absl::OkStatus(), &answer);
          break;
        case wire::ToWorker::kRead:
          answer.mutable_read_done()->set_request(message.read().request());
          answer.mutable_read_done()->set_data("data");
          break;
        case wire::ToWorker::kPing:
          answer.set_pong(message.ping());
          break;
        case wire::ToWorker::kSessionClose: {
          MutexLock lock(mutex_);
          closed_ = true;
          continue;
        }
        default:
          continue;
      }
      if (!channel_->Send(answer).ok()) return;
    }
  }
  static void End(uint64_t op, const absl::Status& status, wire::FromWorker* answer) {
    if (status.ok()) {
      answer->mutable_done()->add_ids(op);
      return;
    }
    auto& failure = *answer->mutable_done()->add_failures();
    failure.set_id(op);
    wire::ToProto(status, failure.mutable_status());
  }

  const std::unique_ptr<wire::Channel> channel_;
  const absl::Status ready_;
  Mutex mutex_;
  CondVar thawed_;
  bool frozen_ SHARDWAY_GUARDED_BY(mutex_) = false;
  int64_t runs_ SHARDWAY_GUARDED_BY(mutex_) = 0;
  bool closed_ SHARDWAY_GUARDED_BY(mutex_) = false;
  bool answers_probes_ SHARDWAY_GUARDED_BY(mutex_) = true;
  topology::Link link_ SHARDWAY_GUARDED_BY(mutex_) = {1e-6, 1e9};
  absl::Status failure_ SHARDWAY_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the rest
};

}  // namespace shardway::controller
