// What a call costs in the client, with a controller that reads everything and ends it at once.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "shardway/client/session.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/channel.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/session.pb.h"
#include "shardway/wire/socket.h"

namespace shardway::client {
namespace {

[[noreturn]] void PlayController(wire::UniqueFd socket) {
  auto channel = wire::MakeSharedMemoryChannel(std::move(socket));
  auto arena = wire::CreateArena(64 << 20);
  if (!channel.ok() || !arena.ok()) _exit(1);
  wire::ClientMessage message;
  wire::ServerMessage answer;
  answer.mutable_welcome()->set_protocol(wire::kSessionProtocol);
  answer.mutable_welcome()->set_arena_bytes(64 << 20);
  answer.mutable_welcome()->add_devices();
  if (!(*channel)->Send(answer, arena->get()).ok()) _exit(1);
  wire::Done* done = answer.mutable_done();
  while ((*channel)->Receive(&message, std::chrono::seconds(60)).ok()) {
    if (message.has_run()) done->add_seqs(message.run().seq());
    if (message.has_put()) done->add_seqs(message.put().seq());
    if (done->seqs().empty() || (*channel)->HasMore()) continue;
    if (!(*channel)->Send(answer).ok()) break;
    done->Clear();
  }
  _exit(0);
}

std::unique_ptr<Session> StartSession() {
  auto sockets = wire::SocketPair();
  if (!sockets.ok()) abort();
  if (fork() == 0) {
    sockets->first.Reset();
    PlayController(std::move(sockets->second));
  }
  sockets->second.Reset();
  auto session = Session::Connect("fd:" + std::to_string(sockets->first.Release()), {});
  if (!session.ok()) abort();
  return *std::move(session);
}

// A chain: each run takes the last one's results and frees them.
void BM_Run(benchmark::State& state) {
  auto session = StartSession();
  const int count = static_cast<int>(state.range(0));
  std::vector<ArrayId> arrays;
  for (int i = 0; i < count; ++i) arrays.push_back(session->Run({1}, {}, 1, {}, nullptr));
  for (auto _ : state) {
    const ArrayId first = session->Run({1}, arrays, count, {}, nullptr);
    for (int i = 0; i < count; ++i) {
      session->Free(arrays[i]);
      arrays[i] = {first.value + i};
    }
  }
}
BENCHMARK(BM_Run)->Arg(1)->Arg(10)->Arg(100)->UseRealTime();

void BM_IsReady(benchmark::State& state) {
  auto session = StartSession();
  const ArrayId array = session->Run({1}, {}, 1, {}, nullptr);
  for (auto _ : state) benchmark::DoNotOptimize(session->IsReady(array));
}
BENCHMARK(BM_IsReady);

void BM_Put(benchmark::State& state) {
  auto session = StartSession();
  const std::vector<char> bytes(state.range(0));
  const ArraySpec spec = {ElementType::kUI8, {state.range(0)}, {0}};
  const std::vector<HostShard> shards = {{bytes.data(), {}}};
  for (auto _ : state) {
    auto array = session->Put(spec, shards);
    if (!array.ok()) abort();
    session->Free(*array);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Put)->Arg(64)->Arg(1 << 20)->UseRealTime();

}  // namespace
}  // namespace shardway::client
