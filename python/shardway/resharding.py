"""jax.device_put from one sharding to another, on the devices.

JAX reads an array back and sends it again when its shards have to be cut differently. install() has our
backend's arrays resharded by a program instead: on the devices that hold them, and then, when the
target is as many other devices, with one copy. What is left goes JAX's own way, through the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax._src import array as jax_array
from jax._src.lib import xla_client as xc
from jax.sharding import Mesh, NamedSharding

from shardway.ownership import is_ours
from shardway.reshard_program import resharding

_patched: list[Any] = []


def _on_devices_of(x: jax.Array, target: NamedSharding) -> NamedSharding:
    """`target` with the devices that hold `x` in the place of its own."""
    devices = np.array(x.sharding._device_assignment).reshape(target.mesh.devices.shape)
    mesh = Mesh(devices, target.mesh.axis_names, axis_types=target.mesh.axis_types)
    return NamedSharding(mesh, target.spec, memory_kind=target.memory_kind)


def _reshardable(source: Any, target: Any) -> bool:
    return (
        isinstance(source, NamedSharding)
        and isinstance(target, NamedSharding)
        and source.num_devices == target.num_devices
        and source.memory_kind == target.memory_kind
        and is_ours(source._device_assignment[0].client)
        and is_ours(target._device_assignment[0].client)
    )


def _cut(x: jax.Array, target: NamedSharding) -> jax.Array:
    """On the devices that hold `x`, whose order `target` shares."""
    return resharding(x.aval, x.sharding, target)(x)


def _reshard(x: jax.Array, target: NamedSharding) -> jax.Array:
    if x.sharding._device_assignment == target._device_assignment:
        return _cut(x, target)
    cut = _cut(x, _on_devices_of(x, target))
    devices = target._internal_device_list.addressable_device_list
    copy = xc.ArrayCopySemantics.REUSE_INPUT
    return xc.batched_copy_array_to_devices_with_sharding([cut], [devices], [target], [copy])[0]


def _slow_path(
    jax_slow_path: Callable[..., Any], x: jax.Array, devices: Any, indices: Any, sharding: Any
) -> Any:
    """Instead of jax._src.array.shard_sharded_device_array_slow_path."""
    if _reshardable(x.sharding, sharding):
        return _reshard(x, sharding)
    return jax_slow_path(x, devices, indices, sharding)


def install() -> None:
    """Once per process."""
    if _patched:
        return
    original = jax_array.shard_sharded_device_array_slow_path
    _patched.append(original)
    jax_array.shard_sharded_device_array_slow_path = functools.wraps(original)(
        functools.partial(_slow_path, original)
    )
