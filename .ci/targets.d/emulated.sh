# Tests of a Linux target by QEMU's user mode, for the scripts beside this file, which set:
#   name       the target's name in the summary
#   triple     the name that Rust has for it
#   emulator   QEMU's program
#   system     what GNU compilers call it
#   packages   Debian's packages with the emulator, the compiler and the C library
set -euo pipefail
cd "$(dirname "$0")/../.."
. .ci/install.sh
need_commands "$emulator $system-gcc" "${packages[@]}"
need_target "$triple"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

variable=${triple^^}
variable=CARGO_TARGET_${variable//-/_}
export "${variable}_LINKER=$system-gcc" "${variable}_RUNNER=$emulator -L /usr/$system"
# Emulated code is slow without optimisation; generated code and tests compile slowly with it.
options=(--locked --target "$triple")
for crate in incarnate-{bytecode,kernels,vm,hal,local,runtime} flatbuffers object smallvec; do
  options+=(--config "profile.dev.package.$crate.opt-level=1")
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# run_tests OPTION...: runs tests, adds their counts, and lists those that do not run.
passed=0 ignored=0
run_tests() {
  cargo test "${options[@]}" --no-fail-fast "$@" 2>&1 | tee "$log"
  local counts
  counts=$(awk '/^test result:/ { passed += $4; ignored += $8 } END { print passed + 0, ignored + 0 }' "$log")
  passed=$((passed + ${counts% *})) ignored=$((ignored + ${counts#* }))
}

# emulate PROGRAM ARGUMENT...
emulate() { "$emulator" -L "/usr/$system" "$@"; }

summarize() { echo "$name: $passed passed, $ignored ignored${1:+; $1} ($($emulator --version | head -n 1))"; }
