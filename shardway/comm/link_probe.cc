#include "shardway/comm/link_probe.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/comm/communicator_impl.h"
#include "shardway/comm/latch.h"

namespace shardway::comm {
namespace {

using collective::Kind;

constexpr int kSmall = 0, kLarge = 1;  // sites

collective::Spec Collective(int site, Kind kind, int64_t operand, int64_t result) {
  collective::Spec spec;
  spec.site = site;
  spec.kind = kind;
  if (kind == Kind::kAllReduce) spec.reduction = collective::Reduction::kSum;
  // Integers: sums of floats need XLA's mode of computing.
  spec.operands = {{ElementType::kI32, {operand}}};
  spec.results = {{ElementType::kI32, {result}}};
  spec.groups = {.mesh = {2}, .axes = {0}, .lists = {}};
  return spec;
}

// One device's part.
class ProbedDevice {
 public:
  ProbedDevice(CommunicatorImpl& communicator, const LinkProbe& probe, int ordinal,
               TimePoint deadline)
      : communicator_(communicator),
        probe_(probe),
        ordinal_(ordinal),
        deadline_(deadline),
        operand_(probe.large_bytes / 4, 1),
        result_(2 * operand_.size()) {}

  void Run() {
    communicator_.DeviceStarts(probe_.launch, ordinal_);
    status_ = Time(kSmall, probe_.small_rounds, &small_);
    if (status_.ok()) status_ = Time(kLarge, probe_.large_rounds, &large_);
  }
  const absl::Status& status() const { return status_; }
  Duration small() const { return small_; }
  Duration large() const { return large_; }

 private:
  // Of a round.
  absl::Status Time(int site, int rounds, Duration* best) {
    SHARDWAY_RETURN_IF_ERROR(Call(site));  // touches memory, wakes whoever sleeps
    for (int batch = 0; batch < probe_.batches; ++batch) {
      const TimePoint begin = Clock::Real()->Now();
      for (int round = 0; round < rounds; ++round) SHARDWAY_RETURN_IF_ERROR(Call(site));
      *best = std::min<Duration>(*best, (Clock::Real()->Now() - begin) / rounds);
    }
    return absl::OkStatus();
  }

  absl::Status Call(int site) {
    void* operands[] = {operand_.data()};
    void* results[] = {result_.data()};
    SHARDWAY_ASSIGN_OR_RETURN(const Outcome outcome, communicator_.File({.launch = probe_.launch,
                                                                         .ordinal = ordinal_,
                                                                         .site = site,
                                                                         .operands = operands,
                                                                         .results = results,
                                                                         .runtime = &latch_,
                                                                         .context = this}));
    if (outcome == Outcome::kDone) return absl::OkStatus();
    absl::Status status;
    if (latch_.Await(*Clock::Real(), deadline_, &status)) return status;
    // What was filed points into this object: it must be given back first.
    const absl::Status late = absl::DeadlineExceededError(
        absl::StrCat("a probe of the link between devices ", probe_.devices[0], " and ",
                     probe_.devices[1], " did not end in time"));
    communicator_.AbortLaunch(probe_.launch, late);
    while (!latch_.Await(*Clock::Real(), TimePoint::max(), &status)) {
    }
    return status.ok() ? late : status;
  }

  CommunicatorImpl& communicator_;
  const LinkProbe probe_;
  const int ordinal_;
  const TimePoint deadline_;
  std::vector<int32_t> operand_;
  std::vector<int32_t> result_;
  Latch latch_;
  absl::Status status_;
  Duration small_ = Duration::max();
  Duration large_ = Duration::max();
};

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

absl::StatusOr<topology::Link> MeasureLink(CommunicatorImpl& communicator, const LinkProbe& probe,
                                           Duration timeout) {
  const TimePoint deadline = Clock::Real()->Now() + timeout;
  std::vector<std::unique_ptr<ProbedDevice>> members;
  for (const int device : probe.devices) {
    const int ordinal = communicator.OrdinalOf(device);
    if (ordinal < 0) continue;
    members.push_back(std::make_unique<ProbedDevice>(communicator, probe, ordinal, deadline));
  }
  if (members.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("a probe between devices ", probe.devices[0],
                                                   " and ", probe.devices[1],
                                                   ": neither is on this host"));
  }
  const int64_t elements = probe.large_bytes / 4;
  SHARDWAY_ASSIGN_OR_RETURN(
      auto program,
      communicator.Prepare({Collective(kSmall, Kind::kAllReduce, 1, 1),
                            Collective(kLarge, Kind::kAllGather, elements, 2 * elements)},
                           {probe.devices[0], probe.devices[1]}));
  communicator.BeginLaunch(probe.launch, std::move(program));
  {
    std::vector<std::thread> others;
    for (size_t i = 1; i < members.size(); ++i) {
      others.emplace_back([&members, i] { members[i]->Run(); });
    }
    members[0]->Run();
    for (std::thread& thread : others) thread.join();
  }
  communicator.EndLaunch(probe.launch);
  topology::Link link;
  double large = 0;
  for (const auto& member : members) {
    SHARDWAY_RETURN_IF_ERROR(member->status());
    link.latency_s = std::max(link.latency_s, Seconds(member->small()));
    large = std::max(large, Seconds(member->large()));
  }
  // A small one that was held up says little of a large one's beginning.
  link.bytes_per_s =
      static_cast<double>(probe.large_bytes) / std::max(large - link.latency_s, large / 2);
  return link;
}

}  // namespace shardway::comm
