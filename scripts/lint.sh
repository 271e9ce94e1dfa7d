#!/usr/bin/env bash
# Runs every check that needs no test, and changes nothing. Says what failed, all of it, at the end.
# TIDY_SECONDS: how long clang-tidy may go on (default 120; the last changed files come first).
# usage: lint.sh BUILD_DIRECTORY ENVIRONMENT
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1 bin=$2/bin
failed=()
step() { # NAME COMMAND...
  local name=$1
  shift
  echo "lint: $name"
  "$@" </dev/null || failed+=("$name")
}

cxx() { git ls-files -z -- 'shardway/*.cc' 'shardway/*.h' 'bench/*.cc' 'bench/*.h'; }
format_check() { cxx | xargs -0 -r timeout 300 clang-format --dry-run --Werror; }
shell_check() { git ls-files -z -- '*.sh' .ci/run | xargs -0 -r -n 1 bash -n; }

step "include graph" timeout 60 "$bin/python" scripts/check_layers.py
step "whitespace, sizes, licence" timeout 60 "$bin/python" scripts/check_files.py
step "shell syntax" shell_check
step "ruff" timeout 120 "$bin/ruff" check --quiet --no-cache .
step "ruff format" timeout 120 "$bin/ruff" format --quiet --no-cache --check .
step "mypy" timeout 300 "$bin/mypy" --no-error-summary
step "clang-format" format_check
step "clang-tidy" timeout 1200 "$bin/python" scripts/clang_tidy.py "$build" --seconds "${TIDY_SECONDS:-120}"

if ((${#failed[@]} > 0)); then
  printf 'lint: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "lint: all is well"
