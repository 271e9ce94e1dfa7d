// How far apart devices are, and what sending over that distance costs: in seconds as measured when
// a cluster starts, and as prices beside a byte and a collective inside a host, the unit of the
// partitioner's planners.
//
// Prices are rounded coarsely, so that a program is partitioned alike whenever the same cluster
// starts: to powers of two, and to 1 for a byte that is less than 3 times as dear, and a collective
// that is less than 6 times (waking a thread of another process is no network).
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace shardway::topology {

// Where a device is: both are numbers that only tell places apart, hosts over all islands.
struct Place {
  int island = 0;
  int host = 0;
  friend bool operator==(const Place&, const Place&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Place& place) {
    return H::combine(std::move(state), place.island, place.host);
  }
};

// From one device to another.
struct Link {
  double latency_s = 0;    // of a collective over a single element
  double bytes_per_s = 0;  // that each of them sends in a large one
};

// The slowest that was found of each kind; nullopt where there is none.
struct MeasuredLinks {
  std::optional<Link> in_host;
  std::optional<Link> between_hosts;  // of an island
  std::optional<Link> between_islands;

  std::string ToString() const;  // "in a host 1.8 us 3.9 GB/s, between hosts …"
};

struct LinkPrice {
  double collective = 1;  // what a collective costs beside its data
  double byte = 1;
  friend bool operator==(const LinkPrice&, const LinkPrice&) = default;
};

// Beside devices of one host. What is not measured: hosts of an island cost as much as one, what
// crosses islands four times as much.
struct LinkPrices {
  LinkPrice between_hosts;
  LinkPrice between_islands{4, 4};

  // "hosts=1:1,islands=4:4": of each a collective's price and a byte's.
  std::string ToString() const;
  friend bool operator==(const LinkPrices&, const LinkPrices&) = default;
};

// Whether a link costs more than one that is the unit, once rounded.
bool IsDearer(const Link& link, const Link& unit);

// The unit is the nearest kind of link that was measured. Islands are always dearer than hosts, if
// only a little: where two ways cost the same the one that stays inside is taken.
LinkPrices PricesOf(const MeasuredLinks& links);

// The form of ToString; what is left out is as in LinkPrices{}. INVALID_ARGUMENT for another form,
// for prices below 1 or above 2^30, and for islands that are cheaper than hosts.
absl::StatusOr<LinkPrices> ParseLinkPrices(const std::string& text);

}  // namespace shardway::topology
