// The session over a channel to the controller.
//
// Threads:
//   callers      make messages under send_mutex_, which also fixes their order
//   reader       receives; ends operations, reads and compiles; never sends, so that a controller
//   whose
//                own output waits for us can't wait for us in a circle
//   housekeeper  sends frees that no other message took along, reads that waited for the arena,
//   pings;
//                it sleeps long while nothing is freed, and ticks every millisecond while something
//                is
//   callbacks    see callback_threads.h
// Locks, in the order they are taken: put_mutex_, send_mutex_, then any one of the others.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "shardway/base/mutex.h"
#include "shardway/client/callback_threads.h"
#include "shardway/client/controller_process.h"
#include "shardway/client/done_tracker.h"
#include "shardway/client/session.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/fork_guard.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/validate.h"

namespace shardway::client {

class SessionImpl final : public Session {
 public:
  // Says hello over the channel and starts the threads. `*process`, the private controller or null,
  // is taken on success only.
  static absl::StatusOr<std::unique_ptr<Session>> Start(std::unique_ptr<wire::Channel> channel,
                                                        std::unique_ptr<ControllerProcess>* process,
                                                        const Options& options);
  ~SessionImpl() override;

  const std::string& platform() const override { return platform_; }
  const std::string& platform_version() const override { return platform_version_; }
  const std::string& link_prices() const override { return link_prices_; }
  const std::vector<Device>& devices() const override { return devices_; }

  absl::StatusOr<ArrayId> Put(const ArraySpec& spec, absl::Span<const HostShard> shards) override;
  ArrayId Assemble(absl::Span<const ArrayId> arrays, absl::Span<const uint32_t> shards) override;
  ArrayId Copy(ArrayId source, absl::Span<const int> devices) override;
  absl::StatusOr<Program> Compile(std::string artifact, const CompileOptions& options) override;
  ArrayId Run(ProgramId program, absl::Span<const ArrayId> arguments, int num_results,
              absl::Span<const uint32_t> keep, DoneCallback done) override;
  void OnReady(ArrayId array, DoneCallback callback) override;
  bool IsReady(ArrayId array) override;
  void OnAllEnded(absl::AnyInvocable<void() &&> callback) override;
  void Read(ArrayId array, uint32_t shard, void* destination, size_t size,
            DoneCallback callback) override;
  void Free(ArrayId array) override;
  void FreeProgram(ProgramId program) override;
  absl::StatusOr<MemoryStats> DeviceMemory(int device) override;
  void SetCallbackHandler(CallbackHandler handler) override;

 private:
  struct ReadRequest {
    ArrayId array;
    uint32_t shard = 0;
    char* destination = nullptr;
    size_t size = 0;
    uint64_t offset = 0;  // of its arena block, when size > kMaxInlineBytes
    DoneCallback callback;
  };
  // A question that its asker waits with. The liveness limit is the deadline: a lost session ends
  // them all.
  template <typename Answer>
  struct Pending {
    Mutex mutex;
    CondVar changed;
    bool ended SHARDWAY_GUARDED_BY(mutex) = false;
    absl::Status status SHARDWAY_GUARDED_BY(mutex);
    Answer answer SHARDWAY_GUARDED_BY(mutex);

    void End(absl::Status how, Answer with) {
      MutexLock lock(mutex);
      ended = true;
      status = std::move(how);
      answer = std::move(with);
      changed.NotifyAll();
    }
    absl::StatusOr<Answer> Await() {
      MutexLock lock(mutex);
      while (!ended) changed.Wait(mutex);
      if (!status.ok()) return status;
      return std::move(answer);
    }
  };
  template <typename Answer>
  using Questions = absl::flat_hash_map<uint64_t, std::shared_ptr<Pending<Answer>>>;
  using Blocks = absl::InlinedVector<uint64_t, 8>;  // arena offsets
  struct Threads {
    std::thread reader;
    std::thread housekeeper;
    CondVar house_wake;   // with house_mutex_
    CondVar arena_freed;  // with arena_mutex_
  };

  SessionImpl(std::unique_ptr<wire::Channel> channel, std::unique_ptr<ControllerProcess> process,
              const Options& options, std::unique_ptr<wire::ArenaAllocator> arena,
              const wire::Welcome& welcome);

  absl::Status CheckOwner() const;

