"""Both releases of jaxlib that the plugin promises to serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = {"0.9.2": ".venv-jax-0.9.2/bin/python", "0.10.2": ".venv/bin/python"}

TRAIN = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    rng = np.random.default_rng(0)
    put = lambda x, *spec: jax.device_put(x.astype(np.float32), NamedSharding(mesh, P(*spec)))
    host = [rng.standard_normal(s) for s in ((16, 8), (8, 32), (32, 4), (16, 4))]
    x, w, v, y = (put(a, *s) for a, s in
                  zip(host, (("data",), (None, "model"), ("model",), ("data",))))

    def loss(w, v):
        return jnp.mean((jnp.tanh(x @ w) @ v - y) ** 2)

    step = jax.jit(lambda w, v: jax.value_and_grad(loss, argnums=(0, 1))(w, v))
    value, (dw, dv) = step(w, v)
    hidden = np.tanh(host[0] @ host[1])
    error = hidden @ host[2] - host[3]
    np.testing.assert_allclose(value, np.mean(error**2), rtol=1e-4)
    np.testing.assert_allclose(dv, hidden.T @ error * 2 / error.size, rtol=1e-3, atol=1e-4)
    total = jax.jit(jax.shard_map(lambda a: jax.lax.psum(a, "data"), mesh=mesh,
                                  in_specs=P("data"), out_specs=P()))(x)
    np.testing.assert_allclose(total, host[0].reshape(2, 8, 8).sum(0), rtol=1e-5)
    print(jax.__version__)
"""


@pytest.mark.parametrize("version", PYTHONS)
def test_trains(version: str, script: Callable[..., Any]) -> None:
    python = ROOT / PYTHONS[version]
    if not python.exists():
        pytest.skip(f"no {PYTHONS[version]}: `make older` makes it")
    out = script(TRAIN, islands=2, devices=4, python=str(python)).wait()
    assert out.strip() == version
