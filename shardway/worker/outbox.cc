#include "shardway/worker/outbox.h"

#include <pthread.h>

#include <utility>

#include "shardway/base/logging.h"
#include "shardway/wire/validate.h"

namespace shardway::worker {
namespace {

// The thread keeps ticking for this many empty looks, so that steady traffic never has to wake it.
constexpr int kIdleTicks = 50;

}  // namespace

Outbox::Outbox(wire::Channel* channel) : channel_(channel), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "outbox");
}

Outbox::~Outbox() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void Outbox::Ended(uint64_t id, const absl::Status& status, Urgency urgency) {
  wire::FromWorker message;
  {
    MutexLock lock(mutex_);
    wire::HostDone* done = gathered_.mutable_done();
    if (status.ok()) {
      done->add_ids(id);
    } else {
      auto* failure = done->add_failures();
      failure->set_id(id);
      wire::ToProto(status, failure->mutable_status());
    }
    if (num_gathered_++ == 0) first_gathered_ = Clock::Real()->Now();
    if (urgency == Urgency::kPost) {
      flush_ = true;
      changed_.NotifyOne();
      return;
    }
    if (urgency == Urgency::kGather && num_gathered_ < kMaxBatch) {
      if (!ticking_) {
        ticking_ = true;
        changed_.NotifyOne();
      }
      return;
    }
    message.Swap(&gathered_);
    num_gathered_ = 0;
  }
  Send(message);
}

void Outbox::Send(const wire::FromWorker& message) {
  const absl::Status status = channel_->Send(message);
  if (!status.ok() && !absl::IsUnavailable(status) && !absl::IsCancelled(status)) {
    LOG_ERROR("a message to the controller is lost: {}", status.ToString());
  }
}

void Outbox::Post(wire::FromWorker message) {
  MutexLock lock(mutex_);
  posted_.push_back(std::move(message));
  changed_.NotifyOne();
}

void Outbox::Loop() {
  std::vector<wire::FromWorker> posted;
  wire::FromWorker done;
  int idle_ticks = 0;
  bool stop = false;
  while (!stop) {
    bool send_done = false;
    {
      MutexLock lock(mutex_);
      while (posted_.empty() && !flush_ && !stopping_) {
        if (!ticking_) {
          changed_.Wait(mutex_);
          continue;
        }
        changed_.WaitFor(mutex_, kMaxAge);
        if (num_gathered_ > 0) {
          idle_ticks = 0;
          if (Clock::Real()->Now() - first_gathered_ >= kMaxAge) break;
        } else if (++idle_ticks > kIdleTicks) {
          idle_ticks = 0;
          ticking_ = false;
        }
      }
      posted.swap(posted_);
      stop = stopping_;
      const bool due = num_gathered_ > 0 &&
                       (flush_ || stop || Clock::Real()->Now() - first_gathered_ >= kMaxAge);
      if (due) {
        done.Swap(&gathered_);
        num_gathered_ = 0;
        send_done = true;
      }
      flush_ = false;
    }
    if (send_done) {
      Send(done);
      done.Clear();
    }
    for (const wire::FromWorker& message : posted) Send(message);
    posted.clear();
  }
}

}  // namespace shardway::worker
