"""Programs that only change a sharding, written as StableHLO: nothing is traced for them.

The user's program is what JAX's caches and counters of traces and compilations are about; a copy that a
device_put needs is none of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import numpy as np
from jax._src import compiler, core
from jax._src.interpreters import mlir, pxla
from jax.sharding import NamedSharding


def _attributes(sharding: NamedSharding, ndim: int) -> str:
    said = [f'mhlo.sharding = "{sharding._to_xla_hlo_sharding(ndim)}"']
    default = sharding._device_assignment[0].default_memory().kind
    if sharding.memory_kind not in (None, default):
        said.append(f'mhlo.memory_kind = "{sharding.memory_kind}"')
    return "{" + ", ".join(said) + "}"


@functools.lru_cache(maxsize=512)
def resharding(
    aval: core.ShapedArray, source: NamedSharding, target: NamedSharding
) -> Callable[[jax.Array], jax.Array]:
    """Makes `target`'s array of `source`'s, both on the same devices in the same order."""
    devices = source._internal_device_list
    backend = source._device_assignment[0].client
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=source.num_devices,
        device_assignment=np.array([[d.id for d in source._device_assignment]]),
        backend=backend,
    )
    options.executable_build_options.use_shardy_partitioner = False  # as the text has it
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        kind = mlir.ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))
        before, after = (_attributes(sharding, aval.ndim) for sharding in (source, target))
        module = mlir.ir.Module.parse(
            f"""module @reshard attributes {{mhlo.num_partitions = {source.num_devices} : i32}} {{
              func.func public @main(%x: {kind} {before}) -> ({kind} {after}) {{
                return %x : {kind}
              }}
            }}"""
        )
        program = backend.compile_and_load(module, devices, options)
    result = core.update_aval_with_sharding(aval, target)
    handler = pxla.global_aval_to_result_handler(result, target, True)

    def reshard(x: jax.Array) -> jax.Array:
        made: jax.Array = program.execute_sharded([x]).consume_with_handlers([handler])[0]
        return made

    return reshard
