#include "shardway/device/lapack/handlers.h"
#include "shardway/device/lapack/matrices.h"
#include "shardway/device/lapack/routines.h"

namespace shardway::device::lapack {
namespace {

template <ffi::DataType type, typename T>
ffi::Error Potrf(Buffer<type> x, uint8_t uplo, Result<type> out, IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("potrf", x));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size()) {
    info->typed_data()[i] = Routines<T>::potrf(static_cast<char>(uplo), m.rows, a, m.stride());
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("potrf", info->typed_data()[i]));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Getrf(Buffer<type> x, Result<type> out, IntResult pivots, IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("getrf", x));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  const int64_t num_pivots = LastDimension(*pivots);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size()) {
    info->typed_data()[i] =
        Routines<T>::getrf(m.rows, m.columns, a, m.stride(), pivots->typed_data() + i * num_pivots);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("getrf", info->typed_data()[i]));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Geqrf(Buffer<type> x, Result<type> out, Result<type> tau) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("geqrf", x));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  const int64_t num_tau = LastDimension(*tau);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* t = reinterpret_cast<T*>(tau->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size(), t += num_tau) {
    SHARDWAY_LAPACK_RETURN_IF_ERROR(
        CheckInfo("geqrf", Routines<T>::geqrf(m.rows, m.columns, a, m.stride(), t)));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Geqp3(Buffer<type> x, IntBuffer jpvt, Result<type> out, IntResult jpvt_out,
                 Result<type> tau) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("geqp3", x));
  CopyIfDifferent(x, out);
  CopyIfDifferent(jpvt, jpvt_out);
  const Matrices m = MatricesOf(x);
  const int64_t num_tau = LastDimension(*tau);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* t = reinterpret_cast<T*>(tau->untyped_data());
  int32_t* pivots = jpvt_out->typed_data();
  for (int64_t i = 0; i < m.batch; ++i, a += m.size(), t += num_tau, pivots += m.columns) {
    SHARDWAY_LAPACK_RETURN_IF_ERROR(
        CheckInfo("geqp3", Routines<T>::geqp3(m.rows, m.columns, a, m.stride(), pivots, t)));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Orgqr(Buffer<type> x, Buffer<type> tau, Result<type> out) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("orgqr", x));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  const lapack_int k = static_cast<lapack_int>(LastDimension(tau));
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* t = reinterpret_cast<T*>(tau.untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size(), t += k) {
    SHARDWAY_LAPACK_RETURN_IF_ERROR(
        CheckInfo("orgqr", Routines<T>::orgqr(m.rows, m.columns, k, a, m.stride(), t)));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Ormqr(Buffer<type> a, Buffer<type> tau, Buffer<type> c, bool left, bool transpose,
                 Result<type> out) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("ormqr", a));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("ormqr", c));
  CopyIfDifferent(c, out);
  const Matrices reflectors = MatricesOf(a);
  const Matrices m = MatricesOf(c);
  const lapack_int k = static_cast<lapack_int>(LastDimension(tau));
  const char trans = !transpose ? 'N' : (Routines<T>::kComplex ? 'C' : 'T');
  T* r = reinterpret_cast<T*>(a.untyped_data());
  T* t = reinterpret_cast<T*>(tau.untyped_data());
  T* x = reinterpret_cast<T*>(out->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, r += reflectors.size(), t += k, x += m.size()) {
    SHARDWAY_LAPACK_RETURN_IF_ERROR(
        CheckInfo("ormqr", Routines<T>::ormqr(left ? 'L' : 'R', trans, m.rows, m.columns, k, r,
                                              reflectors.stride(), t, x, m.stride())));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
void Append(std::vector<Handler>& handlers, const char* potrf, const char* getrf, const char* geqrf,
            const char* geqp3, const char* orgqr, const char* ormqr) {
  using X = Buffer<type>;
  handlers.push_back(Define<Potrf<type, T>>(potrf, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("uplo")
        .template Ret<X>()
        .template Ret<IntBuffer>();
  }));
  handlers.push_back(Define<Getrf<type, T>>(getrf, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>()
        .template Ret<IntBuffer>();
  }));
  handlers.push_back(Define<Geqrf<type, T>>(geqrf, [] {
    return ffi::Ffi::Bind().template Arg<X>().template Ret<X>().template Ret<X>();
  }));
  handlers.push_back(Define<Geqp3<type, T>>(geqp3, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Arg<IntBuffer>()
        .template Ret<X>()
        .template Ret<IntBuffer>()
        .template Ret<X>();
  }));
  handlers.push_back(Define<Orgqr<type, T>>(orgqr, [] {
    return ffi::Ffi::Bind().template Arg<X>().template Arg<X>().template Ret<X>();
  }));
  handlers.push_back(Define<Ormqr<type, T>>(ormqr, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Arg<X>()
        .template Arg<X>()
        .template Attr<bool>("left")
        .template Attr<bool>("transpose")
        .template Ret<X>();
  }));
}

}  // namespace

void AppendFactorizations(std::vector<Handler>& handlers) {
  Append<ffi::F32, float>(handlers, "lapack_spotrf_ffi", "lapack_sgetrf_ffi", "lapack_sgeqrf_ffi",
                          "lapack_sgeqp3_ffi", "lapack_sorgqr_ffi", "lapack_sormqr_ffi");
  Append<ffi::F64, double>(handlers, "lapack_dpotrf_ffi", "lapack_dgetrf_ffi", "lapack_dgeqrf_ffi",
                           "lapack_dgeqp3_ffi", "lapack_dorgqr_ffi", "lapack_dormqr_ffi");
  Append<ffi::C64, Complex64>(handlers, "lapack_cpotrf_ffi", "lapack_cgetrf_ffi",
                              "lapack_cgeqrf_ffi", "lapack_cgeqp3_ffi", "lapack_cungqr_ffi",
                              "lapack_cunmqr_ffi");
  Append<ffi::C128, Complex128>(handlers, "lapack_zpotrf_ffi", "lapack_zgetrf_ffi",
                                "lapack_zgeqrf_ffi", "lapack_zgeqp3_ffi", "lapack_zungqr_ffi",
                                "lapack_zunmqr_ffi");
}

}  // namespace shardway::device::lapack
