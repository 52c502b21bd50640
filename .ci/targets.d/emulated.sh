# The tests of a Linux target by QEMU's user mode, for the scripts beside this file, which set, besides what suite.sh asks for:
#   emulator   QEMU's program
#   system     what GNU compilers call the target
#   packages   Debian's packages with the emulator, the compiler and the C library
. .ci/targets.d/suite.sh
need_commands "$emulator $system-gcc" "${packages[@]}"
need_target "$triple"

variable=${triple^^}
variable=CARGO_TARGET_${variable//-/_}
export "${variable}_LINKER=$system-gcc" "${variable}_RUNNER=$emulator -L /usr/$system"

optimize_runtime
# Tests that repeat or draw programs do so less often.
export INCARNATE_EMULATED=1

# emulate PROGRAM ARGUMENT...
emulate() { "$emulator" -L "/usr/$system" "$@"; }

# Says what emulates the target.
emulation() { "$emulator" --version | head -n 1; }
