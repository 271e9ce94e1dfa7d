// A program's collectives, prepared once for this host: who its devices' partners are at each call
// site, which of them are here, and how the work is done. Nothing of it changes afterwards, except
// the pool of launch states for reuse.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "shardway/base/mutex.h"
#include "shardway/collective/spec.h"
#include "shardway/comm/reduce.h"

namespace shardway::comm {

class Launch;

// What this host knows about the cluster's devices.
struct HostMap {
  int host = 0;
  std::vector<int> host_of_device;     // by global id
  std::vector<int> ordinal_of_device;  // by global id; -1: on another host
  int num_ordinals = 0;
};

struct Member {
  int64_t logical = 0;
  int global = 0;
  int host = 0;
  int ordinal = -1;  // -1: on another host
};

// One group with at least one member on this host.
struct GroupPlan {
  int64_t id = 0;               // its least logical device: the group's name in messages
  std::vector<Member> members;  // in group order
  std::vector<int> sum_order;   // member indices by logical device: the order of sums
  std::vector<int> local;       // member indices on this host, in group order
  std::vector<int> hosts;       // the other hosts, ascending
  // For each of `hosts`: its members' indices, in group order: the order of operands in its
  // messages.
  std::vector<std::vector<int>> members_of_host;

  int num_local() const { return static_cast<int>(local.size()); }
};

// How the devices are grouped, shared by all sites that group them alike.
struct GroupsPlan {
  struct Place {
    int group = -1;  // index into `groups`; -1: this device takes no part
    int local = -1;  // index into GroupPlan::local
  };
  std::vector<GroupPlan> groups;
  std::vector<Place> place;               // by ordinal
  std::vector<int32_t> group_of_logical;  // index into `groups`, by logical device; -1: none here
};

struct SitePlan {
  collective::Spec spec;
  std::shared_ptr<const GroupsPlan> groups;
  int first_slot = 0;                  // of its groups' rendezvous in a Launch
  int first_entry = 0;                 // of its arrivals in a Launch
  std::vector<ReduceFunction> reduce;  // by operand; all-reduce and reduce-scatter
  std::vector<int> source_of_logical;  // permute: who sends to a device (logical ids); -1: nobody
  int64_t operand_bytes = 0;           // of all operands of one device
  int64_t result_bytes = 0;
  bool continue_inline = false;  // the work after the call is tiny (decision 3)
};

class ProgramComm : public std::enable_shared_from_this<ProgramComm> {
 public:
  // `devices`: logical → global. INVALID_ARGUMENT when the specs don't fit the devices.
  static absl::StatusOr<std::shared_ptr<const ProgramComm>> Create(
      std::vector<collective::Spec> specs, std::vector<int> devices, const HostMap& hosts);
  ~ProgramComm();

  absl::Span<const SitePlan> sites() const { return sites_; }
  int num_slots() const { return num_slots_; }
  int num_entries() const { return num_entries_; }
  // All hosts of the program, this one included, ascending.
  absl::Span<const int> hosts() const { return hosts_; }

  // The global ids of all its devices.
  absl::Span<const int> devices() const { return devices_; }

  // Whether some group has members on this host and on others.
  bool spans_hosts() const { return spans_hosts_; }

  // A launch state, new or used before; returned by GiveBack when its launch ended well and nobody
  // else refers to it.
  std::shared_ptr<Launch> TakeLaunch() const;
  void GiveBack(std::shared_ptr<Launch> launch) const;

 private:
  ProgramComm() = default;

  std::vector<SitePlan> sites_;
  std::vector<int> hosts_;
  std::vector<int> devices_;
  int num_slots_ = 0;
  int num_entries_ = 0;
  bool spans_hosts_ = false;
  mutable Mutex mutex_;
  mutable std::vector<std::shared_ptr<Launch>> idle_ SHARDWAY_GUARDED_BY(mutex_);
};

}  // namespace shardway::comm
