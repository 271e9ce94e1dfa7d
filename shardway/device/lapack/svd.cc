#include <vector>

#include "shardway/device/lapack/handlers.h"
#include "shardway/device/lapack/matrices.h"
#include "shardway/device/lapack/routines.h"

namespace shardway::device::lapack {
namespace {

// `mode` is LAPACK's job letter: 'A' all of U and Vᵀ, 'S' the first min(m, n), 'N' none. U and Vᵀ
// are allocated by JAX in every mode.
template <ffi::DataType type, ffi::DataType real, typename T, bool kDivideAndConquer>
ffi::Error Svd(Buffer<type> x, Result<type> out, Result<real> s, Result<type> u, Result<type> vt,
               IntResult info, uint8_t mode) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("svd", x));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("svd", *u));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("svd", *vt));
  CopyIfDifferent(x, out);
  using Real = typename Routines<T>::Real;
  const Matrices m = MatricesOf(x);
  const Matrices mu = MatricesOf(*u);
  const Matrices mvt = MatricesOf(*vt);
  const int64_t num_s = LastDimension(*s);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  Real* sigma = reinterpret_cast<Real*>(s->untyped_data());
  T* left = reinterpret_cast<T*>(u->untyped_data());
  T* right = reinterpret_cast<T*>(vt->untyped_data());
  std::vector<Real> superdiagonal(static_cast<size_t>(num_s) + 1);
  const char job = static_cast<char>(mode);
  for (int64_t i = 0; i < m.batch; ++i) {
    lapack_int result;
    if constexpr (kDivideAndConquer) {
      result = Routines<T>::gesdd(job, m.rows, m.columns, a, m.stride(), sigma, left, mu.stride(),
                                  right, mvt.stride());
    } else {
      result = Routines<T>::gesvd(job, m.rows, m.columns, a, m.stride(), sigma, left, mu.stride(),
                                  right, mvt.stride(), superdiagonal.data());
    }
    info->typed_data()[i] = result;
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo(kDivideAndConquer ? "gesdd" : "gesvd", result));
    a += m.size();
    sigma += num_s;
    left += mu.size();
    right += mvt.size();
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, ffi::DataType real, typename T>
void Append(std::vector<Handler>& handlers, const char* gesdd, const char* gesvd) {
  using X = Buffer<type>;
  const auto binding = [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Ret<X>()
        .template Ret<Buffer<real>>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>()
        .template Attr<uint8_t>("mode");
  };
  handlers.push_back(Define<Svd<type, real, T, true>>(gesdd, binding));
  handlers.push_back(Define<Svd<type, real, T, false>>(gesvd, binding));
}

}  // namespace

void AppendSvd(std::vector<Handler>& handlers) {
  Append<ffi::F32, ffi::F32, float>(handlers, "lapack_sgesdd_ffi", "lapack_sgesvd_ffi");
  Append<ffi::F64, ffi::F64, double>(handlers, "lapack_dgesdd_ffi", "lapack_dgesvd_ffi");
  Append<ffi::C64, ffi::F32, Complex64>(handlers, "lapack_cgesdd_ffi", "lapack_cgesvd_ffi");
  Append<ffi::C128, ffi::F64, Complex128>(handlers, "lapack_zgesdd_ffi", "lapack_zgesvd_ffi");
}

}  // namespace shardway::device::lapack
