#include "shardway/controller/measure_links.h"

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"
#include "shardway/wire/worker.pb.h"

namespace shardway::controller {
namespace {

constexpr int kMaxIslands = 8;  // that are probed
// A machine that has other things to do holds probes up: what seems dear is tried again, a little
// later, and the best counts.
constexpr int kTries = 4;
constexpr Duration kPause = std::chrono::milliseconds(20);

using topology::Link;
using Workers = absl::Span<const std::unique_ptr<wire::Channel>>;

class Probes {
 public:
  Probes(Workers workers, const topology::Topology& topology, Duration timeout)
      : workers_(workers), topology_(topology), timeout_(timeout) {}

  // The slower of what the pair finds and `slowest`.
  absl::Status Measure(int device, int other, std::optional<Link>* slowest) {
    SHARDWAY_ASSIGN_OR_RETURN(Link link, Try(device, other));
    for (int tries = 1; tries < kTries && (!unit_ || topology::IsDearer(link, *unit_)); ++tries) {
      std::this_thread::sleep_for(kPause);
      SHARDWAY_ASSIGN_OR_RETURN(const Link again, Try(device, other));
      link.latency_s = std::min(link.latency_s, again.latency_s);
      link.bytes_per_s = std::max(link.bytes_per_s, again.bytes_per_s);
    }
    if (!unit_) unit_ = link;
    *slowest = slowest->has_value() ? Slower(**slowest, link) : link;
    return absl::OkStatus();
  }

 private:
  static Link Slower(const Link& a, const Link& b) {
    return {std::max(a.latency_s, b.latency_s), std::min(a.bytes_per_s, b.bytes_per_s)};
  }

  // As the slower of the two hosts finds it.
  absl::StatusOr<Link> Try(int device, int other) {
    wire::ToWorker message;
    wire::MeasureLink& probe = *message.mutable_measure_link();
    probe.set_launch(++launch_);
    probe.set_device(device);
    probe.set_other(other);
    probe.set_timeout_ms(timeout_ / std::chrono::milliseconds(1));
    const std::set<int> hosts = {topology_.HostOf(device), topology_.HostOf(other)};
    for (int host : hosts) SHARDWAY_RETURN_IF_ERROR(workers_[host]->Send(message));
    std::optional<Link> slower;
    for (int host : hosts) {
      SHARDWAY_ASSIGN_OR_RETURN(const Link link, Answer(host));
      slower = slower ? Slower(*slower, link) : link;
    }
    return *slower;
  }

  absl::StatusOr<Link> Answer(int host) {
    wire::FromWorker answer;
    // A worker ends by itself in `timeout`; what it then says is better than nothing said.
    SHARDWAY_RETURN_IF_ERROR(workers_[host]->Receive(&answer, 2 * timeout_));
    SHARDWAY_RETURN_IF_ERROR(wire::Validate(answer, topology_.num_devices()));
    if (!answer.has_link_measured() || answer.link_measured().launch() != launch_) {
      return absl::InternalError(
          absl::StrCat("the worker of ", topology_.DescribeHost(host),
                       " was asked to measure a link and answered something else"));
    }
    SHARDWAY_RETURN_IF_ERROR(wire::FromProto(answer.link_measured().status()));
    return Link{answer.link_measured().latency_s(), answer.link_measured().bytes_per_s()};
  }

  const Workers workers_;
  const topology::Topology topology_;
  const Duration timeout_;
  uint32_t launch_ = 0;
  std::optional<Link> unit_;  // the first that was measured
};

}  // namespace

absl::StatusOr<topology::MeasuredLinks> MeasureLinks(Workers workers,
                                                     const topology::Topology& topology,
                                                     Duration timeout) {
  static_assert(kTries * (1 + 2 + kMaxIslands) <= static_cast<int>(wire::kMaxLinkProbes));
  const topology::Shape& shape = topology.shape();
  Probes probes(workers, topology, timeout);
  topology::MeasuredLinks links;
  if (shape.devices > 1) SHARDWAY_RETURN_IF_ERROR(probes.Measure(0, 1, &links.in_host));
  for (const int host : std::set<int>{1, shape.hosts - 1}) {
    if (host < 1 || host >= shape.hosts) continue;
    SHARDWAY_RETURN_IF_ERROR(probes.Measure(0, host * shape.devices, &links.between_hosts));
  }
  for (int island = 1; island < std::min(shape.islands, kMaxIslands); ++island) {
    const int device = island * shape.hosts * shape.devices;
    SHARDWAY_RETURN_IF_ERROR(probes.Measure(0, device, &links.between_islands));
  }
  return links;
}

}  // namespace shardway::controller
