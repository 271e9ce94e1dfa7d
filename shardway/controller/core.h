// The controller's heart: sessions, arrays, programs, operations, what was sent where and what
// became of it. No threads, no clock, no I/O but WorkerPort::Send; every function is called with
// the controller's lock held.
//
// The way of an operation: Handle accepts it (checks, makes its results' entries), the scheduler
// says when it may start, Dispatch sends one message to each of its hosts, WorkerSaid counts their
// answers, Finish tells the client. An operation that fails, wherever on this way, leaves its
// results poisoned with the first cause; one with a poisoned input is not started (design decision
// 8). Whoever calls a function ends with EndTurn, which starts what may start now and sends the
// gathered frees.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/controller/operation.h"
#include "shardway/controller/session.h"
#include "shardway/controller/worker_port.h"
#include "shardway/topology/links.h"
#include "shardway/topology/slice.h"
#include "shardway/topology/topology.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/session.pb.h"

namespace shardway::controller {

// What a Compile asks for: handed to the program store, answered by ProgramCompiled.
struct CompileTask {
  SessionId session;
  uint64_t program = 0;  // the session's id
  compile::Request request;
  std::string xla_options;
};

class Core {
 public:
  // `ports`: by global host number; they outlive the core.
  Core(const topology::Topology& topology, std::vector<WorkerPort*> ports,
       scheduler::SchedulerOptions options);
  ~Core();

  // What programs that are compiled from now on weigh.
  void SetLinkPrices(const topology::LinkPrices& prices) { link_prices_ = prices; }

  // `arena_fd` is sent to the workers.
  SessionId OpenSession(std::string name, std::shared_ptr<SessionSink> sink, int64_t memory_budget,
                        int arena_fd, uint64_t arena_bytes);
  // Frees all that the session owned. Does nothing when it is not open.
  void CloseSession(SessionId id);

  // One message of a client, passed by wire::Validate. An error means that the client is broken:
  // its session must be closed. A Compile comes back as a task.
  absl::Status Handle(SessionId session, wire::ClientMessage& message, TimePoint now,
                      std::vector<CompileTask>* tasks);
  void ProgramCompiled(const CompileTask& task, absl::StatusOr<program::ProgramPtr> result);

  // One message of a worker, passed by wire::Validate.
  void WorkerSaid(int host, wire::FromWorker& message, TimePoint now);
  // Poisons what lived there; the rest goes on.
  void WorkerLost(int host, const absl::Status& cause, TimePoint now);
  bool lost(int host) const { return !hosts_[host].lost.ok(); }

  // What only time brings about. Call every 100 ms or so, unless idle.
  void Tick(TimePoint now);
  bool idle() const { return scheduler_.idle(); }  // nothing waits to start

  void EndTurn(TimePoint now);
  using Delivery = std::pair<std::shared_ptr<SessionSink>, SessionEvents>;
  std::vector<Delivery> TakeEvents();

  size_t operations_in_flight() const { return in_flight_.size(); }
  size_t live_arrays(SessionId session);

 private:
  struct Host {
    WorkerPort* port = nullptr;
    absl::Status lost;
    std::vector<uint64_t> free_arrays;  // gathered until the turn ends
    std::vector<uint64_t> free_programs;
  };
  struct SentRead {
    SessionId session;
    uint64_t request = 0;
    int host = 0;
  };
  struct OpenCall {
    SessionId session;
    int host = 0;
    uint64_t worker_call = 0;
  };

  // accept.cc: client messages
  absl::Status Put(Session& session, wire::PutArray& message, TimePoint now);
  absl::Status Assemble(Session& session, const wire::Assemble& message, TimePoint now);
  absl::Status Copy(Session& session, const wire::Copy& message, TimePoint now);
  absl::Status Run(Session& session, const wire::Run& message, TimePoint now);
  absl::Status Compile(Session& session, wire::Compile& message, std::vector<CompileTask>* tasks);
  void Read(Session& session, const wire::Read& message);
  void CancelRead(Session& session, uint64_t request);
  void Free(Session& session, const wire::Free& message);
  void CallbackReturn(Session& session, wire::CallbackReturn& message);

  // dispatch.cc: from accepted to sent
  absl::Status AddOutput(Operation& operation, uint64_t id, program::ArrayLayoutPtr layout);
  absl::StatusOr<Array*> Input(Operation& operation, uint64_t id);
  void Submit(Operation& operation, TimePoint now);
  void Dispatch(Operation& operation, bool was_queued);
  absl::Status MayDispatch(const Operation& operation);
  void Fail(Operation& operation, const absl::Status& status, bool was_queued);
  void SendToHosts(absl::Span<const int> hosts, const wire::ToWorker& message);
  void SendTo(int host, const wire::ToWorker& message, int fd = -1);
  void SendRead(Session& session, uint64_t array, const Array& entry, const WaitingRead& read);
  void AnswerWaitingReads(Session& session, uint64_t array);

  // completion.cc: from sent to ended
  void Ended(int host, uint64_t op, const absl::Status& status, TimePoint now);
  void Finish(uint64_t op, TimePoint now);
  void MaybeErase(Session& session, uint64_t id);
  void MaybeErase(Session& session, ProgramEntry& entry);
  void ForgetCharge(Session& session, Array& array);
  void FlushFrees();
  absl::Status LostHostOf(absl::Span<const int> hosts) const;

  Session* FindSession(SessionId id);
  SessionEvents& EventsOf(Session& session);

  const topology::Topology topology_;
  topology::LinkPrices link_prices_;
  topology::SliceTable slices_;
  scheduler::Scheduler scheduler_;
  std::vector<Host> hosts_;
  std::vector<int> all_hosts_;
  int num_lost_ = 0;
  std::vector<std::pair<int, absl::Status>> broken_ports_;  // noticed while sending

  uint64_t next_session_ = 1;
  uint64_t next_op_ = wire::kMaxLinkProbes + 1;
  uint64_t next_request_ = 1;
  uint64_t next_call_ = 1;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<uint64_t, InFlight> in_flight_;
  absl::flat_hash_map<uint64_t, SentRead> reads_;
  absl::flat_hash_map<uint64_t, OpenCall> calls_;
  std::vector<Session*> with_events_;

  Operation scratch_;  // reused by every operation that is sent at once
  std::string bytes_;  // of the message being sent
};

}  // namespace shardway::controller
