// The way of one collective through the exchange: publish, wait, combine or copy, release.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/comm/exchange.h"
#include "shardway/comm/payload.h"
#include "shardway/comm/release.h"
#include "shardway/comm/remote_slot.h"
#include "shardway/comm/rendezvous.h"
#include "shardway/comm/store_load_fence.h"

namespace shardway::comm {
namespace {

// The unit in which threads share the combining of a large all-reduce.
constexpr int64_t kCombinePiece = int64_t{64} << 10;

}  // namespace

void Exchange::Arrived(Launch& launch, Slot& slot, Scheduler scheduler) {
  if (!Publish(launch, slot)) return Defer(launch.shared_from_this(), slot, 0);
  AwaitOthers(launch, slot, scheduler);
}

// Sends the local members' operands to the group's other hosts. False: no room for them now.
bool Exchange::Publish(Launch& launch, Slot& slot) {
  const SitePlan& site = *slot.site;
  const GroupPlan& group = *slot.group;
  const int64_t bytes = slot.remote->own_bytes();
  char small[kMaxInlineBytes];
  char* payload = small;
  uint64_t block = 0;
  if (bytes > kMaxInlineBytes) {
    if (static_cast<uint64_t>(bytes) > Arena::kMaxPayload) {
      Fail(launch, slot,
           absl::ResourceExhaustedError(
               absl::StrCat(site.spec.ToString(), " at ", site.spec.location, " sends ", bytes,
                            " bytes between hosts; at most ", Arena::kMaxPayload, " can be")));
      return true;
    }
    block = transport_->arena().Allocate(bytes, group.hosts);
    if (block == Arena::kNoSpace) return false;
    payload = transport_->Payload(block);
  }
  char* at = payload;
  for (int local = 0; local < group.num_local(); ++local) {
    for (size_t i = 0; i < site.spec.operands.size(); ++i) {
      if (!IsSent(site, group, group.local[local], static_cast<int>(i))) continue;
      const int64_t size = site.spec.operands[i].num_bytes();
      if (size > 0) std::memcpy(at, slot.entries[local].buffers[i], size);
      at += AlignPayload(size);
    }
  }
  if (block != 0) transport_->arena().Seal(block);
  MessageHead head;
  head.kind = MessageKind::kOperands;
  head.launch = launch.id();
  head.site = site.spec.site;
  head.step = Slot::Step(slot.word.load(std::memory_order_relaxed));
  head.group = group.id;
  head.block = block;
  head.bytes = bytes;
  const absl::Span<const char> inline_payload(small, block == 0 ? bytes : 0);
  for (int host : group.hosts) transport_->Send(host, head, inline_payload);
  return true;
}

void Exchange::AwaitOthers(Launch& launch, Slot& slot, Scheduler scheduler) {
  const uint32_t step = Slot::Step(slot.word.load(std::memory_order_relaxed));
  ReadyList ready;
  RemoteSlot::Set& set = slot.remote->set(step, 0);
  Park(launch, slot);
  if (set.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ready.push_back({.launch = launch.shared_from_this(), .slot = &slot, .step = step});
  }
  // Put first, look afterwards: see the head of exchange.h.
  StoreLoadFence();
  Receive(&ready);
  // It may also have been another thread of this host that saw the last one.
  const bool complete = Slot::Step(slot.word.load(std::memory_order_acquire)) != step ||
                        set.missing.load(std::memory_order_acquire) <= 0;
  if (complete) {
    for (int host : slot.group->hosts) transport_->RingForMail(host);
  }
  Run(ready, scheduler);
}

// The slot waits for other hosts from here on.
void Exchange::Park(Launch& launch, Slot& slot) {
  slot.word.fetch_or(Slot::kParked, std::memory_order_seq_cst);
  // An abort that came while it was claimed left it to us.
  if (launch.aborted()) launch.FailSlot(slot);
}

void Exchange::Fail(Launch& launch, Slot& slot, const absl::Status& status) {
  launches_.abort(launch.id(), status);
  Park(launch, slot);
}

int Exchange::Participant(const GroupPlan& group) const {
  return static_cast<int>(
      std::lower_bound(group.hosts.begin(), group.hosts.end(), transport_->host()) -
      group.hosts.begin());
}

void Exchange::GatherRemote(Slot& slot, Work* work) {
  const GroupPlan& group = *slot.group;
  const size_t operands = slot.site->spec.operands.size();
  RemoteSlot::Set& set = slot.remote->set(Slot::Step(slot.word.load(std::memory_order_relaxed)), 0);
  for (size_t host = 0; host < group.hosts.size(); ++host) {
    const char* at = set.arrivals[host].data;
    for (int member : group.members_of_host[host]) {
      for (size_t i = 0; i < operands; ++i) {
        if (!IsSent(*slot.site, group, member, static_cast<int>(i))) continue;
        work->operands[member * operands + i] = at;
        at += AlignPayload(slot.site->spec.operands[i].num_bytes());
      }
    }
  }
}

void Exchange::Finish(Slot& slot, Work work, Scheduler scheduler) {
  RemoteSlot::Set& set = slot.remote->set(Slot::Step(slot.word.load(std::memory_order_relaxed)), 0);
  const int pieces = NumPieces(work);
  if (pieces <= 1) {
    RunPiece(work, 0, 1);
    Acknowledge(slot, set);
    return Release(slot, scheduler, pool_);
  }
  auto shared = std::make_shared<Work>(std::move(work));
  pool_.Share(
      pieces, [shared, pieces](int piece) { RunPiece(*shared, piece, pieces); },
      [this, &slot, &set] {
        Acknowledge(slot, set);
        Release(slot, {}, pool_);
      });
}

void Exchange::Acknowledge(Slot& slot, RemoteSlot::Set& set) {
  for (size_t host = 0; host < slot.group->hosts.size(); ++host) {
    RemoteArrival& arrival = set.arrivals[host];
    if (arrival.block == 0) continue;
    transport_->Acknowledge(slot.group->hosts[host], std::exchange(arrival.block, 0));
  }
}

// --- the two rounds of a large all-reduce ---

// Combines this host's share of all operands into shared memory. False: no room for it now.
bool Exchange::Combine(std::shared_ptr<Launch> launch, Slot& slot) {
  const SitePlan& site = *slot.site;
  const int participants = static_cast<int>(slot.group->hosts.size()) + 1;
  const int mine = Participant(*slot.group);
  const int64_t bytes = ShareBytes(site, mine, participants);
  const uint64_t block = transport_->arena().Allocate(bytes, slot.group->hosts);
  if (block == Arena::kNoSpace) return false;

  struct Piece {
    int operand;
    int64_t first, count;
    char* destination;
  };
  std::vector<Piece> pieces;
  char* at = transport_->Payload(block);
  for (size_t i = 0; i < site.spec.operands.size(); ++i) {
    const int64_t element = ElementBytes(site.spec.operands[i].element);
    const Share share = ShareOf(site.spec.operands[i].num_elements(), mine, participants);
    const int64_t step = kCombinePiece / element;
    for (int64_t done = 0; done < share.count; done += step) {
      pieces.push_back({static_cast<int>(i), share.first + done, std::min(step, share.count - done),
                        at + done * element});
    }
    at += AlignPayload(share.count * element);
  }
  auto work = std::make_shared<Work>();
  GatherLocal(slot, work.get());
  GatherRemote(slot, work.get());
  const int n = static_cast<int>(pieces.size());
  auto done = [this, launch = std::move(launch), &slot, block, bytes] {
    SendShare(launch, slot, block, bytes);
  };
  if (n == 0) {
    done();
    return true;
  }
  pool_.Share(
      n,
      [work, pieces = std::move(pieces)](int piece) {
        const Piece& p = pieces[piece];
        ReduceRange(*work, p.operand, p.first, p.count, p.destination);
      },
      std::move(done));
  return true;
}

void Exchange::SendShare(std::shared_ptr<Launch> launch, Slot& slot, uint64_t block,
                         int64_t bytes) {
  const uint32_t step = Slot::Step(slot.word.load(std::memory_order_relaxed));
  Acknowledge(slot, slot.remote->set(step, 0));
  slot.remote->share_block = block;
  slot.remote->set_round(1);
  MessageHead head;
  head.kind = MessageKind::kOperands;
  head.launch = launch->id();
  head.site = slot.site->spec.site;
  head.step = step;
  head.round = 1;
  head.group = slot.group->id;
  head.block = block;
  head.bytes = bytes;
  RemoteSlot::Set& set = slot.remote->set(step, 1);
  // Not after Park: then the launch may end at any moment.
  const std::vector<int>& hosts = slot.group->hosts;
  Park(*launch, slot);
  const bool complete = set.missing.fetch_sub(1, std::memory_order_acq_rel) == 1;
  for (int host : hosts) {
    transport_->Send(host, head, {});
    transport_->RingForMail(host);
  }
  if (complete) Advance({.launch = launch, .slot = &slot, .step = step, .round = 1}, {});
}

// Copies everybody's share into the local members' results.
void Exchange::Spread(Slot& slot) {
  const SitePlan& site = *slot.site;
  const GroupPlan& group = *slot.group;
  RemoteSlot::Set& set = slot.remote->set(Slot::Step(slot.word.load(std::memory_order_relaxed)), 1);
  const int participants = static_cast<int>(group.hosts.size()) + 1;
  const int mine = Participant(group);
  struct Piece {
    const char* from;
    size_t operand;
    int64_t offset, bytes;
  };
  std::vector<Piece> pieces;
  for (int p = 0; p < participants; ++p) {
    const char* at = p == mine ? transport_->Payload(slot.remote->share_block)
                               : set.arrivals[p < mine ? p : p - 1].data;
    for (size_t i = 0; i < site.spec.operands.size(); ++i) {
      const int64_t element = ElementBytes(site.spec.operands[i].element);
      const Share share = ShareOf(site.spec.operands[i].num_elements(), p, participants);
      if (share.count > 0) {
        pieces.push_back({at, i, share.first * element, share.count * element});
      }
      at += AlignPayload(share.count * element);
    }
  }
  const size_t operands = site.spec.operands.size();
  const int n = static_cast<int>(pieces.size());
  pool_.Share(
      n,
      [&slot, operands, pieces = std::move(pieces)](int piece) {
        const Piece& p = pieces[piece];
        for (int local = 0; local < slot.num_local(); ++local) {
          char* result = static_cast<char*>(slot.entries[local].buffers[operands + p.operand]);
          std::memcpy(result + p.offset, p.from, p.bytes);
        }
      },
      [this, &slot, &set] {
        Acknowledge(slot, set);
        transport_->arena().Seal(std::exchange(slot.remote->share_block, 0));
        Release(slot, {}, pool_);
      });
}

}  // namespace shardway::comm
