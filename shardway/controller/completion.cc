// From sent to ended: what workers say, and what becomes of arrays that nothing names any more.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/controller/core.h"
#include "shardway/wire/validate.h"

namespace shardway::controller {

void Core::WorkerSaid(int host, wire::FromWorker& message, TimePoint now) {
  switch (message.kind_case()) {
    case wire::FromWorker::kDone:
      for (uint64_t op : message.done().ids()) {
        Ended(host, op, absl::OkStatus(), now);
      }
      for (const auto& failure : message.done().failures()) {
        Ended(host, failure.id(), wire::FromProto(failure.status()), now);
      }
      break;
    case wire::FromWorker::kReadDone: {
      wire::ReadDone& done = *message.mutable_read_done();
      auto it = reads_.find(done.request());
      if (it == reads_.end() || it->second.host != host) {
        break;
      }
      if (Session* session = FindSession(it->second.session)) {
        EventsOf(*session).reads.push_back(
            {it->second.request, wire::FromProto(done.status()), std::move(*done.mutable_data())});
      }
      reads_.erase(it);
      break;
    }
    case wire::FromWorker::kLoaded: {
      const absl::Status status = wire::FromProto(message.loaded().status());
      const ProgramId id{message.loaded().program()};
      Session* session = FindSession(SessionOf(id));
      if (status.ok() || session == nullptr) {
        break;
      }
      auto it = session->programs.find(LocalId(id).value);
      if (it != session->programs.end() && it->second.status.ok()) {
        it->second.status = status;  // later runs are not started
      }
      break;
    }
    case wire::FromWorker::kCallback: {
      wire::HostCallback& from = *message.mutable_callback();
      Session* session = FindSession(SessionId{from.session()});
      if (session == nullptr) {
        wire::ToWorker reply;
        reply.mutable_callback_return()->set_call(from.call());
        wire::ToProto(absl::CancelledError("the session is closed"),
                      reply.mutable_callback_return()->mutable_status());
        SendTo(host, reply);
        break;
      }
      const uint64_t call = next_call_++;
      calls_[call] = {session->id, host, from.call()};
      SessionEvents::Callback callback;
      callback.call = call;
      callback.callback = from.callback();
      callback.device = from.device();
      for (std::string& operand : *from.mutable_operands()) {
        callback.operands.push_back(std::move(operand));
      }
      EventsOf(*session).callbacks.push_back(std::move(callback));
      break;
    }
    default:
      break;
  }
}

void Core::Ended(int host, uint64_t op, const absl::Status& status, TimePoint now) {
  auto it = in_flight_.find(op);
  if (it == in_flight_.end() || !it->second.remaining.Remove(host)) {
    LOG_WARN("host {} says that operation {} has ended, which it was not sent", host, op);
    return;
  }
  if (!status.ok() && it->second.status.ok()) {
    it->second.status = status;
  }
  if (it->second.remaining.empty()) {
    Finish(op, now);
  }
}

void Core::Finish(uint64_t op, TimePoint now) {
  auto node = in_flight_.extract(op);
  InFlight& ended = node.mapped();
  if (Session* session = ended.session) {
    if (ended.status.ok()) {
      EventsOf(*session).ended.push_back(ended.seq);
    } else {
      for (uint64_t id : ended.outputs) {
        if (Array* array = session->arrays.Find(id); array != nullptr && array->poison.ok()) {
          array->poison = ended.status;
        }
      }
      EventsOf(*session).failures.push_back({ended.seq, ended.status});
    }
    for (const InFlight::Release& release : ended.releases) {
      scheduler_.Release(session->queue, *release.slice, release.bytes);
    }
  }
  scheduler_.Finished(ended.gang, now);
}

void Core::MaybeErase(Session& session, uint64_t id) {
  Array* array = session.arrays.Find(id);
  if (array == nullptr || !array->freed || array->queued > 0) {
    return;
  }
  if (array->sent && !array->told) {
    array->told = true;
    for (int host : array->layout->slice->hosts) {
      hosts_[host].free_arrays.push_back(GlobalId(session.id, ArrayId{id}).value);
    }
  }
  if (array->holders > 0) {
    return;
  }
  ForgetCharge(session, *array);
  const std::unique_ptr<std::vector<uint64_t>> parts = std::move(array->parts);
  session.arrays.Erase(id);
  if (parts != nullptr) {
    for (uint64_t part : *parts) {
      --session.arrays.Find(part)->holders;
      MaybeErase(session, part);
    }
  }
}

void Core::MaybeErase(Session& session, ProgramEntry& entry) {
  if (!entry.freed || entry.queued > 0) {
    return;
  }
  if (entry.placed != nullptr) {
    for (int host : entry.slice->hosts) {
      hosts_[host].free_programs.push_back(GlobalId(session.id, ProgramId{entry.id}).value);
    }
  }
  session.programs.erase(entry.id);
}

void Core::ForgetCharge(Session& session, Array& array) {
  if (array.charged == 0) {
    return;
  }
  // What was sent with it may still need it.
  if (auto it = in_flight_.find(array.last_op); it != in_flight_.end()) {
    it->second.releases.push_back({array.layout->slice, array.charged});
  } else {
    scheduler_.Release(session.queue, *array.layout->slice, array.charged);
  }
  array.charged = 0;
}

void Core::FlushFrees() {
  wire::ToWorker message;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    Host& to = hosts_[host];
    if (to.free_arrays.empty() && to.free_programs.empty()) {
      continue;
    }
    wire::HostFree& free = *message.mutable_free();
    free.mutable_arrays()->Assign(to.free_arrays.begin(), to.free_arrays.end());
    free.mutable_programs()->Assign(to.free_programs.begin(), to.free_programs.end());
    to.free_arrays.clear();
    to.free_programs.clear();
    SendTo(static_cast<int>(host), message);
  }
}

