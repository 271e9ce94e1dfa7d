#include "shardway/device/lapack/handlers.h"

#include <cblas.h>
#include <lapacke.h>

namespace shardway::device::lapack {

std::vector<Handler> Handlers() {
  // NaNs are the user's data: LAPACK must see them, not refuse them.
  LAPACKE_set_nancheck(0);
  openblas_set_num_threads(1);
  std::vector<Handler> handlers;
  AppendFactorizations(handlers);
  AppendEigen(handlers);
  AppendSvd(handlers);
  AppendSolvers(handlers);
  return handlers;
}

}  // namespace shardway::device::lapack
