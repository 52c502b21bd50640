#!/bin/sh
# Makes the module files beside their sources, with iree-base-compiler 3.13.0.
cd "$(dirname "$0")" || exit 1
iree-compile scale.mlir -o scale.vmfb --iree-hal-target-device=local --iree-hal-local-target-device-backends=vmvx
iree-compile pairs.mlir -o pairs.vmfb --compile-mode=vm --iree-vm-target-extension-f64 \
    --iree-vm-bytecode-module-strip-source-map --iree-vm-emit-polyglot-zip=false
