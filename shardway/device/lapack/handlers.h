// The LAPACK custom calls that JAX's lowering rules for platform "cpu" emit (`lapack_*_ffi` and
// `tridiagonal_solve_perturbed_ffi`), over LAPACKE. A worker registers them with its plugin.
#pragma once

#include <string_view>
#include <vector>

namespace shardway::device::lapack {

struct Handler {
  std::string_view target;  // the custom call's name; a literal
  void* function;           // XLA_FFI_Handler*
};

// All handlers. LAPACK itself is kept to the calling thread: parallelism comes from devices and
// batches.
std::vector<Handler> Handlers();

// The families, each in its file.
void AppendFactorizations(std::vector<Handler>& handlers);  // potrf getrf geqrf geqp3 orgqr ormqr
void AppendEigen(std::vector<Handler>& handlers);           // syevd geev gees gehrd sytrd
void AppendSvd(std::vector<Handler>& handlers);             // gesdd gesvd
void AppendSolvers(std::vector<Handler>& handlers);         // trsm gtsv, perturbed tridiagonal

}  // namespace shardway::device::lapack
