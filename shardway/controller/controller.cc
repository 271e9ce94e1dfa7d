#include "shardway/controller/controller.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shardway/base/logging.h"
#include "shardway/base/status_macros.h"
#include "shardway/controller/measure_links.h"
#include "shardway/controller/outbox.h"
#include "shardway/wire/arena.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"

namespace shardway::controller {
namespace {

// Messages handled in one turn at most, so that no one holds the lock for long.
constexpr int kMaxMessagesPerTurn = 256;
constexpr Duration kTick = std::chrono::milliseconds(100);  // while something waits for its time
constexpr Duration kPingInterval = std::chrono::seconds(2);

int64_t MemoryOfMachine() {
  struct sysinfo info;
  if (sysinfo(&info) != 0) {
    return int64_t{1} << 40;
  }
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

}  // namespace

// A worker's channel, corked from its first message in a turn until the lock is released.
class Controller::Port : public WorkerPort {
 public:
  Port(wire::Channel* channel, std::vector<Port*>* to_wake)
      : channel_(channel), outbox_(channel), to_wake_(to_wake) {}

  absl::Status Send(std::string_view message, int fd) override {
    if (!corked_) {
      corked_ = true;
      channel_->Cork();
      to_wake_->push_back(this);
    }
    return outbox_.Send(message, fd);
  }
  // Outside turns, when no more will come.
  void SendLast(std::string_view message) { outbox_.Send(message).IgnoreError(); }
  void EndTurn() { corked_ = false; }
  void Wake() { channel_->Uncork(); }

