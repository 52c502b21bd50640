#!/bin/sh
# Compiles the models of this directory to modules and objects of kernels. Wants iree-compile 3.13.0 in PATH.
set -eu
cd "$(dirname "$0")"

# compile SUFFIX FLAGS...
compile() {
  suffix=$1
  shift
  for name in kernels other; do
    output=$name$suffix
    iree-compile "$name.mlir" -o "$output.vmfb" --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu \
      --iree-llvmcpu-debug-symbols=false --iree-vm-bytecode-module-strip-source-map=true --iree-llvmcpu-link-embedded=false \
      --iree-llvmcpu-link-static --iree-llvmcpu-static-library-output-path="$output.o" "$@"
    rm "$output.h"
  done
}
compile "" --iree-llvmcpu-target-cpu=generic
compile _arm_64 --iree-llvmcpu-target-cpu=cortex-a72 --iree-llvmcpu-target-triple=aarch64-unknown-linux-gnu
