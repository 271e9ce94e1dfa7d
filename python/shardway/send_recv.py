"""jax.lax.psend and jax.lax.precv, which JAX lowers for GPUs only, for Shardway's devices.

They become StableHLO's send and recv, as on GPUs; the compiler pairs them (shardway/spmd/send_recv.h).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardway.ownership import is_ours


def _lower(ctx: Any, value: Any, *, axis_name: Any, perm: Any, name: str, out_shape: Any) -> Any:
    """`value`: the array of a psend, the token of a precv, which has an `out_shape` too."""
    from jax._src.interpreters import mlir
    from jax._src.lax import parallel
    from jax._src.lib.mlir.dialects import hlo

    pairs, channel = parallel._pcollectives_lowering_common(
        ctx, axis_name=axis_name, perm=perm, op_name=name
    )
    if not channel:
        raise NotImplementedError(f"{name} outside of jax.shard_map; jax.lax.ppermute works there")
    channel["source_target_pairs"] = mlir.dense_int_elements(pairs)
    if out_shape is None:
        return hlo.SendOp([value], hlo.create_token(), **channel).results
    kind = mlir.ir.RankedTensorType.get(out_shape.shape, mlir.dtype_to_ir_type(out_shape.dtype))
    return [hlo.RecvOp([kind, value.type], value, **channel).results[0]]


def install() -> None:
    """For Shardway's devices; elsewhere nothing changes."""
    from jax._src.interpreters import mlir
    from jax._src.lax import parallel

    def register(primitive: Any, name: str, usual: Any) -> None:
        def lower(
            ctx: Any, value: Any, *, out_shape: Any = None, **parameters: Any
        ) -> Sequence[Any]:
            if is_ours(ctx.module_context.get_backend(optional=True)):
                made: Sequence[Any] = _lower(
                    ctx, value, name=name, out_shape=out_shape, **parameters
                )
                return made
            if out_shape is not None:
                parameters["out_shape"] = out_shape
            refused: Sequence[Any] = usual(ctx, value, **parameters)
            return refused

        mlir.register_lowering(primitive, lower)

    if hasattr(parallel, "psend_p"):
        register(parallel.psend_p, "psend", parallel._psend_lowering)
        register(parallel.precv_p, "precv", parallel._precv_lowering)
