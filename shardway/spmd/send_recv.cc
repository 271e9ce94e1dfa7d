#include "shardway/spmd/send_recv.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "shardway/base/status_macros.h"
#include "shardway/ir/builder.h"
#include "shardway/ir/clone.h"
#include "shardway/spmd/effects.h"
#include "shardway/spmd/replace_uses.h"

namespace shardway::spmd {
namespace {

constexpr size_t kMaxRepeated = 100'000;  // operators

const std::vector<int64_t>& PairsOf(const ir::Op& op) { return op.IntList("source_target_pairs"); }

bool IsBetweenDevices(const ir::Op& op) {
  return (op.kind == ir::OpKind::kSend || op.kind == ir::OpKind::kRecv) &&
         !op.Bool("is_host_transfer") && !PairsOf(op).empty();
}

// Whether it can't be repeated by some devices ahead of others, or something in it can't.
bool NeedsAll(const ir::Op& op) {
  switch (op.kind) {
    case ir::OpKind::kAllReduce:
    case ir::OpKind::kAllGather:
    case ir::OpKind::kReduceScatter:
    case ir::OpKind::kAllToAll:
    case ir::OpKind::kCollectivePermute:
    case ir::OpKind::kCollectiveBroadcast:
    case ir::OpKind::kCrossReplicaSum:
      return true;
    default:
      break;
  }
  if (HasEffect(op) || IsConversion(op)) return true;
  return std::any_of(op.regions.begin(), op.regions.end(), [](const ir::Region* region) {
    return std::any_of(region->ops.begin(), region->ops.end(), [&](const ir::Op* inner) {
      return inner != region->terminator() && NeedsAll(*inner);
    });
  });
}

// "send of {0→1} at train.py:7"
std::string Named(const ir::Op& op) {
  std::string text = op.kind == ir::OpKind::kSend ? "send of {" : "recv of {";
  const auto& pairs = PairsOf(op);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", pairs[i], "→", pairs[i + 1]);
  }
  return absl::StrCat(text, "} at ", op.location->ToString());
}

bool Fit(const ir::Op& send, const ir::Op& recv) {
  return PairsOf(send) == PairsOf(recv) && send.Int("channel_id") == recv.Int("channel_id");
}

// How many hops the longest chain of pairs has; INVALID_ARGUMENT for a circle.
absl::StatusOr<int64_t> Hops(const ir::Op& op) {
  absl::flat_hash_map<int64_t, int64_t> to;
  absl::flat_hash_set<int64_t> targets;
  const auto& pairs = PairsOf(op);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (!to.emplace(pairs[i], pairs[i + 1]).second || !targets.insert(pairs[i + 1]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", Named(op), ": a device sends, and receives, once at most"));
    }
  }
  int64_t longest = 0;
  size_t seen = 0;
  for (const auto& [source, target] : to) {
    if (targets.contains(source)) continue;
    int64_t hops = 0;
    for (auto at = to.find(source); at != to.end(); at = to.find(at->second)) ++hops;
    longest = std::max(longest, hops);
    seen += hops;
  }
  if (seen < to.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the ", Named(op),
                                                   " goes in a circle, where each device waits for "
                                                   "another; jax.lax.ppermute moves all at once"));
  }
  return longest;
}

// Every value that `op` or something inside it uses.
template <typename Visit>
void ForUses(const ir::Op& op, const Visit& visit) {
  for (const ir::Value* v : op.operands) visit(v);
  for (const ir::Region* region : op.regions) {
    for (const ir::Op* inner : region->ops) ForUses(*inner, visit);
  }
}

// The transfers of one region.
class Pairing {
 public:
  Pairing(Program& program, ir::Region& region) : program_(program), region_(region) {}

  absl::Status Run() {
    for (ir::Op* op : region_.ops) {
      if (!IsBetweenDevices(*op)) continue;
      SHARDWAY_RETURN_IF_ERROR(Hops(*op).status());
      if (op->operands.size() != (op->kind == ir::OpKind::kSend ? 2 : 1) ||
          op->results.size() != (op->kind == ir::OpKind::kSend ? 1 : 2)) {
        return absl::UnimplementedError(
            absl::StrCat("the ", Named(*op), ": it must carry one array, and one token"));
      }
      (op->kind == ir::OpKind::kSend ? sends_ : recvs_).push_back(op);
    }
    for (ir::Op* recv : recvs_) SHARDWAY_RETURN_IF_ERROR(FindByToken(*recv));
    for (ir::Op* recv : recvs_) {
      if (!send_of_.contains(recv)) SHARDWAY_RETURN_IF_ERROR(FindTheOnlyOne(*recv));
    }
    for (const ir::Op* send : sends_) {
      if (!recv_of_.contains(send)) {
        return absl::InvalidArgumentError(
            absl::StrCat("nothing receives the ", Named(*send), Others(recvs_)));
      }
    }
    for (ir::Op* recv : recvs_) SHARDWAY_RETURN_IF_ERROR(Replace(*send_of_[recv], *recv));
    ReplaceUses(region_, tokens_);
    return absl::OkStatus();
  }

