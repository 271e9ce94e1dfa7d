#include "shardway/comm/program_comm.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/launch.h"

namespace shardway::comm {
namespace {

using collective::Kind;
using collective::Spec;

// Work below this is done by a waiting device on the thread that woke it (decision 3).
constexpr double kInlineMicroseconds = 20;
constexpr size_t kMaxIdleLaunches = 16;

// A permute's groups are its chains: devices that are linked by pairs, in ascending order. A device
// without a pair waits for nobody.
std::vector<std::vector<int64_t>> Chains(const Spec& spec) {
  std::vector<int64_t> root(spec.groups.num_devices());
  std::iota(root.begin(), root.end(), 0);
  auto find = [&](int64_t device) {
    while (root[device] != device) device = root[device] = root[root[device]];
    return device;
  };
  std::set<int64_t> linked;
  for (auto [source, target] : collective::DevicePairs(spec)) {
    root[find(source)] = find(target);
    linked.insert(source);
    linked.insert(target);
  }
  std::map<int64_t, std::vector<int64_t>> chains;
  for (int64_t device : linked) chains[find(device)].push_back(device);
  std::vector<std::vector<int64_t>> lists;
  for (auto& [unused, chain] : chains) lists.push_back(std::move(chain));
  return lists;
}

std::vector<std::vector<int64_t>> GroupLists(const Spec& spec) {
  if (spec.kind == Kind::kCollectivePermute) return Chains(spec);
  if (!spec.groups.lists.empty()) return spec.groups.lists;
  std::vector<std::vector<int64_t>> lists;
  std::vector<bool> seen(spec.groups.num_devices());
  for (size_t device = 0; device < seen.size(); ++device) {
    if (seen[device]) continue;
    for (int64_t member : lists.emplace_back(spec.groups.MembersOf(device))) seen[member] = true;
  }
  return lists;
}

GroupPlan MakeGroup(const std::vector<int64_t>& list, absl::Span<const int> devices,
                    const HostMap& hosts) {
  GroupPlan group;
  group.id = *std::min_element(list.begin(), list.end());
  std::map<int, std::vector<int>> by_host;
  for (int64_t logical : list) {
    const int index = static_cast<int>(group.members.size());
    const int global = devices[logical];
    const Member& member = group.members.emplace_back(
        Member{logical, global, hosts.host_of_device[global], hosts.ordinal_of_device[global]});
    if (member.ordinal >= 0) {
      group.local.push_back(index);
    } else {
      by_host[member.host].push_back(index);
    }
  }
  group.sum_order.resize(list.size());
  std::iota(group.sum_order.begin(), group.sum_order.end(), 0);
  std::sort(group.sum_order.begin(), group.sum_order.end(),
            [&](int a, int b) { return list[a] < list[b]; });
  for (auto& [host, members] : by_host) {
    group.hosts.push_back(host);
    group.members_of_host.push_back(std::move(members));
  }
  return group;
}

std::shared_ptr<const GroupsPlan> MakeGroups(const Spec& spec, absl::Span<const int> devices,
                                             const HostMap& hosts) {
  auto plan = std::make_shared<GroupsPlan>();
  plan->place.resize(hosts.num_ordinals);
  plan->group_of_logical.assign(devices.size(), -1);
  for (const std::vector<int64_t>& list : GroupLists(spec)) {
    GroupPlan group = MakeGroup(list, devices, hosts);
    if (group.local.empty()) continue;
    const int index = static_cast<int>(plan->groups.size());
    for (int i = 0; i < group.num_local(); ++i) {
      plan->place[group.members[group.local[i]].ordinal] = {index, i};
    }
    for (int64_t logical : list) plan->group_of_logical[logical] = index;
    plan->groups.push_back(std::move(group));
  }
  return plan;
}

absl::Status CheckDevices(const std::vector<int>& devices, const HostMap& hosts) {
  std::set<int> seen;
  for (int global : devices) {
    if (global < 0 || global >= static_cast<int>(hosts.host_of_device.size())) {
      return absl::InvalidArgumentError(absl::StrCat("device ", global,
                                                     " is not one of the cluster's ",
                                                     hosts.host_of_device.size(), " devices"));
    }
    if (!seen.insert(global).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("device ", global, " is assigned to two logical devices of one program"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<SitePlan> MakeSite(Spec spec) {
  SitePlan site;
  const bool reduces = spec.kind == Kind::kAllReduce || spec.kind == Kind::kReduceScatter;
  for (const collective::Shaped& operand : spec.operands) {
    site.operand_bytes += operand.num_bytes();
    if (!reduces) continue;
    ReduceFunction reduce = FindReduce(operand.element, spec.reduction);
    if (reduce == nullptr) {
      return absl::UnimplementedError(absl::StrCat("no such reduction: ", spec.ToString()));
    }
    site.reduce.push_back(reduce);
  }
  for (const collective::Shaped& result : spec.results) site.result_bytes += result.num_bytes();
  if (spec.kind == Kind::kCollectivePermute) {
    site.source_of_logical.assign(spec.groups.num_devices(), -1);
    for (auto [source, target] : collective::DevicePairs(spec)) {
      site.source_of_logical[target] = static_cast<int>(source);
    }
  }
  site.continue_inline = spec.work_after_us < kInlineMicroseconds;
  site.spec = std::move(spec);
  return site;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ProgramComm>> ProgramComm::Create(std::vector<Spec> specs,
                                                                       std::vector<int> devices,
                                                                       const HostMap& hosts) {
  SHARDWAY_RETURN_IF_ERROR(CheckDevices(devices, hosts));
  std::shared_ptr<ProgramComm> program(new ProgramComm);
  for (Spec& spec : specs) {
    const size_t index = program->sites_.size();
    if (spec.site != static_cast<int>(index)) {
      return absl::InvalidArgumentError(
          absl::StrCat("collective ", index, " of a program has site ", spec.site));
    }
    SHARDWAY_RETURN_IF_ERROR(collective::Validate(spec));
    if (spec.groups.num_devices() != static_cast<int64_t>(devices.size())) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.ToString(), " at site ", index, " is for ", spec.groups.num_devices(),
                       " devices; the program runs on ", devices.size()));
    }
    SHARDWAY_ASSIGN_OR_RETURN(SitePlan site, MakeSite(std::move(spec)));
    // Programs repeat few groupings many times.
    for (const SitePlan& other : program->sites_) {
      if (other.spec.groups == site.spec.groups && other.spec.pairs == site.spec.pairs &&
          (other.spec.kind == Kind::kCollectivePermute) ==
              (site.spec.kind == Kind::kCollectivePermute)) {
        site.groups = other.groups;
        break;
      }
    }
    if (site.groups == nullptr) site.groups = MakeGroups(site.spec, devices, hosts);
    site.first_slot = program->num_slots_;
    site.first_entry = program->num_entries_;
    program->num_slots_ += static_cast<int>(site.groups->groups.size());
    for (const GroupPlan& group : site.groups->groups) {
      program->num_entries_ += group.num_local();
      program->spans_hosts_ |= !group.hosts.empty();
    }
    program->sites_.push_back(std::move(site));
  }
  std::set<int> all;
  for (int global : devices) all.insert(hosts.host_of_device[global]);
  program->hosts_.assign(all.begin(), all.end());
  program->devices_ = std::move(devices);
  return program;
}

ProgramComm::~ProgramComm() = default;

std::shared_ptr<Launch> ProgramComm::TakeLaunch() const {
  {
    MutexLock lock(mutex_);
    if (!idle_.empty()) {
      std::shared_ptr<Launch> launch = std::move(idle_.back());
      idle_.pop_back();
      return launch;
    }
  }
  return std::make_shared<Launch>(*this);
}

void ProgramComm::GiveBack(std::shared_ptr<Launch> launch) const {
  MutexLock lock(mutex_);
  if (idle_.size() < kMaxIdleLaunches) idle_.push_back(std::move(launch));
}

}  // namespace shardway::comm
