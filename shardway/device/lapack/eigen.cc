#include <vector>

#include "shardway/device/lapack/handlers.h"
#include "shardway/device/lapack/matrices.h"
#include "shardway/device/lapack/routines.h"

namespace shardway::device::lapack {
namespace {

template <ffi::DataType type, ffi::DataType real, typename T>
ffi::Error Syevd(Buffer<type> x, uint8_t uplo, Result<type> out, Result<real> eigenvalues,
                 IntResult info, uint8_t mode) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("syevd", x));
  CopyIfDifferent(x, out);
  using Real = typename Routines<T>::Real;
  const Matrices m = MatricesOf(x);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  Real* w = reinterpret_cast<Real*>(eigenvalues->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size(), w += m.columns) {
    info->typed_data()[i] = Routines<T>::syevd(static_cast<char>(mode), static_cast<char>(uplo),
                                               m.columns, a, m.stride(), w);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("syevd", info->typed_data()[i]));
  }
  return ffi::Error::Success();
}

// LAPACK packs a conjugate pair of a real matrix's eigenvectors into two real columns: real part,
// then imaginary part, where the first eigenvalue of the pair has the positive imaginary part.
template <typename Real>
void UnpackEigenvectors(lapack_int n, const Real* imaginary, const Real* packed,
                        std::complex<Real>* unpacked) {
  for (lapack_int j = 0; j < n; ++j) {
    const Real* column = packed + int64_t{j} * n;
    std::complex<Real>* to = unpacked + int64_t{j} * n;
    if (imaginary[j] == 0 || j + 1 == n) {
      for (lapack_int i = 0; i < n; ++i) to[i] = column[i];
      continue;
    }
    for (lapack_int i = 0; i < n; ++i) {
      to[i] = {column[i], column[n + i]};
      to[n + i] = {column[i], -column[n + i]};
    }
    ++j;
  }
}

template <ffi::DataType type, ffi::DataType complex_type, typename T>
ffi::Error GeevReal(Buffer<type> x, uint8_t compute_left, uint8_t compute_right,
                    Result<type> eigenvalues_real, Result<type> eigenvalues_imaginary,
                    Result<complex_type> left, Result<complex_type> right, IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("geev", x));
  const Matrices m = MatricesOf(x);
  const lapack_int n = m.columns;
  const size_t size = static_cast<size_t>(m.size());
  std::vector<T> a(size), vl(size), vr(size);
  const T* from = reinterpret_cast<const T*>(x.untyped_data());
  T* wr = reinterpret_cast<T*>(eigenvalues_real->untyped_data());
  T* wi = reinterpret_cast<T*>(eigenvalues_imaginary->untyped_data());
  auto* l = reinterpret_cast<std::complex<T>*>(left->untyped_data());
  auto* r = reinterpret_cast<std::complex<T>*>(right->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    a.assign(from, from + size);  // geev destroys its operand, which XLA does not give us
    const lapack_int result =
        Routines<T>::geev(static_cast<char>(compute_left), static_cast<char>(compute_right), n,
                          a.data(), m.stride(), wr, wi, vl.data(), vr.data());
    info->typed_data()[i] = result;
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("geev", result));
    if (result == 0) {
      if (compute_left == 'V') UnpackEigenvectors(n, wi, vl.data(), l);
      if (compute_right == 'V') UnpackEigenvectors(n, wi, vr.data(), r);
    }
    from += size;
    wr += n;
    wi += n;
    l += size;
    r += size;
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error GeevComplex(Buffer<type> x, uint8_t compute_left, uint8_t compute_right,
                       Result<type> eigenvalues, Result<type> left, Result<type> right,
                       IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("geev", x));
  const Matrices m = MatricesOf(x);
  const size_t size = static_cast<size_t>(m.size());
  std::vector<T> a(size);
  const T* from = reinterpret_cast<const T*>(x.untyped_data());
  T* w = reinterpret_cast<T*>(eigenvalues->untyped_data());
  T* l = reinterpret_cast<T*>(left->untyped_data());
  T* r = reinterpret_cast<T*>(right->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    a.assign(from, from + size);
    info->typed_data()[i] =
        Routines<T>::geev(static_cast<char>(compute_left), static_cast<char>(compute_right),
                          m.columns, a.data(), m.stride(), w, l, r);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("geev", info->typed_data()[i]));
    from += size;
    w += m.columns;
    l += size;
    r += size;
  }
  return ffi::Error::Success();
}

