#!/usr/bin/env bash
# Makes a Python environment, or brings it to a locked requirements file: exactly those versions,
# every file checked against its hash.
# usage: setup_venv.sh DIRECTORY REQUIREMENTS.txt
set -euo pipefail
venv=$1 requirements=$2
# Debian's own Python 3.11: the version that jaxlib's and the plugins' wheels are locked for.
python=${PYTHON:-/usr/bin/python3}

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [[ $version != 3.11 ]]; then
  echo "setup: $python is Python $version; the locked packages are for 3.11." >&2
  echo "setup: name a Python 3.11 in the variable PYTHON" >&2
  exit 1
fi

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
echo "setup: $venv from $requirements"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! timeout 1500 "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-input --retries 3 --require-hashes -r "$requirements" >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: pip could not install $requirements into $venv; its output is above" >&2
  exit 1
fi