  // Begins the operation that makes `count` arrays and sends the message that `fill(seq, message)`
  // makes.
  template <typename Fill>
  void Launch(ArrayId first, int count, DoneCallback done, const Fill& fill);
  // Sends, and takes waiting frees along. When that fails the channel is closed and the reader ends
  // the session.
  void Send(const wire::ClientMessage& message) SHARDWAY_REQUIRES(send_mutex_);
  void SendFrees() SHARDWAY_REQUIRES(send_mutex_);
  ArrayId NewArrays(int count) { return {next_array_.fetch_add(count, std::memory_order_relaxed)}; }

  // `count` arena blocks; waits for them as long as the liveness limit.
  absl::StatusOr<Blocks> AwaitBlocks(uint64_t size, size_t count);
  void FreeBlocks(absl::Span<const uint64_t> offsets);

  void SendRead(ReadRequest request);
  void RetryWaitingReads();
  void FinishRead(const wire::ReadDone& done);
  // Sends `message` and waits for the answer to question `id` of `questions`.
  template <typename Answer>
  absl::StatusOr<Answer> Ask(Questions<Answer>& questions, uint64_t id,
                             const wire::ClientMessage& message);
  template <typename Answer>
  void EndQuestion(Questions<Answer>& questions, uint64_t id, absl::Status status, Answer answer);
  void FinishCompile(wire::Compiled compiled);
  void FinishMemoryStats(wire::MemoryStats stats);

  void ReaderMain();
  void HousekeeperMain();
  void Dispatch(wire::ServerMessage& message);

  // Why the session is about to end; the first cause counts.
  void NoteCause(const std::string& cause);
  // Everything outstanding fails, with the cause noted or else `cause`. Reader's thread, at its
  // end.
  void FailEverything(const std::string& cause);
  absl::Status LostStatus();

  const Options options_;
  const wire::ForkGuard guard_;
  const std::shared_ptr<wire::Channel> channel_;
  std::unique_ptr<ControllerProcess> process_;  // null: not our child
  const std::unique_ptr<wire::ArenaAllocator> arena_;
  std::string platform_;
  std::string platform_version_;
  std::string link_prices_;
  std::vector<Device> devices_;
  const wire::SessionLimits limits_;
  const std::shared_ptr<CallbackThreads> callbacks_;
  // Pointers to these, so that a forked child can leave them alone.
  std::unique_ptr<DoneTracker> tracker_;
  std::unique_ptr<Threads> threads_;

  std::atomic<uint64_t> next_array_{1};
  std::atomic<uint64_t> next_program_{1};
  std::atomic<uint64_t> next_request_{1};
  std::atomic<uint64_t> heard_{0};  // messages received

  Mutex send_mutex_;
  uint64_t last_seq_ SHARDWAY_GUARDED_BY(send_mutex_) = 0;
  wire::ClientMessage scratch_ SHARDWAY_GUARDED_BY(send_mutex_);  // reused: keeps its memory
  wire::ClientMessage free_message_ SHARDWAY_GUARDED_BY(send_mutex_);

  Mutex house_mutex_;
  bool house_idle_ SHARDWAY_GUARDED_BY(house_mutex_) = false;  // in its long sleep
  bool stopping_ SHARDWAY_GUARDED_BY(house_mutex_) = false;
  std::vector<uint64_t> freed_arrays_ SHARDWAY_GUARDED_BY(house_mutex_);
  std::vector<uint64_t> freed_programs_ SHARDWAY_GUARDED_BY(house_mutex_);
  std::deque<ReadRequest> waiting_reads_ SHARDWAY_GUARDED_BY(house_mutex_);  // for arena room
  std::atomic<bool> frees_waiting_{false};

  Mutex put_mutex_;  // whose turn it is to wait for arena room
  Mutex arena_mutex_;

  Mutex pending_mutex_;
  std::string cause_ SHARDWAY_GUARDED_BY(pending_mutex_);
  absl::Status lost_ SHARDWAY_GUARDED_BY(pending_mutex_);
  absl::flat_hash_map<uint64_t, ReadRequest> reads_ SHARDWAY_GUARDED_BY(pending_mutex_);
  // Under pending_mutex_ as well; passed by reference to functions that take it.
  Questions<wire::Compiled> compiles_;
  Questions<wire::MemoryStats> memory_stats_;
};

}  // namespace shardway::client
