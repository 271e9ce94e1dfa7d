#!/usr/bin/env bash
# Installs the Debian packages of scripts/debian-packages.txt that are missing, as root or by sudo.
# usage: setup_debian.sh [PACKAGE...]   (default: the whole list)
set -euo pipefail
cd "$(dirname "$0")/.."

if (($# > 0)); then
  wanted=("$@")
else
  mapfile -t wanted < <(grep -v '^#' scripts/debian-packages.txt)
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
((${#missing[@]} > 0)) || exit 0

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: these Debian packages are missing: ${missing[*]}" >&2
    echo "setup: neither root nor sudo here: install them with apt-get, then try again" >&2
    exit 1
  fi
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 1500 \
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" \
    </dev/null >"$log" 2>&1
}
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
  cat "$log" >&2
  echo "setup: apt-get failed; its output is above" >&2
  exit 1
fi
