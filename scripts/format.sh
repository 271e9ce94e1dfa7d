#!/usr/bin/env bash
# Rewrites the sources the way lint wants them.
# usage: format.sh ENVIRONMENT [PATH...]   (default: everything that is tracked)
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1/bin
shift
(($# > 0)) || set -- .
git ls-files -z -- "$@" | grep -zE '\.(cc|h)$' | xargs -0 -r clang-format -i
git ls-files -z -- "$@" | grep -zE '\.py$' | xargs -0 -r "$bin/ruff" check --quiet --fix-only
git ls-files -z -- "$@" | grep -zE '\.py$' | xargs -0 -r "$bin/ruff" format --quiet
