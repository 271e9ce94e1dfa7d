// LAPACKE's routines as overloads on the element type, so that each handler is written once.
// Matrix layout is always column-major. Errors as in LAPACK: the returned info.
#pragma once

#include <cblas.h>
#include <lapacke.h>

#include "shardway/device/lapack/matrices.h"

namespace shardway::device::lapack {

template <typename T>
struct Routines;

// Everything that real and complex element types have in common but for the letter in the name.
#define SHARDWAY_LAPACK_COMMON_(T, C, p)                                                          \
  static C* cast(T* x) { return reinterpret_cast<C*>(x); }                                        \
  static lapack_int potrf(char uplo, lapack_int n, T* a, lapack_int lda) {                        \
    return LAPACKE_##p##potrf(LAPACK_COL_MAJOR, uplo, n, cast(a), lda);                           \
  }                                                                                               \
  static lapack_int getrf(lapack_int m, lapack_int n, T* a, lapack_int lda, lapack_int* pivots) { \
    return LAPACKE_##p##getrf(LAPACK_COL_MAJOR, m, n, cast(a), lda, pivots);                      \
  }                                                                                               \
  static lapack_int geqrf(lapack_int m, lapack_int n, T* a, lapack_int lda, T* tau) {             \
    return LAPACKE_##p##geqrf(LAPACK_COL_MAJOR, m, n, cast(a), lda, cast(tau));                   \
  }                                                                                               \
  static lapack_int geqp3(lapack_int m, lapack_int n, T* a, lapack_int lda, lapack_int* jpvt,     \
                          T* tau) {                                                               \
    return LAPACKE_##p##geqp3(LAPACK_COL_MAJOR, m, n, cast(a), lda, jpvt, cast(tau));             \
  }                                                                                               \
  static lapack_int gehrd(lapack_int n, lapack_int low, lapack_int high, T* a, lapack_int lda,    \
                          T* tau) {                                                               \
    return LAPACKE_##p##gehrd(LAPACK_COL_MAJOR, n, low, high, cast(a), lda, cast(tau));           \
  }                                                                                               \
  static lapack_int gtsv(lapack_int n, lapack_int nrhs, T* dl, T* d, T* du, T* b,                 \
                         lapack_int ldb) {                                                        \
    return LAPACKE_##p##gtsv(LAPACK_COL_MAJOR, n, nrhs, cast(dl), cast(d), cast(du), cast(b),     \
                             ldb);                                                                \
  }                                                                                               \
  static lapack_int gesdd(char job, lapack_int m, lapack_int n, T* a, lapack_int lda, Real* s,    \
                          T* u, lapack_int ldu, T* vt, lapack_int ldvt) {                         \
    return LAPACKE_##p##gesdd(LAPACK_COL_MAJOR, job, m, n, cast(a), lda, s, cast(u), ldu,         \
                              cast(vt), ldvt);                                                    \
  }                                                                                               \
  static lapack_int gesvd(char job, lapack_int m, lapack_int n, T* a, lapack_int lda, Real* s,    \
                          T* u, lapack_int ldu, T* vt, lapack_int ldvt, Real* superb) {           \
    return LAPACKE_##p##gesvd(LAPACK_COL_MAJOR, job, job, m, n, cast(a), lda, s, cast(u), ldu,    \
                              cast(vt), ldvt, superb);                                            \
  }

// Routines whose name differs between real and complex: orthogonal/unitary, symmetric/Hermitian.
#define SHARDWAY_LAPACK_NAMED_(T, p, org, orm, syevd_name, sytrd_name)                             \
  static lapack_int orgqr(lapack_int m, lapack_int n, lapack_int k, T* a, lapack_int lda,          \
                          T* tau) {                                                                \
    return LAPACKE_##org(LAPACK_COL_MAJOR, m, n, k, cast(a), lda, cast(tau));                      \
  }                                                                                                \
  static lapack_int ormqr(char side, char trans, lapack_int m, lapack_int n, lapack_int k, T* a,   \
                          lapack_int lda, T* tau, T* c, lapack_int ldc) {                          \
    return LAPACKE_##orm(LAPACK_COL_MAJOR, side, trans, m, n, k, cast(a), lda, cast(tau), cast(c), \
                         ldc);                                                                     \
  }                                                                                                \
  static lapack_int syevd(char job, char uplo, lapack_int n, T* a, lapack_int lda, Real* w) {      \
    return LAPACKE_##syevd_name(LAPACK_COL_MAJOR, job, uplo, n, cast(a), lda, w);                  \
  }                                                                                                \
  static lapack_int sytrd(char uplo, lapack_int n, T* a, lapack_int lda, Real* d, Real* e,         \
                          T* tau) {                                                                \
    return LAPACKE_##sytrd_name(LAPACK_COL_MAJOR, uplo, n, cast(a), lda, d, e, cast(tau));         \
  }

