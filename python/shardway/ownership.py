"""Whether a JAX backend is Shardway's: on CPU workers its platform is called `cpu`, as JAX's own is."""

from __future__ import annotations

from typing import Any


def is_ours(client: Any) -> bool:
    """`client`: a backend as JAX knows it, e.g. `device.client`; None is nobody's."""
    return client is not None and "shardway" in client.platform_version
