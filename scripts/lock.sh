#!/usr/bin/env bash
# Locks requirements/*.in: exact versions with hashes, and no word about where they came from.
# usage: lock.sh
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(mktemp -d) # pip-tools changes nothing in the environment it locks
trap 'rm -rf "$tool"' EXIT
/usr/bin/python3 -m venv "$tool"
"$tool/bin/pip" install --quiet --disable-pip-version-check pip-tools
# The order matters: bench.in is constrained by main.txt.
for name in main bench jax-0.9.2; do
  echo "lock: requirements/$name.txt"
  timeout 1500 "$tool/bin/pip-compile" --quiet --upgrade --generate-hashes --strip-extras \
    --allow-unsafe --no-header --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
    --no-emit-options --output-file "requirements/$name.txt" "requirements/$name.in"
done