#define SHARDWAY_LAPACK_REAL_(T, p)                                                               \
  template <>                                                                                     \
  struct Routines<T> {                                                                            \
    using Real = T;                                                                               \
    static constexpr bool kComplex = false;                                                       \
    SHARDWAY_LAPACK_COMMON_(T, T, p)                                                              \
    SHARDWAY_LAPACK_NAMED_(T, p, p##orgqr, p##ormqr, p##syevd, p##sytrd)                          \
    static lapack_int geev(char left, char right, lapack_int n, T* a, lapack_int lda, T* wr,      \
                           T* wi, T* vl, T* vr) {                                                 \
      return LAPACKE_##p##geev(LAPACK_COL_MAJOR, left, right, n, a, lda, wr, wi, vl, lda, vr,     \
                               lda);                                                              \
    }                                                                                             \
    static lapack_int gees(char job, lapack_int n, T* a, lapack_int lda, lapack_int* sdim, T* wr, \
                           T* wi, T* vs) {                                                        \
      return LAPACKE_##p##gees(LAPACK_COL_MAJOR, job, 'N', nullptr, n, a, lda, sdim, wr, wi, vs,  \
                               lda);                                                              \
    }                                                                                             \
    static void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag,    \
                     int m, int n, const T* a, int lda, T* b, int ldb) {                          \
      cblas_##p##trsm(CblasColMajor, side, uplo, trans, diag, m, n, T{1}, a, lda, b, ldb);        \
    }                                                                                             \
  };

#define SHARDWAY_LAPACK_COMPLEX_(T, R, C, p)                                                       \
  template <>                                                                                      \
  struct Routines<T> {                                                                             \
    using Real = R;                                                                                \
    static constexpr bool kComplex = true;                                                         \
    SHARDWAY_LAPACK_COMMON_(T, C, p)                                                               \
    SHARDWAY_LAPACK_NAMED_(T, p, p##ungqr, p##unmqr, p##heevd, p##hetrd)                           \
    static lapack_int geev(char left, char right, lapack_int n, T* a, lapack_int lda, T* w, T* vl, \
                           T* vr) {                                                                \
      return LAPACKE_##p##geev(LAPACK_COL_MAJOR, left, right, n, cast(a), lda, cast(w), cast(vl),  \
                               lda, cast(vr), lda);                                                \
    }                                                                                              \
    static lapack_int gees(char job, lapack_int n, T* a, lapack_int lda, lapack_int* sdim, T* w,   \
                           T* vs) {                                                                \
      return LAPACKE_##p##gees(LAPACK_COL_MAJOR, job, 'N', nullptr, n, cast(a), lda, sdim,         \
                               cast(w), cast(vs), lda);                                            \
    }                                                                                              \
    static void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag,     \
                     int m, int n, const T* a, int lda, T* b, int ldb) {                           \
      const T one{1};                                                                              \
      cblas_##p##trsm(CblasColMajor, side, uplo, trans, diag, m, n, &one, a, lda, b, ldb);         \
    }                                                                                              \
  };

SHARDWAY_LAPACK_REAL_(float, s)
SHARDWAY_LAPACK_REAL_(double, d)
SHARDWAY_LAPACK_COMPLEX_(Complex64, float, lapack_complex_float, c)
SHARDWAY_LAPACK_COMPLEX_(Complex128, double, lapack_complex_double, z)

#undef SHARDWAY_LAPACK_COMMON_
#undef SHARDWAY_LAPACK_NAMED_
#undef SHARDWAY_LAPACK_REAL_
#undef SHARDWAY_LAPACK_COMPLEX_

}  // namespace shardway::device::lapack
