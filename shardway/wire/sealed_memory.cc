#include "shardway/wire/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace shardway::wire {

absl::Status ErrnoStatus(int error, const char* what) { return absl::ErrnoToStatus(error, what); }

absl::StatusOr<UniqueFd> CreateSealedMemory(const char* name, uint64_t bytes) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return ErrnoStatus(errno, "ftruncate");
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "sealing shared memory");
  }
  return fd;
}

absl::Status CheckSealedMemory(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::InvalidArgumentError("the shared memory received is not sealed against shrinking");
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "fstat");
  if (static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the shared memory received has ", info.st_size,
                                                   " bytes where ", bytes, " were announced"));
  }
  return absl::OkStatus();
}

}  // namespace shardway::wire
