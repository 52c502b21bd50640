#!/bin/sh
# Compiles the models of this directory to modules and objects of kernels. Wants iree-compile 3.13.0 in PATH.
set -eu
cd "$(dirname "$0")"
for name in kernels other; do
  iree-compile "$name.mlir" -o "$name.vmfb" --iree-hal-target-device=local --iree-hal-local-target-device-backends=llvm-cpu \
    --iree-llvmcpu-target-cpu=generic --iree-llvmcpu-debug-symbols=false --iree-vm-bytecode-module-strip-source-map=true \
    --iree-llvmcpu-link-embedded=false --iree-llvmcpu-link-static --iree-llvmcpu-static-library-output-path="$name.o"
  rm "$name.h"
done
