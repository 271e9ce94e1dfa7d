#include "shardway/topology/links.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace shardway::topology {
namespace {

constexpr double kLatencyAlike = 6, kByteAlike = 3;
constexpr double kDearest = 1 << 30;
// No more than breaks a tie: parts that cross islands in steps of their own cost more than this.
constexpr double kIslandsAtLeast = 1.01;

double Rounded(double times, double alike) {
  if (!(times >= alike)) return 1;
  return std::min(std::exp2(std::round(std::log2(times))), kDearest);
}

LinkPrice PriceOf(const Link& link, const Link& unit) {
  return {Rounded(link.latency_s / unit.latency_s, kLatencyAlike),
          Rounded(unit.bytes_per_s / link.bytes_per_s, kByteAlike)};
}

LinkPrice Dearer(const LinkPrice& a, const LinkPrice& b) {
  return {std::max(a.collective, b.collective), std::max(a.byte, b.byte)};
}

bool ReadPrice(const std::string& text, double* price) {
  return absl::SimpleAtod(text, price) && *price >= 1 && *price <= kDearest;
}

}  // namespace

std::string MeasuredLinks::ToString() const {
  std::string text;
  const auto add = [&](const char* where, const std::optional<Link>& link) {
    if (!link) return;
    absl::StrAppendFormat(&text, "%s%s %.1f us %.2f GB/s", text.empty() ? "" : ", ", where,
                          link->latency_s * 1e6, link->bytes_per_s / 1e9);
  };
  add("in a host", in_host);
  add("between hosts", between_hosts);
  add("between islands", between_islands);
  return text.empty() ? "none" : text;
}

std::string LinkPrices::ToString() const {
  return absl::StrCat("hosts=", between_hosts.collective, ":", between_hosts.byte,
                      ",islands=", between_islands.collective, ":", between_islands.byte);
}

bool IsDearer(const Link& link, const Link& unit) { return PriceOf(link, unit) != LinkPrice(); }

LinkPrices PricesOf(const MeasuredLinks& links) {
  LinkPrices prices;
  const std::optional<Link> unit = links.in_host         ? links.in_host
                                   : links.between_hosts ? links.between_hosts
                                                         : links.between_islands;
  if (links.between_hosts) prices.between_hosts = PriceOf(*links.between_hosts, *unit);
  if (links.between_islands) {
    const LinkPrice& near = prices.between_hosts;
    prices.between_islands = Dearer(PriceOf(*links.between_islands, *unit),
                                    {std::min(near.collective * kIslandsAtLeast, kDearest),
                                     std::min(near.byte * kIslandsAtLeast, kDearest)});
  } else {
    prices.between_islands = Dearer(prices.between_islands, prices.between_hosts);
  }
  return prices;
}

absl::StatusOr<LinkPrices> ParseLinkPrices(const std::string& text) {
  LinkPrices prices;
  bool good = true;
  const std::vector<std::string> parts = absl::StrSplit(text, ',', absl::SkipEmpty());
  for (const std::string& part : parts) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    const std::vector<std::string> both = absl::StrSplit(sides.back(), ':');
    LinkPrice* price = sides[0] == "hosts"     ? &prices.between_hosts
                       : sides[0] == "islands" ? &prices.between_islands
                                               : nullptr;
    good = good && price != nullptr && sides.size() == 2 && both.size() == 2 &&
           ReadPrice(both[0], &price->collective) && ReadPrice(both[1], &price->byte);
  }
  if (good && Dearer(prices.between_islands, prices.between_hosts) == prices.between_islands) {
    return prices;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("link prices \"", text,
                   "\": write hosts=C:B,islands=C:B, what a collective (C) and a byte (B) cost "
                   "between hosts of an "
                   "island and between islands, beside 1 inside a host; both are from 1 to ",
                   kDearest, ", and islands no cheaper than hosts"));
}

}  // namespace shardway::topology
