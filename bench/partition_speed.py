"""How fast the compiler is: operators per second, end to end, and what more devices cost.

The program is a chain of Transformer-like blocks, each a dozen operators with products over both mesh axes,
written as StableHLO text (tracing 100,000 operators would take JAX minutes).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any

import spmd_oracle
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib.mlir import ir
from jaxlib import _jax

BLOCK = """
    %h{i} = stablehlo.dot_general %x{i}, %up, contracting_dims = [1] x [0] : (tensor<8192x1024xf32>, tensor<1024x4096xf32>) -> tensor<8192x4096xf32>
    %bb{i} = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<4096xf32>) -> tensor<8192x4096xf32>
    %hb{i} = stablehlo.add %h{i}, %bb{i} : tensor<8192x4096xf32>
    %t{i} = stablehlo.tanh %hb{i} : tensor<8192x4096xf32>
    %d{i} = stablehlo.dot_general %t{i}, %down, contracting_dims = [1] x [0] : (tensor<8192x4096xf32>, tensor<4096x1024xf32>) -> tensor<8192x1024xf32>
    %r{i} = stablehlo.add %d{i}, %x{i} : tensor<8192x1024xf32>
    %s{i} = stablehlo.multiply %r{i}, %r{i} : tensor<8192x1024xf32>
    %m{i} = stablehlo.reduce(%s{i} init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8192x1024xf32>, tensor<f32>) -> tensor<8192xf32>
    %q{i} = stablehlo.rsqrt %m{i} : tensor<8192xf32>
    %n{i} = stablehlo.broadcast_in_dim %q{i}, dims = [0] : (tensor<8192xf32>) -> tensor<8192x1024xf32>
    %x{j} = stablehlo.multiply %r{i}, %n{i} : tensor<8192x1024xf32>"""
BLOCK_OPERATORS = BLOCK.count("stablehlo.") - 1  # the reducer's own is inside


def program(operators: int, x: int, y: int) -> tuple[bytes, int]:
    """The artifact of a program of about so many operators over a mesh x by y, and how many it has."""
    blocks = operators // BLOCK_OPERATORS
    body = "".join(BLOCK.format(i=i, j=i + 1) for i in range(blocks))
    text = f"""module @speed {{
  sdy.mesh @mesh = <["x"={x}, "y"={y}]>
  func.func public @main(%x0: tensor<8192x1024xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}},
      %up: tensor<1024x4096xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}]>}},
      %down: tensor<4096x1024xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}},
      %b: tensor<4096xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}]>}})
      -> (tensor<8192x1024xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}}) {{
    %zero = stablehlo.constant dense<0.0> : tensor<f32>{body}
    return %x{blocks} : tensor<8192x1024xf32>
  }}
}}"""
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        return (
            _jax.mlir.serialize_portable_artifact(module, spmd_oracle.STABLEHLO_VERSION, True),
            blocks * BLOCK_OPERATORS,
        )


def compile_times(operators: int, x: int, y: int, repeats: int) -> dict[str, Any]:
    """The fastest of `repeats` compilations in one process, and that process's memory at its peak."""
    artifact, count = program(operators, x, y)
    with tempfile.NamedTemporaryFile(suffix=".mlirbc") as file:
        file.write(artifact)
        file.flush()
        done = subprocess.run(
            [spmd_oracle.compiler(), file.name, "--partitions", str(x * y), "--time", str(repeats)],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    return {"operators": count, **json.loads(done.stdout)}


def measure() -> dict[str, Any]:
    large = compile_times(100_000, 2, 4, 3)
    # In turn, so that a busier minute of the machine meets both.
    in_turn = [(compile_times(10_000, 2, 4, 5), compile_times(10_000, 32, 64, 5)) for _ in range(3)]
    small, many = (min(side, key=lambda run: run["seconds"]) for side in zip(*in_turn, strict=True))
    return {
        "ops_per_s": large["operators"] / large["seconds"],
        "compile_growth": many["seconds"] / small["seconds"],
        "large": large,
        "small": small,
        "small_2048_devices": many,
        # 1 where the time per operator does not depend on the number of operators.
        "linearity": large["seconds"] / large["operators"] / small["seconds"] * small["operators"],
    }
