"""What two devices make of tensors that go to and fro between them."""

import dataclasses

import numpy as np

import fixture

DEVICES = ["--iree-hal-target-device=device_a=local[0]", "--iree-hal-target-device=device_b=local[1]"]
NATIVE = [fixture.LLVM_CPU, fixture.ASYNC_EXTERNAL]
VARIANTS = [
    dataclasses.replace(v, flags=[*DEVICES, *(f for f in v.flags if f != "--iree-hal-target-device=local")])
    for v in (*NATIVE, fixture.VMVX, *fixture.for_arm_64(*NATIVE))
]


def cases():
    x = np.random.default_rng(1).normal(size=64).astype(np.float32)
    y = np.random.default_rng(2).normal(size=64).astype(np.float32)
    three = np.float32(3)
    relay = (x * three + three) * x - x * three
    cases = []
    for devices in [("local-sync", "local-task"), ("local-task", "local-sync"), ("local-task", "local-task"), ("local-sync",) * 2]:
        name = "_".join(device.removeprefix("local-") for device in devices)
        cases.append(fixture.Case(f"relay_{name}", devices=devices).call("relay", [x], [relay], f32=1e-5))
        halves = fixture.Case(
            f"halves_{name}", devices=devices, iree_differs="the binding cannot create a session of several devices"
        )
        a, b = np.ones(64, np.float32), np.full(64, 2, np.float32)
        for _ in range(3):
            a, b = a + x, b * y
            halves.call("halves", [x, y], [a - b, b + a], f32=1e-5)
        cases.append(halves)
    return cases
