#include <vector>

#include "shardway/device/lapack/handlers.h"
#include "shardway/device/lapack/matrices.h"
#include "shardway/device/lapack/routines.h"

// LAPACK's solver for (T - λI) with perturbed pivots has no C interface.
extern "C" {
void slagtf_(const int* n, float* a, const float* lambda, float* b, float* c, const float* tol,
             float* d, int* in, int* info);
void slagts_(const int* job, const int* n, const float* a, const float* b, const float* c,
             const float* d, const int* in, float* y, float* tol, int* info);
void dlagtf_(const int* n, double* a, const double* lambda, double* b, double* c, const double* tol,
             double* d, int* in, int* info);
void dlagts_(const int* job, const int* n, const double* a, const double* b, const double* c,
             const double* d, const int* in, double* y, double* tol, int* info);
}

namespace shardway::device::lapack {
namespace {

// Solves op(X) Y' = Y (side 'L') or Y' op(X) = Y (side 'R') for a triangular X.
template <ffi::DataType type, typename T>
ffi::Error Trsm(Buffer<type> x, Buffer<type> y, Result<type> out, uint8_t side, uint8_t uplo,
                uint8_t trans, uint8_t diag) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("trsm", x));
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("trsm", y));
  CopyIfDifferent(y, out);
  const Matrices triangle = MatricesOf(x);
  const Matrices m = MatricesOf(y);
  const T* a = reinterpret_cast<const T*>(x.untyped_data());
  T* b = reinterpret_cast<T*>(out->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i, a += triangle.size(), b += m.size()) {
    Routines<T>::trsm(side == 'L' ? CblasLeft : CblasRight, uplo == 'L' ? CblasLower : CblasUpper,
                      trans == 'N'   ? CblasNoTrans
                      : trans == 'T' ? CblasTrans
                                     : CblasConjTrans,
                      diag == 'U' ? CblasUnit : CblasNonUnit, m.rows, m.columns, a,
                      triangle.stride(), b, m.stride());
  }
  return ffi::Error::Success();
}

// dl, d, du have n entries each; dl[0] and du[n-1] are not part of the matrix.
template <ffi::DataType type, typename T>
ffi::Error Gtsv(Buffer<type> dl, Buffer<type> d, Buffer<type> du, Buffer<type> b,
                Result<type> dl_out, Result<type> d_out, Result<type> du_out, Result<type> b_out,
                IntResult info) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("gtsv", b));
  CopyIfDifferent(dl, dl_out);
  CopyIfDifferent(d, d_out);
  CopyIfDifferent(du, du_out);
  CopyIfDifferent(b, b_out);
  const Matrices m = MatricesOf(b);
  T* lower = reinterpret_cast<T*>(dl_out->untyped_data());
  T* diagonal = reinterpret_cast<T*>(d_out->untyped_data());
  T* upper = reinterpret_cast<T*>(du_out->untyped_data());
  T* x = reinterpret_cast<T*>(b_out->untyped_data());
  for (int64_t i = 0; i < m.batch; ++i) {
    info->typed_data()[i] =
        Routines<T>::gtsv(m.rows, m.columns, lower + 1, diagonal, upper, x, m.stride());
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("gtsv", info->typed_data()[i]));
    lower += m.rows;
    diagonal += m.rows;
    upper += m.rows;
    x += m.size();
  }
  return ffi::Error::Success();
}

void Lagtf(int n, float* a, float* b, float* c, float* d, int* in, int* info) {
  const float zero = 0;
  slagtf_(&n, a, &zero, b, c, &zero, d, in, info);
}
void Lagtf(int n, double* a, double* b, double* c, double* d, int* in, int* info) {
  const double zero = 0;
  dlagtf_(&n, a, &zero, b, c, &zero, d, in, info);
}
// Job -1: solve, perturbing pivots that would overflow the solution.
void Lagts(int n, const float* a, const float* b, const float* c, const float* d, const int* in,
           float* y, float* tolerance, int* info) {
  const int job = -1;
  slagts_(&job, &n, a, b, c, d, in, y, tolerance, info);
}
void Lagts(int n, const double* a, const double* b, const double* c, const double* d, const int* in,
           double* y, double* tolerance, int* info) {
  const int job = -1;
  dlagts_(&job, &n, a, b, c, d, in, y, tolerance, info);
}

