#!/usr/bin/env bash
# Installs the Python package, with the programs of an existing build, into an environment: the
# `shardway` command and the JAX plugin. Does nothing when nothing has changed since the last time.
# usage: install_package.sh ENVIRONMENT BUILD_DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 build=$2
[[ -f pyproject.toml ]] || exit 0

# What the package is made of: the build's programs and libraries, and the Python sources.
contents() {
  {
    find python -name '*.py' -o -name 'py.typed'
    find "$build" -path '*/CMakeFiles' -prune -o -type f \
      \( -name shardway -o -name '*.so' \) -print
    echo pyproject.toml
  } | sort | xargs sha256sum
}
stamp=$venv/.shardway-installed
now=$(contents)
[[ -f $stamp && $(<"$stamp") == "$now" ]] && exit 0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! timeout 600 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --no-index --force-reinstall \
  --config-settings=build-dir="$build" . >"$log" 2>&1; then
  cat "$log" >&2
  echo "build: the Python package could not be installed into $venv; pip's output is above" >&2
  exit 1
fi
echo "$now" >"$stamp"
echo "build: installed into $venv"
