// Makes earlier stores visible before later loads: "I have written; have you?" between two sides,
// of which at least one must see the other.
#pragma once

namespace shardway::comm {

inline void StoreLoadFence() {
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer doesn't model fences. Nothing here needs one for data: those go by acquire and
// release.
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#pragma GCC diagnostic pop
}

}  // namespace shardway::comm
