#!/usr/bin/env bash
# Runs the tests; closes with the runners' own summary lines.
# usage: test.sh BUILD_DIRECTORY ENVIRONMENT [PYTEST_ARGUMENT...]   both kinds
#        test.sh --cc BUILD_DIRECTORY                               C++ alone
#        test.sh --py ENVIRONMENT [PYTEST_ARGUMENT...]              Python alone
#        test.sh --sanitize address,undefined|thread BUILD_DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."

cc() { # BUILD_DIRECTORY [CTEST_ARGUMENT...]
  timeout 1800 ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$(nproc)" \
    --progress "${@:2}"
}

py() { # ENVIRONMENT [PYTEST_ARGUMENT...]
  local rc=0
  timeout 2400 "$1/bin/python" -m pytest -q "${@:2}" || rc=$?
  # 5: nothing collected, which is no failure where there is no Python test yet.
  ((rc == 0 || rc == 5 && $# == 1)) || return "$rc"
}

# What ThreadSanitizer is for: our threads, around the fake device (it can't see into XLA's plugins).
readonly tsan_layers=(base wire comm store worker controller)

sanitize() { # SANITIZERS BUILD_DIRECTORY
  local targets=() only=()
  if [[ $1 == thread ]]; then
    targets=(-- "${tsan_layers[@]/%/_test}")
    only=(-L "^($(IFS='|'; echo "${tsan_layers[*]}"))\$" -E 'Plugin|FfiHandler')
  fi
  scripts/build.sh "$2" "-DSHARDWAY_SANITIZE=$1" "${targets[@]}"
  export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
  export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan_suppressions.txt:print_suppressions=0
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # Forked children of tests have threads too.
  export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:suppressions=$PWD/scripts/tsan_suppressions.txt"
  cc "$2" "${only[@]}"
}

case ${1:-} in
  --cc) cc "$2" ;;
  --py) py "${@:2}" ;;
  --sanitize) sanitize "$2" "$3" ;;
  *)
    cc "$1"
    py "${@:2}"
    ;;
esac
