"""Numbers of 32 bits as bytes, by two scales."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def quantized(numbers, scale, divisor, zero_point):
    scaled = numbers.astype(np.float32) * np.float32(scale) / np.float32(divisor)
    return np.clip(np.rint(scaled) + np.float32(zero_point), -128, 127).astype(np.int8)


def cases():
    numbers = np.random.default_rng(5).integers(-3000, 3000, (4, 32, 32), np.int32)
    part = numbers[:, :31, :31]
    case = fixture.Case("numbers")
    case.call("coarse", [numbers], [quantized(part, 0.003, 0.05, -3)])
    case.call("fine", [numbers], [quantized(part, 0.007, 0.02, 5)])
    return [case]
