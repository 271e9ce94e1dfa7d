#include "shardway/worker/transfers.h"

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shardway/base/ids.h"
#include "shardway/wire/protocol.h"
#include "shardway/wire/validate.h"
#include "shardway/worker/transfer_frame.h"

namespace shardway::worker {
namespace {

// Uploads and reads are memory copies: a few threads saturate the machine. Transfers between hosts
// wait for each other, once both have begun.
constexpr int kMemoryThreads = 2;
constexpr int kNetworkThreads = 64;

constexpr int kShardBits = 20;  // of a transfer's key

// Memory for a frame; a size that another process chose must not end this one.
struct Frame {
  explicit Frame(size_t bytes)
      : size(kFrameHeader + bytes), data(new (std::nothrow) char[kFrameHeader + bytes]) {}
  absl::Status status() const {
    if (data != nullptr) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a transfer of ", size, " bytes between hosts"));
  }
  absl::Span<char> span() { return {data.get(), size}; }
  char* shard() { return data.get() + kFrameHeader; }

  size_t size;
  std::unique_ptr<char[]> data;
};

}  // namespace

Transfers::Transfers(device::Client* devices, comm::Communicator* comm,
                     const HostTopology* topology, Outbox* outbox)
    : devices_(devices),
      comm_(comm),
      topology_(topology),
      outbox_(outbox),
      memory_pool_("transfer", kMemoryThreads),
      network_pool_(std::make_shared<TaskPool>("network", kNetworkThreads)) {}

void Transfers::Put(const wire::HostPut& message,
                    const std::shared_ptr<const wire::ArenaView>& arena,
                    const store::Array& array) {
  auto operation = std::make_shared<Operation>(message.op(), outbox_);
  const auto element = static_cast<ElementType>(message.element());
  const absl::StatusOr<uint64_t> bytes = wire::ShardBytes(message.element(), message.shard_dims());
  for (const auto& [index, shard] : array.locals()) {
    absl::StatusOr<absl::Span<const char>> data = absl::Span<const char>();
    const bool is_inline = message.offsets_size() == 0;
    if (!bytes.ok()) {
      data = bytes.status();
    } else if (is_inline) {
      const uint64_t begin = index < static_cast<uint32_t>(message.inline_shard_size())
                                 ? message.inline_shard(index) * *bytes
                                 : UINT64_MAX;
      if (begin > message.inline_data().size() || message.inline_data().size() - begin < *bytes) {
        data = absl::InvalidArgumentError(
            absl::StrCat("HostPut: shard ", index, " is not in the message's data"));
      } else {
        data = absl::MakeConstSpan(message.inline_data()).subspan(begin, *bytes);
      }
    } else {
      if (arena == nullptr || index >= static_cast<uint32_t>(message.offsets_size())) {
        data = absl::InvalidArgumentError(
            absl::StrCat("HostPut: there is no place in the arena for shard ", index));
      } else {
        data = arena->Block(message.offsets(index), *bytes);
      }
    }
    if (!data.ok()) {
      operation->Fail(data.status());
      shard->Poison(data.status());
      continue;
    }
    auto upload =
        [this, operation, shard = shard, element, data = *data,
         dims = std::vector<int64_t>(message.shard_dims().begin(), message.shard_dims().end()),
         arena] {
          auto buffer = devices_->FromHost(shard->device(), element, dims, data.data());
          if (buffer.ok()) {
            shard->Fulfil(*std::move(buffer));
          } else {
            operation->Fail(buffer.status());
            shard->Poison(buffer.status());
          }
        };
    // Small data is there sooner than a thread would be.
    if (is_inline) {
      upload();
    } else {
      memory_pool_.Submit(std::move(upload));
    }
  }
}

void Transfers::ReadDone(uint64_t request, const absl::Status& status, std::string data,
                         bool in_place) {
  wire::FromWorker reply;
  wire::ReadDone* done = reply.mutable_read_done();
  done->set_request(request);
  wire::ToProto(status, done->mutable_status());
  *done->mutable_data() = std::move(data);
  if (in_place) {
    outbox_->Send(reply);
  } else {
    outbox_->Post(std::move(reply));
  }
}

void Transfers::Read(const wire::HostRead& message,
                     const std::shared_ptr<const wire::ArenaView>& arena,
                     const std::shared_ptr<const store::Array>& array) {
  const uint64_t request = message.request();
  absl::Status status;
  const std::shared_ptr<store::Shard>* shard = nullptr;
  absl::Span<char> place;
  if (array == nullptr) {
    status = absl::NotFoundError(absl::StrCat("array ", LocalId(ArrayId{message.array()}).value,
                                              " is not on host ", topology_->host,
                                              ": it was never made, or deleted"));
  } else if (status = array->poison(); status.ok()) {
    shard = array->WithIndex(message.shard());
    if (shard == nullptr) {
      status = absl::NotFoundError(absl::StrCat("shard ", message.shard(), " of array ",
                                                LocalId(ArrayId{message.array()}).value,
                                                " is not on host ", topology_->host));
    } else if (message.size() > 0) {
      if (arena == nullptr) {
        status = absl::FailedPreconditionError("a read into the arena of a session without one");
      } else if (auto block = arena->Block(message.offset(), message.size()); block.ok()) {
        place = *block;
      } else {
        status = block.status();
      }
    }
  }
  if (!status.ok()) {
    ReadDone(request, status, {}, /*in_place=*/false);
    return;
  }
  (*shard)->OnResolved([this, request, place, arena, shard = *shard] {
    // Here, in the thread that made the shard: a later run may donate it.
    auto buffer = shard->Share();
    memory_pool_.Submit([this, request, place, arena, buffer = std::move(buffer)] {
      absl::Status status = buffer.status();
      std::string data;
      if (status.ok()) {
        const size_t size = (*buffer)->num_bytes();
        if (!place.empty() && place.size() < size) {
          status = absl::InvalidArgumentError(absl::StrCat("a shard of ", size,
                                                           " bytes does not fit its place of ",
                                                           place.size(), " in the arena"));
        } else if (place.empty() && size > wire::kMaxInlineBytes) {
          status = absl::InvalidArgumentError(
              absl::StrCat("a shard of ", size, " bytes is too large for an inline read"));
        } else if (place.empty()) {
          data.resize(size);
          status = (*buffer)->ToHost(data.data(), size);
          if (!status.ok()) data.clear();
        } else {
          status = (*buffer)->ToHost(place.data(), size);
        }
      }
      ReadDone(request, status, std::move(data), /*in_place=*/true);
    });
  });
}

void Transfers::Copy(const wire::HostCopy& message,
                     const std::shared_ptr<const store::Array>& source, const store::Array& array) {
  auto operation = std::make_shared<Operation>(message.op(), outbox_);
  const absl::StatusOr<uint64_t> bytes = wire::ShardBytes(message.element(), message.shard_dims());
  const absl::Status malformed =
      !bytes.ok() ? bytes.status()
      : message.source_devices_size() != message.devices_size()
          ? absl::InvalidArgumentError("HostCopy: sources and targets differ in number")
          : absl::OkStatus();
  if (!malformed.ok()) {
    operation->Fail(malformed);
    for (const auto& [index, shard] : array.locals()) shard->Poison(malformed);
    return;
  }
  for (int i = 0; i < message.devices_size(); ++i) {
    const int from = message.source_devices(i);
    const int to = message.devices(i);
    const bool from_here = topology_->Local(from) >= 0;
    const bool to_here = topology_->Local(to) >= 0;
    if (!from_here && !to_here) continue;
    std::shared_ptr<store::Shard> target;
    if (to_here) target = *array.WithIndex(i);
    std::shared_ptr<store::Shard> shard;
    if (from_here) {
      absl::Status missing;
      if (source == nullptr) {
        missing = absl::NotFoundError("the source of a copy was never made, or deleted");
      } else if (missing = source->poison(); missing.ok()) {
        if (const auto* found = source->WithIndex(i); found != nullptr) {
          shard = *found;
        } else {
          missing = absl::NotFoundError(
              absl::StrCat("shard ", i, " of the source of a copy is not ", "on device ", from));
        }
      }
      if (shard == nullptr) {
        shard = std::make_shared<store::Shard>(topology_->Local(from), nullptr);
        shard->Poison(missing);
      }
    }
    const uint64_t key = (message.op() << kShardBits) + i;
    if (from_here && to_here) {
      CopyLocally(std::move(shard), std::move(target), operation);
    } else if (from_here) {
      SendShard(std::move(shard), key, topology_->host_of_device[to], *bytes, operation);
    } else {
      const int from_host = topology_->Knows(from) ? topology_->host_of_device[from] : -1;
      ReceiveShard(message, key, from_host, *bytes, std::move(target), operation);
    }
  }
}

void Transfers::CopyLocally(std::shared_ptr<store::Shard> source,
                            std::shared_ptr<store::Shard> target,
                            std::shared_ptr<Operation> operation) {
  store::Shard* from = source.get();
  from->OnResolved([this, source = std::move(source), target = std::move(target),
                    operation = std::move(operation)]() mutable {
    auto buffer = source->Share();
    memory_pool_.Submit([this, buffer = std::move(buffer), target = std::move(target),
                         operation = std::move(operation)] {
      absl::Status status = buffer.status();
      if (status.ok()) {
        auto copy = devices_->CopyTo(**buffer, target->device());
        if (copy.ok())
          status = (*copy)->Await();  // so that a run never waits in XLA for it
        else
          status = copy.status();
        if (status.ok()) target->Fulfil(*std::move(copy));
      }
      if (!status.ok()) {
        operation->Fail(status);
        target->Poison(status);
      }
    });
  });
}

void Transfers::SendShard(std::shared_ptr<store::Shard> source, uint64_t key, int to_host,
                          size_t bytes, std::shared_ptr<Operation> operation) {
  store::Shard* from = source.get();
  from->OnResolved([this, source = std::move(source), key, to_host, bytes,
                    operation = std::move(operation)]() mutable {
    auto buffer = source->Share();
    network_pool_->Submit(
        [this, buffer = std::move(buffer), key, to_host, bytes, operation = std::move(operation)] {
          Frame frame(bytes);
          if (absl::Status status = frame.status(); !status.ok()) return operation->Fail(status);
          absl::Status status = buffer.status();
          if (status.ok()) status = (*buffer)->ToHost(frame.shard(), bytes);
          WriteFrameHeader(status, frame.span());
          const absl::Status sent = comm_->Send(key, to_host, frame.span());
          if (status.ok()) status = sent;
          if (!status.ok()) operation->Fail(status);
        });
  });
}

void Transfers::ReceiveShard(const wire::HostCopy& message, uint64_t key, int from_host,
                             size_t bytes, std::shared_ptr<store::Shard> target,
                             std::shared_ptr<Operation> operation) {
  // Without a thread while the source is being made: it may depend on transfers that come later.
  comm_->OnTransfer(
      key, from_host,
      [pool = std::weak_ptr<TaskPool>(network_pool_), comm = comm_, devices = devices_, key,
       from_host, bytes, target = std::move(target), operation = std::move(operation),
       element = static_cast<ElementType>(message.element()),
       dims = std::vector<int64_t>(message.shard_dims().begin(), message.shard_dims().end())] {
        auto threads = pool.lock();
        if (threads == nullptr) return;  // this host is ending
        threads->Submit([=] {
          Frame frame(bytes);
          absl::Status status = frame.status();
          if (status.ok()) status = comm->Receive(key, from_host, frame.span());
          if (status.ok()) status = ReadFrameHeader(frame.span());
          if (status.ok()) {
            auto buffer = devices->FromHost(target->device(), element, dims, frame.shard());
            status = buffer.status();
            if (buffer.ok()) target->Fulfil(*std::move(buffer));
          }
          if (!status.ok()) {
            operation->Fail(status);
            target->Poison(status);
          }
        });
      });
}

}  // namespace shardway::worker