 private:
  // The transfers whose tokens `token` is made of, the nearest first.
  std::vector<ir::Op*> Chain(ir::Value* token) const {
    std::vector<ir::Op*> chain;
    absl::flat_hash_set<const ir::Value*> seen;
    std::vector<ir::Value*> left = {token};
    while (!left.empty()) {
      ir::Value* v = left.back();
      left.pop_back();
      ir::Op* op = v->def;
      if (!seen.insert(v).second || op == nullptr || op->parent != &region_) continue;
      if (op->kind == ir::OpKind::kOptimizationBarrier) {
        left.push_back(op->operand(v->index));
        continue;
      }
      if (IsBetweenDevices(*op)) chain.push_back(op);
      for (ir::Value* operand : op->operands) {
        if (operand->type.is_token()) left.push_back(operand);
      }
    }
    return chain;
  }

  absl::Status FindByToken(ir::Op& recv) {
    ir::Op* found = nullptr;
    for (ir::Op* op : Chain(recv.operand(0))) {
      if (op->kind != ir::OpKind::kSend || !Fit(*op, recv) || recv_of_.contains(op)) continue;
      if (found != nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("the ", Named(recv), " takes the tokens of the ", Named(*found),
                         " and of the ", Named(*op), ": which of them is it for?"));
      }
      found = op;
    }
    return found == nullptr ? absl::OkStatus() : Match(*found, recv);
  }

  absl::Status FindTheOnlyOne(ir::Op& recv) {
    for (const ir::Op* other : recvs_) {
      if (other != &recv && !send_of_.contains(other) && Fit(*other, recv)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the ", Named(recv), " and the ", Named(*other), " take no token of a send of theirs"));
      }
    }
    ir::Op* found = nullptr;
    for (ir::Op* send : sends_) {
      if (recv_of_.contains(send) || !Fit(*send, recv)) continue;
      if (found != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat("the ", Named(recv), " may be for the ",
                                                       Named(*found), " or for the ", Named(*send),
                                                       ": let it take the token of one"));
      }
      found = send;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("nothing sends for the ", Named(recv), Others(sends_)));
    }
    return Match(*found, recv);
  }

  // Those still free, for a message.
  std::string Others(const std::vector<ir::Op*>& ops) const {
    std::string text;
    for (const ir::Op* op : ops) {
      if (send_of_.contains(op) || recv_of_.contains(op)) continue;
      absl::StrAppend(&text, text.empty() ? "; there is a " : ", a ", Named(*op));
    }
    return text;
  }

  absl::Status Match(ir::Op& send, ir::Op& recv) {
    if (send.operand(0)->type != recv.result(0)->type) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", Named(recv), " is of a ", recv.result(0)->type.ToString(), ", the ",
                       Named(send), " of a ", send.operand(0)->type.ToString()));
    }
    send_of_[&recv] = &send;
    recv_of_[&send] = &recv;
    return absl::OkStatus();
  }

  // The recv becomes the permute, the send what is left of it: its token.
  absl::Status Replace(ir::Op& send, ir::Op& recv) {
    const auto pairs = PairsOf(recv);
    const int64_t channel = recv.Int("channel_id");
    SHARDWAY_ASSIGN_OR_RETURN(ir::Value * sent, Sent(send, recv));
    tokens_[recv.result(1)] = recv.operand(0);
    recv.kind = ir::OpKind::kCollectivePermute;
    recv.operands = {sent};
    recv.results.resize(1);
    recv.attributes = PermuteAttributes(pairs, channel);
    send.kind = ir::OpKind::kAfterAll;
    send.operands = {send.operand(1)};
    send.attributes.clear();
    return absl::OkStatus();
  }

  static ir::AttrDict PermuteAttributes(const std::vector<int64_t>& pairs, int64_t channel) {
    ir::AttrDict attributes;
    ir::Set(attributes, "channel_id", channel);
    ir::Set(attributes, "source_target_pairs", pairs);
    return attributes;
  }

  // The operand of the permute, which is there before the recv.
  absl::StatusOr<ir::Value*> Sent(const ir::Op& send, const ir::Op& recv) {
    const auto at = std::find(region_.ops.begin(), region_.ops.end(), &recv);
    const std::vector<ir::Op*> after(at + 1, region_.ops.end());
    // What of it the sent value is made of, in order.
    absl::flat_hash_set<const ir::Op*> later(after.begin(), after.end());
    absl::flat_hash_set<const ir::Op*> needed;
    bool of_received = false;
    const auto need = [&](const ir::Value* v) {
      of_received |= v == recv.result(0);
      if (v->def != nullptr && later.contains(v->def)) needed.insert(v->def);
    };
    need(send.operand(0));
    std::vector<const ir::Op*> between;
    for (size_t i = after.size(); i-- > 0;) {
      if (!needed.contains(after[i])) continue;
      if (NeedsAll(*after[i])) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the ", Named(send), " sends what the ", Named(recv), " brings, through ",
            std::string(ir::OpKindName(after[i]->kind)), " at ", after[i]->location->ToString(),
            ", in which all devices take part: none could begin"));
      }
      ForUses(*after[i], need);
      between.push_back(after[i]);
    }
    std::reverse(between.begin(), between.end());
    if (between.empty() && !of_received) return send.operand(0);
    SHARDWAY_ASSIGN_OR_RETURN(const int64_t hops, Hops(recv));
    return Repeat(send, recv, between, of_received ? hops : 1);
  }

  // The operators between recv and send, before the recv, `times` times.
  absl::StatusOr<ir::Value*> Repeat(const ir::Op& send, const ir::Op& recv,
                                    const std::vector<const ir::Op*>& between, int64_t times) {
    if (times * (between.size() + 1) > kMaxRepeated) {
      return absl::ResourceExhaustedError(absl::StrCat("what is between the ", Named(recv),
                                                       " and the ", Named(send),
                                                       " would be repeated ", times, " times"));
    }
    ir::Region* made = program_.module->NewRegion();
    ir::Builder b(program_.module.get(), made);
    b.set_location(recv.location);
    ir::Value* received = b.SplatInt(recv.result(0)->type, 0);
    Like(*recv.result(0), *received);
    ir::Value* sent = nullptr;
    for (int64_t i = 0; i < times; ++i) {
      if (i > 0) {
        received = b.Create(ir::OpKind::kCollectivePermute, {&sent, 1}, {&sent->type, 1},
                            PermuteAttributes(PairsOf(recv), recv.Int("channel_id")))
                       ->result();
        Like(*recv.result(0), *received);
      }
      ir::Cloner cloner(program_.module.get());
      cloner.Bind(recv.result(0), received);
      for (const ir::Op* op : between) cloner.CloneOp(*op, made);
      for (const auto& [from, to] : cloner.values()) {
        if (to != received) Like(*from, *to);
      }
      sent = cloner.Map(send.operand(0));
    }
    for (ir::Op* op : made->ops) op->parent = &region_;
    region_.ops.insert(std::find(region_.ops.begin(), region_.ops.end(), &recv), made->ops.begin(),
                       made->ops.end());
    made->ops.clear();
    return sent;
  }

  void Like(const ir::Value& from, const ir::Value& to) {
    program_.manual.resize(program_.module->num_values());
    program_.manual[to.id] = program_.manual[from.id];
    const auto at = program_.annotations.find(from.id);
    if (at == program_.annotations.end()) return;
    Annotation same = at->second;
    program_.annotations[to.id] = std::move(same);
  }

  Program& program_;
  ir::Region& region_;
  std::vector<ir::Op*> sends_, recvs_;
  absl::flat_hash_map<const ir::Op*, ir::Op*> send_of_, recv_of_;
  absl::flat_hash_map<const ir::Value*, ir::Value*> tokens_;  // of recvs: what they are now
};

absl::Status Pair(Program& program, ir::Region& region) {
  bool any = false;
  for (ir::Op* op : region.ops) {
    any |= IsBetweenDevices(*op);
    for (ir::Region* inner : op->regions) SHARDWAY_RETURN_IF_ERROR(Pair(program, *inner));
  }
  return any ? Pairing(program, region).Run() : absl::OkStatus();
}

}  // namespace

absl::Status PairTransfers(Program& program) {
  return Pair(program, *program.module->main()->body);
}

}  // namespace shardway::spmd
