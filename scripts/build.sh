#!/usr/bin/env bash
# Configures and builds a tree with CMake and Ninja. Says little: one line when it is done, and the
# compiler's words when it fails.
# usage: build.sh BUILD_DIRECTORY [-DCMAKE_OPTION=VALUE...] [-- TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$1
shift
options=() targets=()
while (($# > 0)) && [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
(($# > 0)) && targets=("${@:2}")

log=$(mktemp)
trap 'rm -f "$log"' EXIT
start=$SECONDS
if [[ ! -f $dir/build.ninja || ${#options[@]} -gt 0 ]]; then
  if ! timeout 300 cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Release "${options[@]}" \
    >"$log" 2>&1; then
    cat "$log" >&2
    echo "build: cmake could not configure $dir; its output is above" >&2
    exit 1
  fi
fi

quiet=()
[[ -t 1 ]] || quiet=(--quiet) # on a terminal Ninja keeps to one line by itself
NINJA_STATUS='build: [%f/%t, %es] ' timeout 3000 ninja -C "$dir" "${quiet[@]}" "${targets[@]}"
echo "build: $dir is up to date ($((SECONDS - start)) s)"
