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
from jax.sharding import Mesh, NamedSharding, Sharding

_patched: list[Any] = []


def _is_ours(device: Any) -> bool:
    return "shardway" in device.client.platform_version


@functools.lru_cache(maxsize=512)
def _into(sharding: Sharding) -> Callable[[jax.Array], jax.Array]:
    def reshard(x: jax.Array) -> jax.Array:
        return x

    return jax.jit(reshard, out_shardings=sharding)


def _on_devices_of(x: jax.Array, target: NamedSharding) -> NamedSharding:
    """`target` with the devices that hold `x` in the place of its own."""
    devices = np.array(x.sharding._device_assignment).reshape(target.mesh.devices.shape)
    mesh = Mesh(devices, target.mesh.axis_names, axis_types=target.mesh.axis_types)
    return NamedSharding(mesh, target.spec, memory_kind=target.memory_kind)


def _reshard(
    jax_reshard: Callable[..., Any], x: jax.Array, devices: Any, indices: Any, sharding: Any
) -> Any:
    source = x.sharding
    if not (
        isinstance(source, NamedSharding)
        and isinstance(sharding, NamedSharding)
        and source.num_devices == sharding.num_devices
        and source.memory_kind == sharding.memory_kind
        and _is_ours(source._device_assignment[0])
        and _is_ours(sharding._device_assignment[0])
    ):
        return jax_reshard(x, devices, indices, sharding)
    if source._device_assignment == sharding._device_assignment:
        return _into(sharding)(x)
    return jax.device_put(_into(_on_devices_of(x, sharding))(x), sharding)


def install() -> None:
    """Once per process."""
    if not _patched:
        jax_reshard = jax_array.shard_sharded_device_array_slow_path
        _patched.append(jax_reshard)
        jax_array.shard_sharded_device_array_slow_path = functools.wraps(jax_reshard)(
            functools.partial(_reshard, jax_reshard)
        )
