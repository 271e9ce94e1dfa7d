#!/usr/bin/env bash
# Runs JAX's own tests, from a public checkout of the release in requirements/main.txt, on Shardway
# with 8 devices and on JAX's CPU backend with 8 forced devices, and prints where they differ.
# usage: tests/jax_suite.sh CHECKOUT FILE... [-- PYTEST_ARGUMENT...]
#   tests/jax_suite.sh ~/jax tests/array_test.py
#   tests/jax_suite.sh ~/jax tests/pjit_test.py -- -k sharding
# Exits with 0 when everything that passes on the CPU backend passes on Shardway, the tests listed
# with a reason in tests/jax_suite_differences.txt aside.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if (($# < 2)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
checkout=$(cd "$1" && pwd)
shift
files=()
while (($# > 0)) && [[ $1 != -- ]]; do
  [[ -f $checkout/$1 ]] || { echo "jax_suite: no $1 in $checkout" >&2; exit 2; }
  files+=("$checkout/$1")
  shift
done
(($# == 0)) || shift

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
suite() { # NAME SETTING...: one run of all files, into $work/NAME.xml
  local name=$1
  shift
  echo "jax_suite: on $name" >&2
  # A test process of its own, so that a test that hangs or crashes costs that test alone; outside
  # the checkout, so that the installed jax is the one under test.
  (cd "$work" && env "$@" JAX_NUM_GENERATED_CASES=10 timeout "${DEADLINE_S:-3000}" \
    "$root/.venv/bin/python" -m pytest -q -c /dev/null --rootdir "$checkout" --confcutdir "$checkout" \
    --import-mode=importlib -p no:cacheprovider -n 1 --max-worker-restart 50 --timeout 120 \
    --timeout-method thread -W ignore --tb=line --junitxml "$work/$name.xml" \
    "${files[@]}" "${extra[@]}" </dev/null >"$work/$name.log" 2>&1) || true
  tail -n 1 "$work/$name.log" >&2
  [[ -s $work/$name.xml ]] || { cat "$work/$name.log" >&2; exit 1; }
}
extra=("$@")
suite cpu JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=8
suite shardway JAX_PLATFORMS=shardway,cpu
"$root/.venv/bin/python" "$root/tests/jax_suite_diff.py" "$work/cpu.xml" "$work/shardway.xml" \
  "$root/tests/jax_suite_differences.txt"
