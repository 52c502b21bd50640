"""The network in double precision, and archives of its parameters in each format."""

import json
import struct

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.ASYNC_EXTERNAL, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU, fixture.ASYNC_EXTERNAL)


def weights():
    rng = np.random.default_rng(7)
    shapes = {"layer0.weight": (8, 16), "layer0.bias": 16, "layer1.weight": (16, 4), "layer1.bias": 4}
    return {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}


def forward(x, scale=np.float32(1)):
    w = {key: value.astype(np.float64) for key, value in weights().items()}
    w["layer0.weight"] *= scale
    h = np.maximum(x.astype(np.float64) @ w["layer0.weight"] + w["layer0.bias"], 0)
    return (h @ w["layer1.weight"] + w["layer1.bias"]).astype(np.float32)


def cases():
    x = np.random.default_rng(8).normal(size=(2, 8)).astype(np.float32)
    state = "state=state.irpa"
    cases = [
        fixture.Case(form, parameters=(f"model=model.{form}", state)).call("predict", [x], [forward(x)], f32=1e-5)
        for form in ["irpa", "safetensors", "gguf"]
    ]
    unknown = "it reads no archives of NumPy"
    for form in ["npz", "npy"]:
        # The array of an .npy file is known by the file's name; the archive behind it has the others.
        files = ("model=layer0.weight.npy", "model=model.irpa") if form == "npy" else ("model=model.npz",)
        case = fixture.Case(form, parameters=(*files, state), iree_differs=unknown)
        scale = np.float32(2) if form == "npy" else np.float32(1)
        cases.append(case.call("predict", [x], [forward(x, scale)], f32=1e-5))
    count = fixture.Case("count", parameters=("model=model.irpa", state))
    count.call("count", [], [np.array([42], np.int32)])
    gathered = np.array([0, 1, 2, 3, 12, 13, 14, 15], np.float32)
    gather = fixture.Case("gather", parameters=("model=model.irpa", state)).call("gather", [], [gathered])
    splat = fixture.Case("splat", parameters=("model=model.irpa", "state=splat.irpa"))
    splat.call("gather", [], [np.array([0.5] * 4 + [0.25] * 4, np.float32)])
    # The archive is open for reading only.
    scatter = fixture.Case("scatter", parameters=("model=model.irpa", state))
    scatter.fails("scatter", ["8xf32=1"], "PERMISSION_DENIED")
    return [*cases, count, gather, splat, scatter]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def safetensors(arrays) -> bytes:
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for key, array in arrays.items():
        end = offset + array.nbytes
        header[key] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + b"".join(array.tobytes() for array in arrays.values())


def gguf(arrays) -> bytes:
    """With facts of each kind that has to be passed over, and an alignment of its own."""
    strings = text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
    numbers = text("numbers") + struct.pack("<IIQ3H", 9, 2, 3, 1, 2, 3)
    facts = text("general.architecture") + struct.pack("<I", 8) + text("test")
    facts += text("general.alignment") + struct.pack("<II", 4, 64) + strings + numbers
    out = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), 4) + facts
    offset = 0
    for key, array in arrays.items():
        dims = struct.pack(f"<{array.ndim}Q", *reversed(array.shape))
        out += text(key) + struct.pack("<I", array.ndim) + dims + struct.pack("<IQ", 0, offset)
        offset += array.nbytes + -array.nbytes % 64
    out += bytes(-len(out) % 64)
    return out + b"".join(array.tobytes() + bytes(-array.nbytes % 64) for array in arrays.values())


def irpa(entries) -> bytes:
    """`entries` are arrays, or a pattern and a length in bytes."""
    table, names, data = b"", b"", b""
    for key, value in entries.items():
        table += bytes(-len(table) % 16)
        reference = struct.pack("<QQQQ", len(names), len(key), 0, 0)
        names += key.encode()
        if isinstance(value, tuple):
            pattern, length = value
            kind = struct.pack("<QIQ", 85, 1, 0)
            table += kind + reference + struct.pack("<QQ16sB", 0, length, pattern, len(pattern))
        else:
            data += bytes(-len(data) % 64)
            kind = struct.pack("<QIQ", 76, 2, 0)
            table += kind + reference + struct.pack("<QQQ", 64, len(data), value.nbytes)
            data += value.tobytes()
    start = 96 + len(table) + len(names)
    start += -start % 64 if data else 0
    header = b"IRPA" + struct.pack("<HH", 0, 0) + struct.pack("<QQQQ", 88, 0, 0, len(entries))
    header += struct.pack("<QQQQQQ", 96, len(table), 96 + len(table), len(names), start, len(data))
    out = (header + bytes(8) + table + names).ljust(start, b"\0") + data
    return out + bytes(-len(out) % 4096)


def extra_files(folder):
    (folder / "model.safetensors").write_bytes(safetensors(weights()))
    (folder / "model.gguf").write_bytes(gguf(weights()))
    (folder / "model.irpa").write_bytes(irpa(weights()))
    np.savez(folder / "model.npz", **weights())
    # Not those of the other archives, which it overrides.
    np.save(folder / "layer0.weight.npy", weights()["layer0.weight"] * np.float32(2))
    state = {
        "calls": np.array([41], np.int32),
        "a": np.arange(4, dtype=np.float32),
        "b": np.arange(10, 16, dtype=np.float32),
    }
    (folder / "state.irpa").write_bytes(irpa(state))
    floats = lambda value: np.float32(value).tobytes()  # noqa: E731
    splats = {"calls": (bytes(4), 4), "a": (floats(0.5), 16), "b": (floats(0.25), 24)}
    (folder / "splat.irpa").write_bytes(irpa(splats))
