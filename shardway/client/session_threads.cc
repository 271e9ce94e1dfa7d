// The session's threads, and its end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/client/session_impl.h"

namespace shardway::client {
namespace {

// Frees that nothing else takes along are sent within this.
constexpr Duration kTick = std::chrono::milliseconds(1);
// Quiet ticks after which the housekeeper sleeps long.
constexpr int kTicksToIdle = 20;

TimePoint Now() { return std::chrono::steady_clock::now(); }

// Notices a controller that is silent. It counts only time in which this process ran: one that was
// stopped (a debugger, a laptop's lid) must not blame the controller when it goes on.
class SilenceWatch {
 public:
  explicit SilenceWatch(Duration limit)
      : limit_(limit),
        period_(std::clamp<Duration>(limit / 8, std::chrono::milliseconds(10),
                                     std::chrono::seconds(1))),
        last_(Now()) {}

  enum class Verdict { kFine, kPing, kLost };
  // `heard`: the number of messages received so far.
  Verdict Check(uint64_t heard) {
    const TimePoint now = Now();
    const Duration passed = now - last_;
    if (passed < period_) return Verdict::kFine;
    last_ = now;
    if (heard != heard_) {
      heard_ = heard;
      silent_ = Duration::zero();
      return Verdict::kFine;
    }
    silent_ += std::min(passed, 2 * period_);
    return silent_ >= limit_ + period_ ? Verdict::kLost : Verdict::kPing;
  }
  Duration period() const { return period_; }

 private:
  const Duration limit_;
  const Duration period_;
  TimePoint last_;
  uint64_t heard_ = 0;
  Duration silent_ = Duration::zero();
};

}  // namespace

void SessionImpl::ReaderMain() {
  wire::ServerMessage message;
  absl::Status status;
  while (status.ok()) {
    status = channel_->Receive(&message, std::chrono::hours(1));
    if (absl::IsDeadlineExceeded(status)) {
      status = absl::OkStatus();
      continue;
    }
    if (status.ok()) status = wire::Validate(message, limits_);
    if (!status.ok()) break;
    heard_.fetch_add(1, std::memory_order_relaxed);
    if (message.kind_case() == wire::ServerMessage::kGoodbye) {
      status = wire::FromProto(message.goodbye());
      NoteCause(absl::StrCat("the controller ended it: ", status.ToString()));
      break;
    }
    Dispatch(message);
  }
  channel_->Close();
  FailEverything(std::string(status.message()));
}

void SessionImpl::Dispatch(wire::ServerMessage& message) {
  switch (message.kind_case()) {
    case wire::ServerMessage::kDone:
      return tracker_->Finish(message.done());
    case wire::ServerMessage::kReadDone:
      return FinishRead(message.read_done());
    case wire::ServerMessage::kCompiled:
      return FinishCompile(std::move(*message.mutable_compiled()));
    case wire::ServerMessage::kMemoryStats:
      return FinishMemoryStats(std::move(*message.mutable_memory_stats()));
    case wire::ServerMessage::kCallback:
      return callbacks_->Call(std::move(*message.mutable_callback()));
    default:
      return;  // a pong; that it came is counted
  }
}

void SessionImpl::HousekeeperMain() {
  SilenceWatch silence(options_.liveness);
  wire::ClientMessage ping;
  int quiet_ticks = 0;
  while (true) {
    bool busy;
    {
      MutexLock lock(house_mutex_);
      if (stopping_) return;
      busy = !freed_arrays_.empty() || !freed_programs_.empty() || !waiting_reads_.empty();
      quiet_ticks = busy ? 0 : quiet_ticks + 1;
      if (quiet_ticks < kTicksToIdle) {
        threads_->house_wake.WaitFor(house_mutex_, kTick);
      } else {
        house_idle_ = true;
        threads_->house_wake.WaitFor(house_mutex_, silence.period());
        house_idle_ = false;
      }
      if (stopping_) return;
    }
    RetryWaitingReads();
    const SilenceWatch::Verdict verdict = silence.Check(heard_.load(std::memory_order_relaxed));
    if (verdict == SilenceWatch::Verdict::kLost) {
      NoteCause(absl::StrCat("it has not answered for ",
                             options_.liveness / std::chrono::milliseconds(1), " ms"));
      channel_->Close();
      if (process_ != nullptr) process_->Kill();
      return;
    }
    if (!busy && verdict == SilenceWatch::Verdict::kFine) continue;
    // Not behind a caller whose message finds no room: who watches for silence must go on watching.
    if (!send_mutex_.TryLock()) continue;
    SendFrees();
    if (verdict == SilenceWatch::Verdict::kPing) {
      ping.set_ping(ping.ping() + 1);
      channel_->Send(ping).IgnoreError();  // the reader sees the channel's end
    }
    send_mutex_.Unlock();
  }
}

void SessionImpl::NoteCause(const std::string& cause) {
  MutexLock lock(pending_mutex_);
  if (cause_.empty()) cause_ = cause;
}

absl::Status SessionImpl::LostStatus() {
  MutexLock lock(pending_mutex_);
  return lost_;
}

void SessionImpl::FailEverything(const std::string& cause) {
  NoteCause(cause);
  std::string who = absl::StrCat("the cluster's controller (pid ", channel_->peer_pid(), ")");
  if (process_ != nullptr) {
    const std::string how = process_->AwaitEnd(std::chrono::milliseconds(200));
    if (!how.empty()) absl::StrAppend(&who, ", which ", how);
  }
  absl::Status status;
  absl::flat_hash_map<uint64_t, ReadRequest> reads;
  Questions<wire::Compiled> compiles;
  Questions<wire::MemoryStats> memory_stats;
  std::deque<ReadRequest> waiting;
  {
    MutexLock lock(pending_mutex_);
    status = absl::UnavailableError(absl::StrCat(
        "the session with ", who, " is lost: ", cause_,
        ". The arrays on its devices are gone: restart the program, from its last checkpoint if it "
        "has one; SHARDWAY_LOG=info shows what the cluster's processes say"));
    lost_ = status;
    reads.swap(reads_);
    compiles.swap(compiles_);
    memory_stats.swap(memory_stats_);
  }
  {
    MutexLock lock(house_mutex_);
    waiting.swap(waiting_reads_);
    if (!stopping_) LOG_WARN("{}", std::string(status.message()));
  }
  tracker_->FailAll(status);
  for (auto& [id, request] : reads) request.callback(status);
  for (ReadRequest& request : waiting) {
    if (request.callback) request.callback(status);
  }
  for (auto& [id, pending] : compiles) pending->End(status, {});
  for (auto& [id, pending] : memory_stats) pending->End(status, {});
  callbacks_->Stop();
  MutexLock lock(arena_mutex_);
  threads_->arena_freed.NotifyAll();
}

}  // namespace shardway::client
