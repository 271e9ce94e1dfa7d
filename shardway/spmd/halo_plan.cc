#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "shardway/spmd/costs.h"
#include "shardway/spmd/halo.h"

namespace shardway::spmd {
namespace {

constexpr size_t kMaxTiles = 32;  // that a part takes of others: beyond, a gather is better

std::vector<HaloMove> CutAtTiles(const HaloNeeds& needs, absl::Span<const int64_t> tiles) {
  std::vector<HaloMove> moves;
  for (size_t part = 0; part < needs.parts.size(); ++part) {
    for (const HaloPiece& piece : needs.parts[part]) {
      const int64_t tile = tiles[piece.source];
      if (tile == kHeldWhole) {
        const int here = static_cast<int>(part);
        moves.push_back({here, here, piece.source, piece.start, piece.length, piece.at});
        continue;
      }
      for (int64_t done = 0; done < piece.length;) {
        const int64_t start = piece.start + done;
        const int64_t length = std::min(piece.length - done, tile - start % tile);
        moves.push_back({static_cast<int>(start / tile), static_cast<int>(part), piece.source,
                         start % tile, length, piece.at + done});
        done += length;
        if (moves.size() > (kMaxTiles + 1) * needs.parts.size()) return moves;
      }
    }
  }
  return moves;
}

void Put(HaloRound& round, const HaloMove& move) {
  round.length = std::max(round.length, move.length);
  round.moves.push_back(move);
}

// One round for each source and each distance between sender and receiver (around the end); a
// second one where two parts exchange several stretches. Everything in a round then has the same
// place in the window almost always.
std::vector<HaloRound> ByDistance(const std::vector<HaloMove>& moves, int parts, bool local) {
  std::map<std::tuple<int, int, int>, HaloRound> rounds;  // source, distance, how many before
  std::map<std::tuple<int, int, int>, int> seen;          // source, from, to
  for (const HaloMove& move : moves) {
    const int distance = (move.from - move.to + parts) % parts;
    if (local != (distance == 0)) continue;
    const int before = seen[{move.source, move.from, move.to}]++;
    HaloRound& round = rounds[{move.source, distance, before}];
    round.local = local;
    Put(round, move);
  }
  std::vector<HaloRound> list;
  list.reserve(rounds.size());
  for (auto& [key, round] : rounds) list.push_back(std::move(round));
  return list;
}

// As few rounds as a first fit finds, longest stretches first: where distances vary from part to
// part (a reversal, half of a tensor spread over all parts).
std::vector<HaloRound> FirstFit(std::vector<HaloMove> moves, int parts) {
  std::stable_sort(moves.begin(), moves.end(), [](const HaloMove& a, const HaloMove& b) {
    return std::tuple(-a.length, a.to, a.at) < std::tuple(-b.length, b.to, b.at);
  });
  std::vector<HaloRound> rounds;
  std::vector<std::vector<bool>> sends, receives;
  for (const HaloMove& move : moves) {
    if (move.from == move.to) continue;
    size_t r = 0;
    while (r < rounds.size() && (sends[r][move.from] || receives[r][move.to])) ++r;
    if (r == rounds.size()) {
      rounds.emplace_back();
      sends.emplace_back(parts);
      receives.emplace_back(parts);
    }
    sends[r][move.from] = receives[r][move.to] = true;
    Put(rounds[r], move);
  }
  return rounds;
}

// What parts keep of their own tiles goes with the rounds, as far as all of it finds a place there
// that makes none longer; nullopt where it does not.
std::optional<std::vector<HaloRound>> WithKept(std::vector<HaloRound> rounds,
                                               const std::vector<HaloMove>& moves,
                                               absl::Span<const int64_t> tiles) {
  for (const HaloMove& move : moves) {
    if (move.from != move.to) continue;
    if (tiles[move.source] == kHeldWhole) return std::nullopt;
    auto fits = [&](const HaloRound& round) {
      return move.length <= round.length &&
             std::none_of(round.moves.begin(), round.moves.end(), [&](const HaloMove& other) {
               return other.from == move.from || other.to == move.to || other.source != move.source;
             });
    };
    const auto place = std::find_if(rounds.begin(), rounds.end(), fits);
    if (place == rounds.end()) return std::nullopt;
    place->moves.push_back(move);
  }
  return rounds;
}

int64_t Sent(const std::vector<HaloRound>& rounds) {
  int64_t sent = 0;
  for (const HaloRound& round : rounds) sent += round.local ? 0 : round.length;
  return sent;
}

}  // namespace

void HaloNeeds::Add(size_t part, int source, int64_t size, int64_t start, int64_t length,
                    int64_t at) {
  const int64_t from = std::max<int64_t>(start, 0);
  const int64_t limit = std::min(start + length, size);
  if (from < limit) parts[part].push_back({source, from, limit - from, at + from - start});
}

int64_t HaloPlan::sent() const { return Sent(rounds); }

int64_t HaloPlan::permutes() const {
  return std::count_if(rounds.begin(), rounds.end(), [](const HaloRound& r) { return !r.local; });
}

Traffic HaloPlan::traffic(double row_bytes) const {
  if (too_wide) return {0, std::numeric_limits<double>::infinity()};
  return {static_cast<double>(permutes()) * kPermutePrice, static_cast<double>(sent()) * row_bytes};
}

HaloPlan PlanHalo(const HaloNeeds& needs, absl::Span<const int64_t> tiles) {
  HaloPlan plan;
  plan.width = needs.width;
  plan.parts = static_cast<int>(needs.parts.size());
  const std::vector<HaloMove> moves = CutAtTiles(needs, tiles);
  plan.too_wide = moves.size() > (kMaxTiles + 1) * needs.parts.size();
  if (plan.too_wide) return plan;
  plan.rounds = ByDistance(moves, plan.parts, /*local=*/true);
  std::vector<HaloRound> shifts = ByDistance(moves, plan.parts, /*local=*/false);
  if (std::vector<HaloRound> fit = FirstFit(moves, plan.parts);
      std::pair(Sent(fit), fit.size()) < std::pair(Sent(shifts), shifts.size())) {
    shifts = std::move(fit);
  }
  if (auto rounds = WithKept(shifts, moves, tiles)) {
    plan.rounds = *std::move(rounds);
    return plan;
  }
  for (HaloRound& round : shifts) plan.rounds.push_back(std::move(round));
  return plan;
}

}  // namespace shardway::spmd