void Core::WorkerLost(int host, const absl::Status& cause, TimePoint now) {
  Host& gone = hosts_[host];
  if (!gone.lost.ok()) {
    return;
  }
  gone.lost = absl::UnavailableError(absl::StrCat(
      "the worker of ", topology_.DescribeHost(host), " is lost (", std::string(cause.message()),
      "): arrays that were there are gone; start the cluster again and resume from a checkpoint"));
  ++num_lost_;
  LOG_ERROR("{}", std::string(gone.lost.message()));

  // Others may wait for it inside a collective or a transfer.
  wire::ToWorker message;
  message.mutable_host_lost()->set_host(host);
  wire::ToProto(gone.lost, message.mutable_host_lost()->mutable_status());
  SendToHosts(all_hosts_, message);

  for (auto& [id, session] : sessions_) {
    session->arrays.ForEach([&](uint64_t, Array& array) {
      if (array.made && array.layout != nullptr && array.poison.ok() &&
          std::binary_search(array.layout->slice->hosts.begin(), array.layout->slice->hosts.end(),
                             host)) {
        array.poison = gone.lost;
      }
    });
  }
  std::vector<uint64_t> ops;
  for (const auto& [op, in_flight] : in_flight_) {
    if (in_flight.remaining.Contains(host)) {
      ops.push_back(op);
    }
  }
  std::sort(ops.begin(), ops.end());
  for (uint64_t op : ops) {
    Ended(host, op, gone.lost, now);
  }
  for (auto it = reads_.begin(); it != reads_.end();) {
    auto read = it++;
    if (read->second.host == host) {
      if (Session* session = FindSession(read->second.session)) {
        EventsOf(*session).reads.push_back({read->second.request, gone.lost, ""});
      }
      reads_.erase(read);
    }
  }
  absl::erase_if(calls_, [&](const auto& call) { return call.second.host == host; });
}

absl::Status Core::LostHostOf(absl::Span<const int> hosts) const {
  if (num_lost_ > 0) {
    for (int host : hosts) {
      if (!hosts_[host].lost.ok()) {
        return hosts_[host].lost;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace shardway::controller