// JAX never sorts (it refuses to lower that); `sort` other than 'N' is an error here.
ffi::Error CheckUnsorted(uint8_t sort) {
  if (sort == 'N') return ffi::Error::Success();
  return ffi::Error(
      ffi::ErrorCode::kUnimplemented,
      "lapack gees: sorting eigenvalues needs a callback, which a custom call has not");
}

template <ffi::DataType type, typename T>
ffi::Error GeesReal(Buffer<type> x, uint8_t mode, uint8_t sort, Result<type> out,
                    Result<type> vectors, Result<type> eigenvalues_real,
                    Result<type> eigenvalues_imaginary, IntResult selected, IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("gees", x));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckUnsorted(sort));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* vs = reinterpret_cast<T*>(vectors->untyped_data());
  T* wr = reinterpret_cast<T*>(eigenvalues_real->untyped_data());
  T* wi = reinterpret_cast<T*>(eigenvalues_imaginary->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    info->typed_data()[i] = Routines<T>::gees(static_cast<char>(mode), m.columns, a, m.stride(),
                                              selected->typed_data() + i, wr, wi, vs);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("gees", info->typed_data()[i]));
    a += m.size();
    vs += m.size();
    wr += m.columns;
    wi += m.columns;
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error GeesComplex(Buffer<type> x, uint8_t mode, uint8_t sort, Result<type> out,
                       Result<type> vectors, Result<type> eigenvalues, IntResult selected,
                       IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("gees", x));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckUnsorted(sort));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* vs = reinterpret_cast<T*>(vectors->untyped_data());
  T* w = reinterpret_cast<T*>(eigenvalues->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    info->typed_data()[i] = Routines<T>::gees(static_cast<char>(mode), m.columns, a, m.stride(),
                                              selected->typed_data() + i, w, vs);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("gees", info->typed_data()[i]));
    a += m.size();
    vs += m.size();
    w += m.columns;
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, typename T>
ffi::Error Gehrd(Buffer<type> x, int32_t low, int32_t high, Result<type> out, Result<type> tau,
                 IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("gehrd", x));
  CopyIfDifferent(x, out);
  const Matrices m = MatricesOf(x);
  const int64_t num_tau = LastDimension(*tau);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  T* t = reinterpret_cast<T*>(tau->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += m.size(), t += num_tau) {
    info->typed_data()[i] = Routines<T>::gehrd(m.columns, low, high, a, m.stride(), t);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("gehrd", info->typed_data()[i]));
  }
  return ffi::Error::Success();
}

template <ffi::DataType type, ffi::DataType real, typename T>
ffi::Error Sytrd(Buffer<type> x, uint8_t uplo, Result<type> out, Result<real> diagonal,
                 Result<real> off_diagonal, Result<type> tau, IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("sytrd", x));
  CopyIfDifferent(x, out);
  using Real = typename Routines<T>::Real;
  const Matrices m = MatricesOf(x);
  const int64_t num_off = LastDimension(*off_diagonal);
  const int64_t num_tau = LastDimension(*tau);
  T* a = reinterpret_cast<T*>(out->untyped_data());
  Real* d = reinterpret_cast<Real*>(diagonal->untyped_data());
  Real* e = reinterpret_cast<Real*>(off_diagonal->untyped_data());
  T* t = reinterpret_cast<T*>(tau->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    info->typed_data()[i] =
        Routines<T>::sytrd(static_cast<char>(uplo), m.columns, a, m.stride(), d, e, t);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("sytrd", info->typed_data()[i]));
    a += m.size();
    d += m.columns;
    e += num_off;
    t += num_tau;
  }
  return ffi::Error::Success();
}