 private:
  wire::Channel* const channel_;
  Outbox outbox_;
  std::vector<Port*>* const to_wake_;
  bool corked_ = false;
};

// Holds the controller's lock; clang's analysis knows it by the constructor's argument alone, so it
// doesn't look into the members.
class SHARDWAY_SCOPED_CAPABILITY Controller::Turn {
 public:
  explicit Turn(Controller* controller) SHARDWAY_ACQUIRE(controller->mutex_)
      : controller_(*controller), now_(controller->options_.clock->Now()) {
    controller->mutex_.Lock();
  }
  ~Turn() SHARDWAY_RELEASE() SHARDWAY_NO_THREAD_SAFETY_ANALYSIS {
    controller_.core_->EndTurn(now_);
    std::vector<Core::Delivery> deliveries = controller_.core_->TakeEvents();
    std::vector<Port*> to_wake;
    to_wake.swap(controller_.to_wake_);
    for (Port* port : to_wake) {
      port->EndTurn();
    }
    if (controller_.resting_ && !controller_.core_->idle()) {
      controller_.time_changed_.NotifyAll();
    }
    controller_.mutex_.Unlock();
    for (Port* port : to_wake) {
      port->Wake();
    }
    for (auto& [sink, events] : deliveries) {
      sink->Deliver(std::move(events));
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Core& core() SHARDWAY_NO_THREAD_SAFETY_ANALYSIS { return *controller_.core_; }
  TimePoint now() const { return now_; }

 private:
  Controller& controller_;
  const TimePoint now_;
};

absl::StatusOr<std::unique_ptr<Controller>> Controller::Start(ControllerOptions options) {
  SHARDWAY_ASSIGN_OR_RETURN(const topology::Topology topology,
                            topology::Topology::Create(options.shape));
  if (static_cast<int>(options.workers.size()) != topology.num_hosts()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.workers.size(), " workers for ", options.shape.ToString()));
  }
  auto controller = std::unique_ptr<Controller>(new Controller(std::move(options), topology));
  SHARDWAY_RETURN_IF_ERROR(controller->ConfigureWorkers());
  controller->SettleLinkPrices();
  controller->StartThreads();
  return controller;
}

Controller::Controller(ControllerOptions options, const topology::Topology& topology)
    : options_(std::move(options)), topology_(topology), last_heard_(topology.num_hosts()) {
  if (options_.memory_budget <= 0) {
    options_.memory_budget = MemoryOfMachine();
  }
  if (options_.arena_bytes == 0) {
    options_.arena_bytes = wire::DefaultArenaBytes();
  }
  std::vector<WorkerPort*> ports;
  for (const auto& channel : options_.workers) {
    ports_.push_back(std::make_unique<Port>(channel.get(), &to_wake_));
    ports.push_back(ports_.back().get());
  }
  core_ = std::make_unique<Core>(topology_, std::move(ports), options_.scheduler);
}

Controller::~Controller() {
  programs_.reset();
  Retire();
  wire::ToWorker message;
  message.set_shutdown(true);
  const std::string shutdown = message.SerializeAsString();
  for (size_t host = 0; host < ports_.size(); ++host) {
    ports_[host]->SendLast(shutdown);  // a frozen one learns it from the channel's end
    options_.workers[host]->Close();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void Controller::Retire() {
  MutexLock lock(mutex_);
  stopping_ = true;
  time_changed_.NotifyAll();
}

absl::Status Controller::ConfigureWorkers() {
  const std::vector<int> hosts_of_devices = topology_.HostsOfDevices();
  for (int host = 0; host < topology_.num_hosts(); ++host) {
    wire::ToWorker message;
    wire::Configure& configure = *message.mutable_configure();
    configure.set_protocol(wire::kWorkerProtocol);
    configure.set_host(host);
    const std::vector<int> devices = topology_.DevicesOfHost(host);
    configure.mutable_devices()->Assign(devices.begin(), devices.end());
    configure.mutable_hosts_of_devices()->Assign(hosts_of_devices.begin(), hosts_of_devices.end());
    configure.set_plugin_path(options_.plugin_path);
    configure.set_collective_timeout_ms(options_.collective_timeout / std::chrono::milliseconds(1));
    configure.set_callback_timeout_ms(options_.callback_timeout / std::chrono::milliseconds(1));
    configure.set_comm_bytes(options_.comm_bytes);
    for (const std::string& option : options_.plugin_options) {
      configure.add_plugin_options(option);
    }
    if (absl::Status sent = options_.workers[host]->Send(message, options_.comm_fd); !sent.ok()) {
      return NotReady(host, LossOf(host, sent));
    }
  }
  const TimePoint deadline = options_.clock->Now() + options_.ready_timeout;
  for (int host = 0; host < topology_.num_hosts(); ++host) {
    wire::FromWorker message;
    const Duration left = std::max(Duration(0), Duration(deadline - options_.clock->Now()));
    absl::Status status = options_.workers[host]->Receive(&message, left);
    if (absl::IsDeadlineExceeded(status)) {
      return absl::DeadlineExceededError(
          absl::StrCat("the worker of ", topology_.DescribeHost(host), " did not get ready within ",
                       options_.ready_timeout / std::chrono::seconds(1), " s"));
    }
    if (!status.ok()) {
      return NotReady(host, LossOf(host, status));
    }
    SHARDWAY_RETURN_IF_ERROR(wire::Validate(message, topology_.num_devices()));
    if (message.kind_case() != wire::FromWorker::kReady) {
      return absl::InternalError(absl::StrCat("the worker of ", topology_.DescribeHost(host),
                                              " did not begin with WorkerReady"));
    }
    if (absl::Status ready = wire::FromProto(message.ready().status()); !ready.ok()) {
      return NotReady(host, ready);
    }
    platform_ = message.ready().platform();
    platform_version_ = message.ready().platform_version();
  }
  return absl::OkStatus();
}

void Controller::SettleLinkPrices() {
  if (options_.link_prices) {
    link_prices_ = *options_.link_prices;
  } else if (const auto links = MeasureLinks(options_.workers, topology_, options_.link_timeout);
             links.ok()) {
    link_prices_ = topology::PricesOf(*links);
    LOG_INFO("links: {}; prices {}", links->ToString(), link_prices_.ToString());
  } else {
    LOG_WARN("links could not be measured, prices are assumed ({}): {}", link_prices_.ToString(),
             links.status().ToString());
  }
  MutexLock lock(mutex_);
  core_->SetLinkPrices(link_prices_);
}

void Controller::StartThreads() {
  programs_ = std::make_unique<ProgramStore>(options_.compile, options_.compile_threads);
  const int64_t now = options_.clock->Now().time_since_epoch().count();
  for (int host = 0; host < topology_.num_hosts(); ++host) {
    last_heard_[host] = now;
    threads_.emplace_back([this, host] { ReadWorker(host); });
  }
  threads_.emplace_back([this] { KeepTime(); });
}

absl::StatusOr<Controller::Opened> Controller::OpenSession(std::string name,
                                                           std::shared_ptr<SessionSink> sink,
                                                           int64_t memory_budget) {
  Opened opened;
  opened.arena_bytes = options_.arena_bytes;
  SHARDWAY_ASSIGN_OR_RETURN(opened.arena, wire::CreateArena(opened.arena_bytes));
  Turn turn(this);
  opened.id = turn.core().OpenSession(std::move(name), std::move(sink),
                                      memory_budget > 0 ? memory_budget : options_.memory_budget,
                                      opened.arena.get(), opened.arena_bytes);
  return opened;
}

void Controller::CloseSession(SessionId id) { Turn(this).core().CloseSession(id); }

absl::Status Controller::Handle(SessionId session, absl::Span<wire::ClientMessage> messages) {
  std::vector<CompileTask> tasks;
  absl::Status status;
  {
    Turn turn(this);
    for (wire::ClientMessage& message : messages) {
      status = turn.core().Handle(session, message, turn.now(), &tasks);
      if (!status.ok()) {
        break;
      }
    }
  }
  for (CompileTask& task : tasks) {
    compile::Request request = task.request;
    programs_->Get(std::move(request),
                   [this, task = std::move(task)](absl::StatusOr<program::ProgramPtr> result) {
                     Turn(this).core().ProgramCompiled(task, std::move(result));
                   });
  }
  return status;
}

void Controller::ReadWorker(int host) {
  wire::Channel& channel = *options_.workers[host];
  std::vector<wire::FromWorker> messages(kMaxMessagesPerTurn);
  for (;;) {
    int count = 0;
    absl::Status status;
    do {
      wire::FromWorker& message = messages[count];
      status = channel.Receive(&message, std::chrono::seconds(1));
      if (status.ok()) {
        status = wire::Validate(message, topology_.num_devices());
      }
      count += status.ok();
    } while (status.ok() && count < kMaxMessagesPerTurn && channel.HasMore());

    const bool over = !status.ok() && !absl::IsDeadlineExceeded(status);
    if (count > 0) {
      last_heard_[host].store(options_.clock->Now().time_since_epoch().count(),
                              std::memory_order_relaxed);
    }
    const absl::Status loss = over ? LossOf(host, status) : absl::OkStatus();
    if (count > 0 || over) {
      Turn turn(this);
      if (stopping_) {
        return;
      }
      for (int i = 0; i < count; ++i) {
        turn.core().WorkerSaid(host, messages[i], turn.now());
      }
      if (over) {
        turn.core().WorkerLost(host, loss, turn.now());
      }
    }
    if (over) {
      channel.Close();
      return;
    }
  }
}

void Controller::KeepTime() {
  wire::ToWorker ping;
  ping.set_ping(1);
  const Duration ping_interval = std::min<Duration>(kPingInterval, options_.worker_liveness / 4);
  TimePoint next_ping;
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!stopping_) {
        resting_ = core_->idle();
        time_changed_.WaitFor(mutex_, resting_ ? ping_interval : std::min(kTick, ping_interval));
        resting_ = false;
      }
      if (stopping_) {
        return;
      }
    }
    Turn turn(this);
    turn.core().Tick(turn.now());
    const TimePoint now = Clock::Real()->Now();
    if (now < next_ping) {
      continue;
    }
    next_ping = now + ping_interval;
    for (int host = 0; host < topology_.num_hosts(); ++host) {
      if (turn.core().lost(host)) {
        continue;
      }
      const TimePoint heard{Duration(last_heard_[host].load(std::memory_order_relaxed))};
      if (turn.now() - heard > options_.worker_liveness) {
        turn.core().WorkerLost(
            host,
            absl::UnavailableError(absl::StrCat(
                "it has not answered for ", (turn.now() - heard) / std::chrono::seconds(1), " s")),
            turn.now());
        options_.workers[host]->Close();
      } else {
        ports_[host]->Send(ping.SerializeAsString(), -1).IgnoreError();
      }
    }
  }
}

absl::Status Controller::LossOf(int host, const absl::Status& status) const {
  const std::string detail = options_.describe_loss ? options_.describe_loss(host) : "";
  return detail.empty() ? status : absl::Status(status.code(), detail);
}

absl::Status Controller::NotReady(int host, const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat("the worker of ", topology_.DescribeHost(host),
                                   " could not start: ", std::string(status.message())));
}

}  // namespace shardway::controller
