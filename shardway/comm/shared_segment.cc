#include "shardway/comm/shared_segment.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace shardway::comm {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t PageAlign(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

uint64_t DevicesOffset(int hosts) { return PageAlign(hosts * sizeof(Doorbell)); }
uint64_t MailboxesOffset(int hosts) {
  return DevicesOffset(hosts) + PageAlign(kMaxSegmentDevices * sizeof(DeviceState));
}
uint64_t ArenasOffset(int hosts) {
  return MailboxesOffset(hosts) + PageAlign(static_cast<uint64_t>(hosts) * hosts * sizeof(Mailbox));
}

}  // namespace

uint64_t SharedSegment::Bytes(int hosts) {
  return ArenasOffset(hosts) + static_cast<uint64_t>(hosts) * kArenaBytes;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Map(int fd, uint64_t bytes,
                                                                  int hosts) {
  if (hosts < 1 || hosts > kMaxSegmentHosts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shared memory for ", hosts, " hosts; one machine has 1 to ", kMaxSegmentHosts));
  }
  // Touching memory past the end of the file would be a signal, not an error.
  struct stat file {};
  if (::fstat(fd, &file) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory descriptor ", fd, ": ", std::strerror(errno)));
  }
  if (bytes < Bytes(hosts) || static_cast<uint64_t>(file.st_size) < Bytes(hosts)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", std::min<uint64_t>(bytes, file.st_size), " bytes; ",
                     hosts, " hosts need ", Bytes(hosts)));
  }
  void* memory =
      ::mmap(nullptr, Bytes(hosts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mapping ", Bytes(hosts), " bytes of shared memory: ", std::strerror(errno)));
  }
  ::madvise(memory, Bytes(hosts), MADV_DONTDUMP);
  return std::unique_ptr<SharedSegment>(
      new SharedSegment(static_cast<char*>(memory), Bytes(hosts), hosts));
}

SharedSegment::SharedSegment(char* memory, uint64_t bytes, int hosts)
    : memory_(memory),
      bytes_(bytes),
      hosts_(hosts),
      doorbells_(reinterpret_cast<Doorbell*>(memory)),
      devices_(reinterpret_cast<DeviceState*>(memory + DevicesOffset(hosts))),
      mailboxes_(reinterpret_cast<Mailbox*>(memory + MailboxesOffset(hosts))),
      arenas_(memory + ArenasOffset(hosts)) {}

SharedSegment::~SharedSegment() { ::munmap(memory_, bytes_); }

void SharedSegment::Ring(int to) {
  Doorbell& bell = doorbell(to);
  // Orders the messages before it against the sleeper's last look (see Sleep).
  StoreLoadFence();
  if (bell.sleeping.load(std::memory_order_relaxed) == 0) return;
  if (bell.sleeping.exchange(0, std::memory_order_acq_rel) == 0) return;
  bell.rings.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void SharedSegment::RingForMail(int to) {
  // Orders the messages before it against a poller's last look (see Transport::StopPolling).
  StoreLoadFence();
  if (doorbell(to).polling.load(std::memory_order_relaxed) == 0) Ring(to);
}

void SharedSegment::Wait(Doorbell& bell, uint32_t rings, int milliseconds) {
  const timespec timeout{milliseconds / 1000, milliseconds % 1000 * 1000000L};
  ::syscall(SYS_futex, &bell.rings, FUTEX_WAIT, rings, &timeout, nullptr, 0);
}

}  // namespace shardway::comm
