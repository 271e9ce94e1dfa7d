// What a message costs between two processes of this machine.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <string>

#include "shardway/wire/channel.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/socket.h"

namespace shardway::wire {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

enum class Peer { kEchoes, kSwallows };

// A channel to a forked child; it ends with the channel.
std::unique_ptr<Channel> StartPeer(Peer peer, Duration spin) {
  auto sockets = SocketPair();
  if (!sockets.ok()) return nullptr;
  const ChannelOptions options = {.spin = spin};
  if (fork() == 0) {
    sockets->first.Reset();
    auto channel = MakeSharedMemoryChannel(std::move(sockets->second), options);
    if (!channel.ok()) _exit(1);
    std::string_view bytes;
    std::string answer;
    while ((*channel)->ReceiveBytes(&bytes, kPatience).ok()) {
      if (peer == Peer::kSwallows && bytes != "?") continue;
      answer = bytes;
      if (!(*channel)->SendBytes(answer).ok()) break;
    }
    _exit(0);
  }
  sockets->second.Reset();
  auto channel = MakeSharedMemoryChannel(std::move(sockets->first), options);
  return channel.ok() ? *std::move(channel) : nullptr;
}

void AwaitPeer(Channel& channel) {
  std::string_view bytes;
  if (!channel.SendBytes("?").ok() || !channel.ReceiveBytes(&bytes, kPatience).ok()) abort();
}

ClientMessage RunMessage(int arguments) {
  ClientMessage message;
  Run* run = message.mutable_run();
  run->set_seq(123456);
  run->set_program(7);
  for (int i = 0; i < arguments; ++i) {
    run->add_arguments(1000 + i);
    run->add_results(2000 + i);
  }
  return message;
}

// One after the other, the reader keeping up or sleeping as it likes: the sender's cost.
void BM_Send(benchmark::State& state) {
  auto channel = StartPeer(Peer::kSwallows, Duration::zero());
  const ClientMessage message = RunMessage(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    if (!channel->Send(message).ok()) abort();
  }
  AwaitPeer(*channel);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Send)->Arg(1)->Arg(100)->UseRealTime();

// 32 messages for one wake.
void BM_SendBatch(benchmark::State& state) {
  auto channel = StartPeer(Peer::kSwallows, Duration::zero());
  const ClientMessage message = RunMessage(1);
  for (auto _ : state) {
    Batch batch(*channel);
    for (int i = 0; i < 32; ++i) {
      if (!channel->Send(message).ok()) abort();
    }
  }
  AwaitPeer(*channel);
  state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(BM_SendBatch)->UseRealTime();

// There and back; the argument: microseconds of spinning before sleep.
void BM_RoundTrip(benchmark::State& state) {
  auto channel = StartPeer(Peer::kEchoes, std::chrono::microseconds(state.range(0)));
  const std::string bytes(64, 'x');
  std::string_view answer;
  for (auto _ : state) {
    if (!channel->SendBytes(bytes).ok()) abort();
    if (!channel->ReceiveBytes(&answer, kPatience).ok()) abort();
  }
}
BENCHMARK(BM_RoundTrip)->Arg(0)->Arg(20)->UseRealTime();

void BM_Throughput(benchmark::State& state) {
  auto channel = StartPeer(Peer::kSwallows, Duration::zero());
  const std::string bytes(state.range(0), 'x');
  for (auto _ : state) {
    if (!channel->SendBytes(bytes).ok()) abort();
  }
  AwaitPeer(*channel);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Throughput)->Arg(64 << 10)->Arg(16 << 20)->UseRealTime();

}  // namespace
}  // namespace shardway::wire