// syevd, gehrd and sytrd: the same for real and complex.
template <ffi::DataType type, ffi::DataType real, typename T>
void AppendCommon(std::vector<Handler>& handlers, const char* syevd, const char* gehrd,
                  const char* sytrd) {
  using X = Buffer<type>;
  using R = Buffer<real>;
  handlers.push_back(Define<Syevd<type, real, T>>(syevd, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("uplo")
        .template Ret<X>()
        .template Ret<R>()
        .template Ret<IntBuffer>()
        .template Attr<uint8_t>("mode");
  }));
  handlers.push_back(Define<Gehrd<type, T>>(gehrd, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<int32_t>("low")
        .template Attr<int32_t>("high")
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>();
  }));
  handlers.push_back(Define<Sytrd<type, real, T>>(sytrd, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("uplo")
        .template Ret<X>()
        .template Ret<R>()
        .template Ret<R>()
        .template Ret<X>()
        .template Ret<IntBuffer>();
  }));
}

template <ffi::DataType type, ffi::DataType complex_type, typename T>
void AppendReal(std::vector<Handler>& handlers, const char* geev, const char* gees) {
  using X = Buffer<type>;
  using C = Buffer<complex_type>;
  handlers.push_back(Define<GeevReal<type, complex_type, T>>(geev, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("compute_left")
        .template Attr<uint8_t>("compute_right")
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<C>()
        .template Ret<C>()
        .template Ret<IntBuffer>();
  }));
  handlers.push_back(Define<GeesReal<type, T>>(gees, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("mode")
        .template Attr<uint8_t>("sort")
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>()
        .template Ret<IntBuffer>();
  }));
}

template <ffi::DataType type, typename T>
void AppendComplex(std::vector<Handler>& handlers, const char* geev, const char* gees) {
  using X = Buffer<type>;
  handlers.push_back(Define<GeevComplex<type, T>>(geev, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("compute_left")
        .template Attr<uint8_t>("compute_right")
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>();
  }));
  handlers.push_back(Define<GeesComplex<type, T>>(gees, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Attr<uint8_t>("mode")
        .template Attr<uint8_t>("sort")
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>()
        .template Ret<IntBuffer>();
  }));
}

}  // namespace

void AppendEigen(std::vector<Handler>& handlers) {
  AppendCommon<ffi::F32, ffi::F32, float>(handlers, "lapack_ssyevd_ffi", "lapack_sgehrd_ffi",
                                          "lapack_ssytrd_ffi");
  AppendCommon<ffi::F64, ffi::F64, double>(handlers, "lapack_dsyevd_ffi", "lapack_dgehrd_ffi",
                                           "lapack_dsytrd_ffi");
  AppendCommon<ffi::C64, ffi::F32, Complex64>(handlers, "lapack_cheevd_ffi", "lapack_cgehrd_ffi",
                                              "lapack_chetrd_ffi");
  AppendCommon<ffi::C128, ffi::F64, Complex128>(handlers, "lapack_zheevd_ffi", "lapack_zgehrd_ffi",
                                                "lapack_zhetrd_ffi");
  AppendReal<ffi::F32, ffi::C64, float>(handlers, "lapack_sgeev_ffi", "lapack_sgees_ffi");
  AppendReal<ffi::F64, ffi::C128, double>(handlers, "lapack_dgeev_ffi", "lapack_dgees_ffi");
  AppendComplex<ffi::C64, Complex64>(handlers, "lapack_cgeev_ffi", "lapack_cgees_ffi");
  AppendComplex<ffi::C128, Complex128>(handlers, "lapack_zgeev_ffi", "lapack_zgees_ffi");
}

}  // namespace shardway::device::lapack
