"""Pipeline parallelism as tensor sharding: `pipeline`.

All stages run as one vectorised program whose leading dimension is the stage; splitting that dimension
over a mesh axis puts each stage on its own devices, and the shift that hands a stage's output to the
next stage becomes a collective-permute. Nothing else in the program knows about the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tree = Any  # a pytree of arrays
Stage = Callable[[Tree, Any], Any]


def pipeline(
    stage_fn: Stage,
    params: Tree,
    microbatches: Any,
    *,
    mesh: Any,
    axis: str,
    repeats: int = 1,
) -> Any:
    """Applies all layers, one after the other, to every microbatch; stages work at the same time.

    `stage_fn(p, x)`: one layer, from an array (one microbatch) to one of the same shape and type.
    `params`: a pytree whose leaves have the layers as their leading dimension, L = repeats * stages of
    them, in the order of application. `microbatches`: array[M, …], M microbatches of any number; the
    result has its shape. `mesh`, `axis`: the mesh axis over which the stages are split; its size S
    divides L / repeats, the number of stages (one stage per device is usual).

    `repeats` 1 is GPipe: device s holds the layers of stage s, and after M + stages - 1 steps all is
    done. With more it is the circular schedule: layer l is on stage l % stages, each microbatch goes
    round `repeats` times, and the bubble shrinks to (stages - 1) / (M * repeats) of the work. A round
    takes as many microbatches as there are stages; others wait for the next one, so M is best a
    multiple of the number of stages (it is filled up to one).

    Raises ValueError that names the sizes when they do not fit. Differentiable.

    Source: GSPMD (arXiv 2105.04663) §3.3 and §5.2 (GPipe), circular schedule as in §3.3.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    from shardway.sharding import leave_out_of_tracebacks

    leave_out_of_tracebacks(__file__)
    layers = {leaf.shape[0] for leaf in jax.tree.leaves(params)}
    if len(layers) != 1:
        raise ValueError(f"pipeline: params of {sorted(layers)} layers; all leaves need the same")
    (count,) = layers
    if repeats < 1 or count % repeats:
        raise ValueError(f"pipeline: {count} layers are not {repeats} rounds of stages")
    stages = count // repeats
    if axis not in mesh.axis_names:
        raise ValueError(f"pipeline: the mesh has no axis {axis!r}, only {mesh.axis_names}")
    if stages % mesh.shape[axis]:
        raise ValueError(
            f"pipeline: {stages} stages do not divide over the axis {axis!r} of size"
            f" {mesh.shape[axis]}"
        )

    def split(x: jax.Array, dim: int) -> jax.Array:
        unconstrained = [PartitionSpec.UNCONSTRAINED] * x.ndim
        spec = PartitionSpec(*unconstrained[:dim], axis, *unconstrained[dim + 1 :])
        return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    # Layer r * stages + s belongs to stage s: [repeats, stages, …], split over the stages.
    rounds = jax.tree.map(lambda p: split(p.reshape(repeats, stages, *p.shape[1:]), 1), params)
    total = microbatches.shape[0]
    filled = -(-total // stages) * stages if repeats > 1 else total
    padded = jnp.pad(microbatches, [(0, filled - total)] + [(0, 0)] * (microbatches.ndim - 1))
    # Groups of `stages` microbatches go round together: number m of a group enters stage 0 for the
    # r-th time r * stages + m steps after the group, just when it comes back from the last stage.
    steps = filled * repeats + stages - 1
    apply = jax.vmap(stage_fn)
    first = (jnp.arange(stages) == 0).reshape(stages, *[1] * (padded.ndim - 1))

    def layers_of(turn: jax.Array) -> Tree:
        """For each stage the layer of its turn: [repeats, stages, …] → [stages, …]."""

        def pick(p: jax.Array) -> jax.Array:
            if repeats == 1:
                return p[0]
            chosen = jnp.arange(repeats)[:, None] == turn[None]
            chosen = chosen.reshape(repeats, stages, *[1] * (p.ndim - 2))
            return jnp.sum(jnp.where(chosen, p, jnp.zeros_like(p)), axis=0)

        return jax.tree.map(pick, rounds)

    def step(state: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        enters = t if repeats == 1 else t // (stages * repeats) * stages + t % stages
        fresh = jax.lax.dynamic_index_in_dim(padded, jnp.minimum(enters, filled - 1))
        takes_fresh = first & (t // stages % repeats == 0)
        # The shift: every stage takes over what the one before it made, the first one from the last.
        state = split(jnp.where(takes_fresh, fresh, jnp.roll(state, 1, axis=0)), 0)
        # What stage s works on entered s steps ago.
        turn = (t - jnp.arange(stages)) // stages % repeats
        state = split(apply(layers_of(turn), state), 0)
        return state, state

    start = split(jnp.zeros((stages, *padded.shape[1:]), padded.dtype), 0)
    _, states = jax.lax.scan(step, start, jnp.arange(steps, dtype=jnp.int32))
    # The last stage's outputs in the last turn, one step after the other.
    outputs = states[stages - 1 :, -1]
    if repeats > 1:
        outputs = outputs.reshape(-1, repeats, stages, *padded.shape[1:])[:, -1]
    return outputs.reshape(padded.shape)[:total]
