// Shared pieces of the LAPACK handlers: stacks of matrices in FFI buffers, and how a handler is
// defined.
//
// JAX asks for column-major matrices (it sets the custom call's layouts), so a buffer of shape
// [batch…, rows, columns] holds `batch` column-major matrices one after the other, ready for
// LAPACK. Handlers run on XLA's threads, hold no state and may run at the same time.
#pragma once

#include <lapacke.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "shardway/comm/ffi_version.h"
#include "shardway/device/lapack/handlers.h"
#include "xla/ffi/api/ffi.h"

namespace shardway::device::lapack {

namespace ffi = ::xla::ffi;

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;

template <ffi::DataType type>
using Buffer = ffi::Buffer<type>;
template <ffi::DataType type>
using Result = ffi::Result<ffi::Buffer<type>>;
using IntBuffer = ffi::Buffer<ffi::DataType::S32>;
using IntResult = ffi::Result<IntBuffer>;

static_assert(sizeof(lapack_int) == sizeof(int32_t), "JAX's pivots and infos are 32-bit");

// [batch…, rows, columns]
struct Matrices {
  int64_t batch = 1;
  lapack_int rows = 0;
  lapack_int columns = 0;
  int64_t size() const { return int64_t{rows} * columns; }
  // Leading dimension: LAPACK wants at least 1 even for an empty matrix.
  lapack_int stride() const { return rows > 0 ? rows : 1; }
};

template <typename AnyBuffer>
Matrices MatricesOf(const AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  Matrices m;
  for (size_t i = 0; i + 2 < dims.size(); ++i) m.batch *= dims[i];
  if (dims.size() >= 2) {
    m.rows = static_cast<lapack_int>(dims[dims.size() - 2]);
    m.columns = static_cast<lapack_int>(dims[dims.size() - 1]);
  }
  return m;
}

// The last dimension of [batch…, n].
template <typename AnyBuffer>
int64_t LastDimension(const AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  return dims.size() == 0 ? 0 : dims[dims.size() - 1];
}

// LAPACK works in place: the operand goes to where the result belongs, unless XLA aliased the two.
template <typename In, typename Out>
void CopyIfDifferent(const In& from, Out& to) {
  if (from.untyped_data() != to->untyped_data()) {
    std::memcpy(to->untyped_data(), from.untyped_data(), from.size_bytes());
  }
}

// An operand with fewer than two dimensions is a malformed program, not a crash.
template <typename AnyBuffer>
ffi::Error CheckRank(const char* routine, const AnyBuffer& buffer) {
  if (buffer.dimensions().size() >= 2) return ffi::Error::Success();
  return ffi::Error::InvalidArgument(std::string("lapack ") + routine +
                                     ": operand needs at least two dimensions");
}

// LAPACK reports a numerical failure by a positive info, which JAX turns into NaNs; a negative one
// means that our call itself was wrong.
inline ffi::Error CheckInfo(const char* routine, lapack_int info) {
  if (info >= 0) return ffi::Error::Success();
  return ffi::Error::Internal(std::string("lapack ") + routine + ": argument " +
                              std::to_string(-info) + " was refused");
}

// Makes a handler of `kImplementation`, whose operands, attributes and results `binding()`
// describes. (One static per instantiation holds XLA's decoder, made at the first call.)
template <auto kImplementation, typename Binding>
Handler Define(std::string_view target, Binding) {
  constexpr XLA_FFI_Handler* function = +[](XLA_FFI_CallFrame* frame) -> XLA_FFI_Error* {
    static auto* handler = Binding{}().To(kImplementation).release();
    XLA_FFI_Error* error = handler->Call(frame);
    if (XLA_FFI_Metadata* metadata = comm::MetadataOf(frame)) comm::AnswerVersion(frame, metadata);
    return error;
  };
  return {target, reinterpret_cast<void*>(function)};
}

}  // namespace shardway::device::lapack

#define SHARDWAY_LAPACK_RETURN_IF_ERROR(expr)                               \
  do {                                                                      \
    if (::xla::ffi::Error _error = (expr); _error.failure()) return _error; \
  } while (false)
