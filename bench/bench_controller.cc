// What one run costs the controller: accepted, scheduled, serialized for its host, and counted as
// ended. No channels, no threads.
#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "shardway/controller/core.h"

namespace shardway::controller {
namespace {

class NullPort : public WorkerPort {
 public:
  absl::Status Send(std::string_view message, int) override {
    bytes += message.size();
    return absl::OkStatus();
  }
  size_t bytes = 0;
};

class NullSink : public SessionSink {
 public:
  void Deliver(SessionEvents) override {}
};

// state.range(0): hosts; state.range(1): arguments and results.
void BM_Run(benchmark::State& state) {
  const int hosts = static_cast<int>(state.range(0));
  const int values = static_cast<int>(state.range(1));
  const TimePoint now = Clock::Real()->Now();
  const auto topology = *topology::Topology::Create({.islands = 1, .hosts = hosts, .devices = 8});
  std::vector<NullPort> null_ports(hosts);
  std::vector<WorkerPort*> ports;
  for (NullPort& port : null_ports) {
    ports.push_back(&port);
  }
  Core core(topology, ports, {});
  const SessionId session =
      core.OpenSession("bench", std::make_shared<NullSink>(), int64_t{1} << 40, -1, 1 << 20);
  std::vector<CompileTask> tasks;
  wire::ClientMessage message;
  wire::Compile& compile = *message.mutable_compile();
  compile.set_program(1);
  compile.mutable_options()->set_num_replicas(1);
  compile.mutable_options()->set_num_partitions(topology.num_devices());
  for (int i = 0; i < topology.num_devices(); ++i) {
    compile.mutable_options()->add_devices(i);
  }
  core.Handle(session, message, now, &tasks).IgnoreError();
  auto program = std::make_shared<compile::Partitioned>();
  program->num_partitions = topology.num_devices();
  for (int i = 0; i < values; ++i) {
    program->parameters.push_back({.element = ElementType::kF32, .local_dims = {16}});
  }
  program->results = program->parameters;
  core.ProgramCompiled(tasks.at(0), program::ProgramPtr(program));

  uint64_t seq = 0;
  uint64_t next = 1;
  wire::PutArray& put = *message.mutable_put();
  for (int i = 0; i < values; ++i) {
    put.set_seq(++seq);
    put.set_array(next++);
    put.set_element(static_cast<uint32_t>(ElementType::kF32));
    put.mutable_shard_dims()->Clear();
    put.add_shard_dims(16);
    put.mutable_devices()->Clear();
    for (int device = 0; device < topology.num_devices(); ++device) {
      put.add_devices(device);
    }
    wire::ClientMessage copy = message;
    core.Handle(session, copy, now, &tasks).IgnoreError();
  }
  uint64_t op = 1 + values;  // the numbers of operations are dense from 1
  wire::ClientMessage free;
  wire::FromWorker done;
  constexpr int kPerTurn = 16;
  for (auto _ : state) {
    done.mutable_done()->mutable_ids()->Clear();
    free.mutable_free()->mutable_arrays()->Clear();
    for (int i = 0; i < kPerTurn; ++i) {
      wire::Run& run = *message.mutable_run();
      run.Clear();
      run.set_seq(++seq);
      run.set_program(1);
      for (int v = 0; v < values; ++v) {
        run.add_arguments(next - values + v);
        free.mutable_free()->add_arrays(next - values + v);
      }
      for (int v = 0; v < values; ++v) {
        run.add_results(next++);
      }
      core.Handle(session, message, now, &tasks).IgnoreError();
      done.mutable_done()->add_ids(op++);
    }
    core.Handle(session, free, now, &tasks).IgnoreError();
    core.EndTurn(now);
    for (int host = 0; host < hosts; ++host) {
      wire::FromWorker copy = done;
      core.WorkerSaid(host, copy, now);
    }
    core.EndTurn(now);
    benchmark::DoNotOptimize(core.TakeEvents());
  }
  state.SetItemsProcessed(state.iterations() * kPerTurn);
  if (core.operations_in_flight() > static_cast<size_t>(values)) {
    state.SkipWithError("runs were left in flight");
  }
}
BENCHMARK(BM_Run)->Args({1, 1})->Args({8, 1})->Args({1, 32})->Args({8, 32});

}  // namespace
}  // namespace shardway::controller
