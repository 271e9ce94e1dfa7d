"""jax.custom_partitioning without its partitioner.

A function under `custom_partitioning` is an ordinary one, with a rule for partitioners that can't look
inside. Shardway's can: it gets the function's own operators and partitions those, so the rule isn't needed
and nothing has to call back into this process while it compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardway.ownership import is_ours


def install() -> None:
    """Has such functions lowered to their bodies for Shardway's devices; elsewhere nothing changes."""
    from jax._src import core, custom_partitioning
    from jax._src.interpreters import mlir

    primitive = custom_partitioning.custom_partitioning_p
    usual = custom_partitioning._custom_partitioning_lowering_rule

    def lower(ctx: Any, *values: Any, **parameters: Any) -> Sequence[Any]:
        if not is_ours(ctx.module_context.get_backend(optional=True)):
            return usual(ctx, *values, **parameters)
        body = core.jaxpr_as_fun(parameters["call"])
        return mlir.lower_fun(body, multiple_results=True)(ctx, *values)

    mlir.register_lowering(primitive, lower)