template <typename T>
ffi::Error SolvePerturbed(const ffi::AnyBuffer& dl, const ffi::AnyBuffer& d,
                          const ffi::AnyBuffer& du, const ffi::AnyBuffer& b,
                          ffi::Result<ffi::AnyBuffer>& out) {
  CopyIfDifferent(b, out);
  const Matrices m = MatricesOf(b);
  const int n = m.rows;
  if (n == 0) return ffi::Error::Success();
  const T* lower = reinterpret_cast<const T*>(dl.untyped_data());
  const T* diagonal = reinterpret_cast<const T*>(d.untyped_data());
  const T* upper = reinterpret_cast<const T*>(du.untyped_data());
  T* x = reinterpret_cast<T*>(out->untyped_data());
  std::vector<T> factor_a(n), factor_b(n), factor_c(n), factor_d(n);
  std::vector<int> pivots(n);
  for (int64_t i = 0; i < m.batch; ++i, lower += n, diagonal += n, upper += n) {
    factor_a.assign(diagonal, diagonal + n);
    factor_b.assign(upper, upper + n);
    factor_c.assign(lower + 1, lower + n);
    factor_c.resize(n);
    int info = 0;
    Lagtf(n, factor_a.data(), factor_b.data(), factor_c.data(), factor_d.data(), pivots.data(),
          &info);
    SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("lagtf", info));
    for (lapack_int j = 0; j < m.columns; ++j, x += n) {
      T tolerance = 0;  // 0: LAPACK chooses it from the factors
      Lagts(n, factor_a.data(), factor_b.data(), factor_c.data(), factor_d.data(), pivots.data(), x,
            &tolerance, &info);
      SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckInfo("lagts", info));
    }
  }
  return ffi::Error::Success();
}

ffi::Error TridiagonalSolvePerturbed(ffi::AnyBuffer dl, ffi::AnyBuffer d, ffi::AnyBuffer du,
                                     ffi::AnyBuffer b, ffi::Result<ffi::AnyBuffer> out) {
  SHARDWAY_LAPACK_RETURN_IF_ERROR(CheckRank("tridiagonal_solve_perturbed", b));
  switch (b.element_type()) {
    case ffi::F32:
      return SolvePerturbed<float>(dl, d, du, b, out);
    case ffi::F64:
      return SolvePerturbed<double>(dl, d, du, b, out);
    default:
      return ffi::Error::InvalidArgument(
          "tridiagonal_solve with perturb_singular takes float32 and float64");
  }
}

template <ffi::DataType type, typename T>
void Append(std::vector<Handler>& handlers, const char* trsm, const char* gtsv) {
  using X = Buffer<type>;
  handlers.push_back(Define<Trsm<type, T>>(trsm, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Arg<X>()
        .template Ret<X>()
        .template Attr<uint8_t>("side")
        .template Attr<uint8_t>("uplo")
        .template Attr<uint8_t>("trans_x")
        .template Attr<uint8_t>("diag");
  }));
  handlers.push_back(Define<Gtsv<type, T>>(gtsv, [] {
    return ffi::Ffi::Bind()
        .template Arg<X>()
        .template Arg<X>()
        .template Arg<X>()
        .template Arg<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<X>()
        .template Ret<IntBuffer>();
  }));
}

}  // namespace

void AppendSolvers(std::vector<Handler>& handlers) {
  Append<ffi::F32, float>(handlers, "lapack_strsm_ffi", "lapack_sgtsv_ffi");
  Append<ffi::F64, double>(handlers, "lapack_dtrsm_ffi", "lapack_dgtsv_ffi");
  Append<ffi::C64, Complex64>(handlers, "lapack_ctrsm_ffi", "lapack_cgtsv_ffi");
  Append<ffi::C128, Complex128>(handlers, "lapack_ztrsm_ffi", "lapack_zgtsv_ffi");
  handlers.push_back(Define<TridiagonalSolvePerturbed>("tridiagonal_solve_perturbed_ffi", [] {
    return ffi::Ffi::Bind()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Arg<ffi::AnyBuffer>()
        .Ret<ffi::AnyBuffer>();
  }));
}

}  // namespace shardway::device::lapack
