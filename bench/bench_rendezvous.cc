// What a collective costs below XLA: the rendezvous of devices that are plain threads, and the
// kernels.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <vector>

#include "shardway/comm/communicator_impl.h"
#include "shardway/comm/reduce.h"

namespace {

using shardway::ElementType;
using shardway::collective::Reduction;
using shardway::collective::Spec;
using shardway::comm::Call;
using shardway::comm::Communicator;
using shardway::comm::CommunicatorImpl;
using shardway::comm::Outcome;
using shardway::comm::ReduceFunction;

// A suspended device waits for its flag to change: no context of its own to restore.
class FlagRuntime : public shardway::comm::Runtime {
 public:
  struct alignas(64) Flag {
    std::atomic<uint32_t> resumed{0};
  };
  absl::StatusOr<uintptr_t> Suspend(void* context) override {
    return reinterpret_cast<uintptr_t>(context);
  }
  void Resume(uintptr_t token, const absl::Status&) override {
    auto& resumed = reinterpret_cast<Flag*>(token)->resumed;
    resumed.fetch_add(1, std::memory_order_release);
    resumed.notify_one();
  }
  bool Schedule(void*, void (*)(void*), void*) override { return false; }
};

struct World {
  World(int devices, int64_t elements) {
    Communicator::Options options;
    options.host_of_device.assign(devices, 0);
    std::vector<int> ids;
    for (int d = 0; d < devices; ++d) ids.push_back(d);
    options.local_devices = ids;
    communicator = *CommunicatorImpl::Create(options);
    Spec spec;
    spec.reduction = Reduction::kSum;
    spec.operands = spec.results = {{ElementType::kF32, {elements}}};
    spec.groups = {.mesh = {devices}, .axes = {0}};
    communicator->BeginLaunch(1, *communicator->Prepare({spec}, ids));
  }
  ~World() { communicator->EndLaunch(1); }

  std::unique_ptr<CommunicatorImpl> communicator;
};

World* world = nullptr;
FlagRuntime runtime;

// An all-reduce of `range(0)` floats between as many devices as the benchmark has threads.
void BM_AllReduce(benchmark::State& state) {
  const int64_t elements = state.range(0);
  if (state.thread_index() == 0) world = new World(state.threads(), elements);
  std::vector<float> in(elements, 1), out(elements);
  void* operand = in.data();
  void* result = out.data();
  FlagRuntime::Flag flag;
  // The first iteration's barrier publishes `world` to the other threads.
  for (auto _ : state) {
    const uint32_t before = flag.resumed.load(std::memory_order_relaxed);
    const Call call{.launch = 1,
                    .ordinal = state.thread_index(),
                    .site = 0,
                    .operands = absl::MakeConstSpan(&operand, 1),
                    .results = absl::MakeConstSpan(&result, 1),
                    .runtime = &runtime,
                    .context = &flag};
    const auto outcome = world->communicator->File(call);
    if (!outcome.ok()) {
      state.SkipWithError(std::string(outcome.status().message()).c_str());
      break;
    }
    if (*outcome == Outcome::kPending) flag.resumed.wait(before, std::memory_order_acquire);
  }
  state.SetBytesProcessed(state.iterations() * elements * static_cast<int64_t>(sizeof(float)));
  if (state.thread_index() == 0) delete world;
}
BENCHMARK(BM_AllReduce)->Arg(1)->Arg(1 << 20)->ThreadRange(1, 8)->UseRealTime();

// What every launch pays, whatever its collectives.
void BM_BeginAndEndLaunch(benchmark::State& state) {
  const int sites = static_cast<int>(state.range(0));
  Communicator::Options options;
  options.host_of_device.assign(8, 0);
  options.local_devices = {0, 1, 2, 3, 4, 5, 6, 7};
  auto communicator = *CommunicatorImpl::Create(options);
  std::vector<Spec> specs(sites);
  for (int site = 0; site < sites; ++site) {
    specs[site].site = site;
    specs[site].reduction = Reduction::kSum;
    specs[site].operands = specs[site].results = {{ElementType::kF32, {1}}};
    specs[site].groups = {.mesh = {8}, .axes = {0}};
  }
  auto program = *communicator->Prepare(specs, options.local_devices);
  int launch = 0;
  for (auto _ : state) {
    communicator->BeginLaunch(++launch, program);
    communicator->EndLaunch(launch);
  }
}
BENCHMARK(BM_BeginAndEndLaunch)->Arg(1)->Arg(128);

void Reduce(benchmark::State& state, ElementType type) {
  const int64_t count = state.range(0);
  const int64_t bytes = count * shardway::ElementBytes(type);
  const std::vector<char> a(bytes, 1), b(bytes, 2), c(bytes, 3), d(bytes, 4);
  std::vector<char> out(bytes);
  const std::vector<const char*> sources = {a.data(), b.data(), c.data(), d.data()};
  const ReduceFunction reduce = shardway::comm::FindReduce(type, Reduction::kSum);
  for (auto _ : state) {
    reduce(sources, count, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes * 4);
}
BENCHMARK_CAPTURE(Reduce, f32, ElementType::kF32)->Arg(1)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce, f64, ElementType::kF64)->Arg(1 << 18);
BENCHMARK_CAPTURE(Reduce, bf16, ElementType::kBF16)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce, f16, ElementType::kF16)->Arg(1 << 20);
BENCHMARK_CAPTURE(Reduce, f8E4M3FN, ElementType::kF8E4M3FN)->Arg(1 << 18);
BENCHMARK_CAPTURE(Reduce, i32, ElementType::kI32)->Arg(1 << 20);

}  // namespace
