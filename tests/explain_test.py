"""`shardway.explain`, `shardway explain` and `shardway compile`: what people see of the compiler."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from shardway.explanation_page import page
from shardway.jax_plugin import binary_path

import shardway

GOLDEN = Path(__file__).resolve().parent / "golden"
DEADLINE_S = 120


def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("x", "y"))


def sharded(spec: P) -> NamedSharding:
    return NamedSharding(mesh(), spec)


def block(x: jax.Array, up: jax.Array, down: jax.Array) -> jax.Array:
    h = jnp.tanh(x @ up)
    return h @ down


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def megatron() -> shardway.Explanation:
    shardings = (sharded(P("x", None)), sharded(P(None, "y")), sharded(P("y", None)))
    fn = jax.jit(block, in_shardings=shardings, out_shardings=sharded(P("x", None)))
    return shardway.explain(fn, f32(8, 64), f32(64, 256), f32(256, 64))


def golden(name: str, text: str) -> None:
    """Compares with tests/golden/NAME; SHARDWAY_GOLDEN=write writes it anew."""
    # Where this checkout is, and on which line of this file something stands, is no part of it.
    text = re.sub(r"[^\s(]*/explain_test\.py:\d+", "explain_test.py", text)
    text = re.sub(r" +$", "", text, flags=re.MULTILINE)
    path = GOLDEN / name
    if os.environ.get("SHARDWAY_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text(), (
        f"SHARDWAY_GOLDEN=write pytest {Path(__file__).name} accepts it"
    )


def test_explanation_says_who_decided_and_what_is_sent() -> None:
    why = megatron()
    assert why.mesh == {"x": 2, "y": 4}
    first, second = (op for op in why.operators if op.operator == "dot_general")
    assert first.values[0].sharding == "[{x}, {y}]"
    assert {(r.axes, r.origin) for r in first.values[0].reasons} == {("x", "x"), ("y", "up")}
    (reduce,) = why.collectives
    assert reduce.kind == "all_reduce"
    assert reduce.bytes == 2 * 3 / 4 * 4 * 64 * 4  # f32[4,64] over 4 devices
    assert reduce.times == 1
    assert why.bytes == reduce.bytes
    # The line of the second matrix product.
    line = block.__code__.co_firstlineno + 2
    assert (Path(reduce.where.file).name, reduce.where.line) == (Path(__file__).name, line)
    assert second.where.line == line
    golden("megatron.txt", str(why) + "\n")


def test_loops_are_counted() -> None:
    def body(h: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ w), None

    def layers(x: jax.Array, ws: jax.Array) -> jax.Array:
        return jax.lax.scan(body, x, ws)[0]

    fn = jax.jit(layers, in_shardings=(sharded(P("x", "y")), sharded(P(None, "y", None))))
    why = shardway.explain(fn, f32(8, 16), f32(6, 16, 16))
    assert why.collectives
    assert {c.times for c in why.collectives} <= {1, 6}
    assert any(c.times == 6 for c in why.collectives)
    assert any(op.depth == 1 and op.operator == "dot_general" for op in why.operators)


def test_hops_of_a_windowed_einsum_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    shardings = (sharded(P("y", None)), sharded(P(None, "y")))
    fn = jax.jit(jnp.matmul, in_shardings=shardings, out_shardings=sharded(P(None, "y")))
    (gather,) = shardway.explain(fn, f32(16, 32), f32(32, 8)).collectives
    monkeypatch.setenv("SHARDWAY_WINDOWED_EINSUM", "always")
    why = shardway.explain(fn, f32(16, 32), f32(32, 8))
    assert {c.kind for c in why.collectives} == {"collective_permute"}
    assert all(c.cause == f"{gather.cause}; a hop of a windowed einsum" for c in why.collectives)
    assert why.bytes == gather.bytes
    monkeypatch.setenv("SHARDWAY_WINDOWED_EINSUM", "sometimes")
    with pytest.raises(ValueError, match="sometimes"):
        shardway.explain(fn, f32(16, 32), f32(32, 8))


def test_bad_annotations_are_value_errors_with_the_line() -> None:
    program = """
      module @bad attributes {mhlo.num_partitions = 4 : i32} {
        sdy.mesh @mesh = <["x"=4]>
        func.func public @main(%a: tensor<8xf32>) -> tensor<8xf32> {
          %0 = sdy.sharding_constraint %a <@mesh, [{"x"}]> : tensor<8xf32> loc("train.py":12:3)
          return %0 : tensor<8xf32>
        }
      }"""
    assert "all_gather" in compile_text(program, "--backend", "ffi").stdout
    wrong = compile_text(program, "--mesh", "y=4", "--in", "[{z}]")
    assert wrong.returncode == 1
    assert '"z"' in wrong.stderr
    assert "argument 0" in wrong.stderr


def compile_text(
    program: str, *options: str, tmp: Path | None = None
) -> subprocess.CompletedProcess[str]:
    binary = binary_path()
    assert binary is not None
    path = (tmp or Path(os.environ.get("TMPDIR", "/tmp"))) / f"program-{os.getpid()}.mlir"
    path.write_text(program)
    try:
        return subprocess.run(
            [str(binary), "compile", str(path), *options],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=os.environ | {"SHARDWAY_PYTHON": sys.executable},
            check=False,
        )
    finally:
        path.unlink()


INFEED = """
module @feed {
  sdy.mesh @mesh = <["x"=8]>
  sdy.mesh @one = <[], device_ids=[3]>
  func.func public @main() -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %t = stablehlo.create_token : !stablehlo.token
    %r:2 = "stablehlo.infeed"(%t) {infeed_config = "c",
        sdy.sharding = #sdy.sharding_per_value<[<@one, []>, <@one, []>]>}
        : (!stablehlo.token) -> (tensor<8x4xf32>, !stablehlo.token)
    return %r#0 : tensor<8x4xf32>
  }
}
"""


def test_one_device_is_fed() -> None:
    native = compile_text(INFEED, "--backend", "native").stdout
    assert "stablehlo.if" in native
    assert "collective_broadcast f32[8,4] over groups {{3,0,1,2,4,5,6,7}}" in native
    refused = compile_text(INFEED, "--backend", "ffi")
    assert "infeed at" in refused.stderr
    assert "CPU workers" in refused.stderr


MATMUL = """
module @matmul {
  func.func public @main(%a: tensor<16x32xf32>, %b: tensor<32x24xf32>) -> tensor<16x24xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x24xf32>) -> tensor<16x24xf32>
    return %0 : tensor<16x24xf32>
  }
}
"""


GOLDEN_PROGRAMS = sorted(path.stem for path in GOLDEN.glob("*.mlir"))


# Propagation and partitioning, as text: the first line of each program says its options.
@pytest.mark.parametrize("name", GOLDEN_PROGRAMS)
def test_compile_prints_both_back_ends(name: str) -> None:
    program = (GOLDEN / f"{name}.mlir").read_text()
    _, found, options = program.splitlines()[0].partition("// options:")
    done = compile_text(program, *(shlex.split(options) if found else ()), "--backend=both")
    assert done.returncode == 0, done.stderr
    text = re.sub(r" then \S+ us,| flops \S+", "", done.stdout)  # estimates are no part of it
    golden(f"{name}.txt", re.sub(r"/\S*/program-\d+\.mlir", f"{name}.mlir", text))


def test_compile_dumps_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDWAY_DUMP", str(tmp_path / "dump"))
    options = ("--mesh", "x=8", "--in", "[{},{x}] [{x},{}]", "--explain")
    done = compile_text(MATMUL, *options, tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == "matmul"
    stages = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert [name.removeprefix("0000.matmul.") for name in stages] == [
        "1-imported.mlir",
        "2-flat.mlir",
        "3-propagated.mlir",
        "4-partitioned.mlir",
        "4.0-written.mlir",
        "5-device.mlir",
        "explanation.json",
    ]
    assert "sdy.sharding" in (tmp_path / "dump" / "0000.matmul.3-propagated.mlir").read_text()


TWO_SUMS = """
func.func public @main(%a: tensor<64x8xf32>, %b: tensor<64x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<64x8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<64x8xf32>, tensor<f32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
"""


def test_dumps_show_the_passes_that_change_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWAY_DUMP", str(tmp_path / "dump"))
    options = ("--mesh", "x=8", "--in", "[{x},{}] [{x},{}]")
    assert compile_text(TWO_SUMS, *options, tmp=tmp_path).returncode == 0
    sums = {
        path.name.split(".", 2)[2]: len(re.findall(r'op = "all.reduce', path.read_text()))
        for path in sorted((tmp_path / "dump").glob("*.4*"))
    }
    assert sums == {"4-partitioned.mlir": 1, "4.0-written.mlir": 2, "4.5-combined.mlir": 1}


def test_explain_leaves_the_users_dumps(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import jax\njax.jit(lambda a: a + 1)(1.0)\n")
    dump = tmp_path / "dump"
    settings = {"SHARDWAY_DUMP": str(dump), "JAX_PLATFORMS": "shardway"}
    done = subprocess.run(
        [str(binary_path()), "explain", str(tmp_path / "s.py")],
        env=os.environ | settings,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0
    assert any("5-device" in path.name for path in dump.iterdir())


def test_shardings_in_the_form_of_a_round_trip_are_not_lost(tmp_path: Path) -> None:
    program = """
module attributes {mhlo.frontend_attributes = {xla.sdy.meshes = "{mesh = #sdy.mesh<[\\22x\\22=8]>}"}} {
  func.func public @main(%a: tensor<64xf32>) -> tensor<64xf32> { return %a : tensor<64xf32> }
}
"""
    done = compile_text(program, tmp=tmp_path)
    assert done.returncode == 1
    assert "xla.sdy.meshes" in done.stderr


def test_what_is_no_program_is_an_error(tmp_path: Path) -> None:
    done = compile_text("this is no program", tmp=tmp_path)
    assert done.returncode == 2
    assert "neither" in done.stderr


class Links(HTMLParser):
    """Collects what a page would fetch, and that its tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_stands_alone() -> None:
    html = page([megatron()])
    links = Links()
    links.feed(html)
    assert not links.fetched
    assert not links.open
    assert "<script" not in html
    assert "all_reduce sum f32[4,64] over y" in html
    assert "[{x}, {y}]" in html


SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("x", "y")))

@jax.jit
def total(a):
    return jnp.sum(a)

print("answer", float(total(x)))
"""


@pytest.mark.parametrize("html", [False, True])
def test_explain_runs_a_script(html: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    options = [f"--html={tmp_path / 'page.html'}"] if html else []
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHARDWAY_")}
    done = subprocess.run(
        [str(binary_path()), "explain", "--devices=4", "--islands=1", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env=environment | {"JAX_PLATFORMS": "shardway", "SHARDWAY_PYTHON": sys.executable},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "answer 64.0" in done.stdout
    shown = (tmp_path / "page.html").read_text() if html else done.stdout
    assert "jit_total" in shown
    assert "all_reduce sum f32[]" in shown
    assert "script.py:9" in shown
