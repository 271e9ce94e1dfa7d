"""Our reading of StableHLO artifacts against jaxlib's: artifact -> our reader -> our text -> jaxlib's
parser must print what jaxlib's own deserializer prints. See `ir_programs.py` for the programs."""

import difflib
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOOL = Path(os.environ.get("SHARDWAY_IR_TEXT", HERE.parent / "build/shardway/ir/shardway-ir-text"))


def programs(*args: str) -> str:
    """Runs ir_programs.py, on JAX's own CPU backend."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "SHARDWAY_"))}
    done = subprocess.run(
        [sys.executable, str(HERE / "ir_programs.py"), *args],
        cwd=HERE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every program at every version: NAME@VERSION.bc, .ref (jaxlib's reading) and
    .bc.canon (ours, through our text and jaxlib's parser)."""
    directory = tmp_path_factory.mktemp("artifacts")
    programs("write", str(directory))
    files = sorted(str(p) for p in directory.glob("*.bc"))
    subprocess.run(
        [TOOL, "--verify", "--locations", *files], timeout=120, check=False, stderr=subprocess.PIPE
    )
    programs("canon", str(directory))
    return directory


def differences(directory: Path, pattern: str) -> str:
    """What is different, briefly; empty when all is the same."""
    report = []
    for artifact in sorted(directory.glob(pattern)):
        error = artifact.with_name(artifact.name + ".err")
        if error.exists():
            report.append(f"{artifact.name}: {error.read_text()}")
            continue
        theirs = artifact.with_suffix(".ref").read_text()
        ours = artifact.with_name(artifact.name + ".canon").read_text()
        if ours != theirs:
            lines = difflib.unified_diff(
                theirs.splitlines(), ours.splitlines(), "jaxlib", "shardway", n=0, lineterm=""
            )
            report.append("\n".join([artifact.name, *list(lines)[:20]]))
    return "\n".join(report)


@pytest.mark.parametrize("version", ["1.17.0", "1.13.7"])
def test_every_program_reads_as_jaxlib_reads_it(artifacts: Path, version: str) -> None:
    assert len(list(artifacts.glob(f"*@{version}.bc"))) >= 200
    assert not list(artifacts.glob("*.skip")), "JAX does not lower a program any more"
    assert differences(artifacts, f"*@{version}.bc") == ""


@pytest.mark.parametrize("version", ["1.9.0", "1.0.0", "0.14.0"])
def test_old_versions_are_upgraded(artifacts: Path, version: str) -> None:
    assert len(list(artifacts.glob(f"*@{version}.bc"))) >= 100
    assert differences(artifacts, f"*@{version}.bc") == ""


def test_locations_are_the_users_lines(artifacts: Path) -> None:
    text = (artifacts / "psum@1.17.0.bc.mlir").read_text()
    line = next(
        line for line in text.splitlines() if "stablehlo.all_reduce" not in line and "psum" in line
    )
    assert "ir_programs.py" in line
    assert "jit(" in text


def test_what_is_no_artifact_is_an_error() -> None:
    done = subprocess.run([TOOL], input=b"module {}", capture_output=True, timeout=10, check=False)
    assert done.returncode == 1
    assert b"INVALID_ARGUMENT" in done.stderr
