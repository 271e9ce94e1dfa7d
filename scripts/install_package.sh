#!/usr/bin/env bash
# Makes a wheel of the Python package with the programs of an existing build (the `shardway` command
# and the JAX plugin), and installs it into environments. Does nothing where nothing has changed since
# the last time.
# usage: install_package.sh BUILD_DIRECTORY BUILDING_ENVIRONMENT [OTHER_ENVIRONMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
builder=$2
shift

log=$(mktemp)
trap 'rm -f "$log"' EXIT
pip() { # ENVIRONMENT ARGUMENT...
  if ! timeout 900 "$1/bin/python" -m pip --quiet --disable-pip-version-check "${@:2}" \
    --no-deps --no-index >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: pip failed in $1; its output is above" >&2
    exit 1
  fi
}

# What the package is made of: the build's program and library, and the Python sources.
contents=$(
  {
    find python -name '*.py' -o -name 'py.typed'
    find "$build/shardway" -type f \( -name shardway -o -name 'libshardway_pjrt.so' \)
    echo pyproject.toml
  } | sort | xargs sha256sum
)

wheels=$build/wheel
if [[ ! -f $wheels/contents || $(<"$wheels/contents") != "$contents" ]]; then
  rm -rf "$wheels"
  pip "$builder" wheel --no-build-isolation --config-settings=build-dir="$build" \
    --wheel-dir "$wheels" .
  echo "$contents" >"$wheels/contents"
fi

for venv in "$@"; do
  installed=$venv/.shardway-installed
  [[ -f $installed && $(<"$installed") == "$contents" ]] && continue
  pip "$venv" install --force-reinstall "$wheels"/shardway-*.whl
  echo "$contents" >"$installed"
  echo "build: installed into $venv"
done
