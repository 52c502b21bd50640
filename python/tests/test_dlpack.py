"""Tensors of other libraries."""

import numpy as np
import pytest

import incarnate


class Exporter:
    """An array that only DLPack can read, and that counts its exports."""

    def __init__(self, array, versioned=True):
        self.array, self.versioned, self.capsules = array, versioned, []

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("unexpected argument")
        capsule = self.array.__dlpack__(**(options if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else {}))
        self.capsules.append(capsule)
        return capsule


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("rows", [2, 1000])
def test_exporters_are_arguments(model, aligned, versioned, rows):
    net = model("dynamic")
    x = aligned((rows, 4), np.float32)
    x[:] = np.arange(rows * 4).reshape(rows, 4)
    exporter = Exporter(x, versioned)
    np.testing.assert_array_equal(net.scale_rows(exporter, [3, 3, 3, 3]), 3 * x)
    assert len(exporter.capsules) == 1
    # The capsule was not consumed: its owner frees it.
    assert '"dltensor' in repr(exporter.capsules[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[::-3, ::-1],
        lambda x: x.T.copy().T,
        lambda x: x[:, 1:5],
        lambda x: np.broadcast_to(x[:1], (7, 8)),
        lambda x: np.broadcast_to(x[0, 0], (3, 8)),
        lambda x: x[:0:2],
        lambda x: x[5:6, ::2],
    ],
)
@pytest.mark.parametrize("rows", [30, 3000])
def test_tensors_in_another_order_are_copied(model, change, rows):
    x = change(np.arange(rows * 8, dtype=np.float32).reshape(rows, 8))
    x = x if x.shape[1] == 4 else x[:, :4]
    np.testing.assert_array_equal(model("dynamic").scale_rows(Exporter(x), [2, 2, 2, 2]), 2 * x)


class Capsule:
    """A tensor whose structure the test writes."""

    def __init__(self, shape, strides, data=0x1000, offset=0, rank=None, dtype=(2, 32, 1)):
        import ctypes

        class Tensor(ctypes.Structure):
            _fields_ = [
                ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
            ]  # fmt: skip

        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = strides and (ctypes.c_int64 * len(strides))(*strides)
        addresses = [ctypes.addressof(self.shape), self.strides and ctypes.addressof(self.strides)]
        self.tensor = Tensor(data, (1, 0), len(shape) if rank is None else rank, *dtype, *addresses, offset, None, None)
        create = ctypes.pythonapi.PyCapsule_New
        create.restype, create.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = create(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self):
        return self.capsule


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"shape": [2, 4], "strides": [1 << 62, 1]}, "address space|too large"),
        ({"shape": [2, 4], "strides": [-(1 << 40), 1]}, "address space"),
        ({"shape": [1 << 40, 1 << 40], "strides": [0, 0]}, "too large"),
        ({"shape": [(1 << 63) - 1, 4], "strides": [(1 << 63) - 1, 1]}, "too large"),
        ({"shape": [(1 << 61) - 1, 4], "strides": [0, 0]}, "too large"),
        ({"shape": [-1, 4], "strides": [4, 1]}, "negative"),
        ({"shape": [2, 4], "strides": None, "data": None}, "no memory"),
        ({"shape": [2, 4], "strides": None, "offset": (1 << 64) - 1}, "address space"),
        ({"shape": [2, 4], "strides": None, "rank": -1}, "dimensions"),
        ({"shape": [2, 4], "strides": None, "rank": 1 << 30}, "dimensions"),
    ],
)
def test_tensors_that_no_memory_can_have_are_refused(model, arguments, why):
    with pytest.raises(incarnate.InvalidArgumentError, match=why):
        model("dynamic").scale_rows(Capsule(**arguments), [1, 1, 1, 1])


def test_types_are_checked(model):
    net = model("dynamic")
    with pytest.raises(incarnate.InvalidArgumentError, match="expected elements of type float32, got float64"):
        net.scale_rows(Exporter(np.ones((2, 4))), [1, 1, 1, 1])


def test_other_devices_are_refused(model):
    class OnGpu(Exporter):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(incarnate.UnimplementedError, match="not in memory of the host"):
        model("dynamic").scale_rows(OnGpu(np.ones((2, 4), np.float32)), [1, 1, 1, 1])


def test_what_is_no_capsule_is_refused(model):
    class Wrong(Exporter):
        def __dlpack__(self, **options):
            return object()

    with pytest.raises(TypeError):
        model("dynamic").scale_rows(Wrong(np.ones((2, 4), np.float32)), [1, 1, 1, 1])


def test_results_are_exporters(model):
    x = np.ones((1000, 4), np.float32)
    result = model("dynamic").scale_rows(x, [2, 2, 2, 2])
    shared = np.from_dlpack(result)
    assert shared.__array_interface__["data"][0] == result.__array_interface__["data"][0]


def test_torch(model):
    torch = pytest.importorskip("torch")
    net = model("dynamic")
    x = torch.arange(4000, dtype=torch.float32).reshape(1000, 4)
    result = net.scale_rows(x, torch.full((4,), 2.0))
    assert torch.equal(torch.from_dlpack(result), 2 * x)
    tensor = net.scale_rows.tensors(x, torch.full((4,), 2.0))
    assert torch.from_dlpack(tensor).data_ptr() == np.asarray(tensor).__array_interface__["data"][0]
    # Strided tensors are copied into row-major order.
    assert torch.equal(torch.from_dlpack(net.scale_rows(x[::2], torch.ones(4))), x[::2])
    strided = torch.arange(16).to(torch.bfloat16)[::2]
    half = torch.ones(8, dtype=torch.float16)
    assert model("mixed_types", "llvm-cpu").widen(half, strided).tolist() == strided.tolist()
    mixed = model("mixed_types", "llvm-cpu")
    half, brain = torch.ones(8, dtype=torch.float16), torch.ones(8, dtype=torch.bfloat16)
    assert mixed.widen(2 * half, 3 * brain).tolist() == [6.0] * 8


def test_jax(model):
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(4000, dtype="float32").reshape(1000, 4)
    result = model("dynamic").scale_rows(x, jax.numpy.full(4, 2.0))
    np.testing.assert_array_equal(result, 2 * np.asarray(x))
    assert (jax.dlpack.from_dlpack(result) == 2 * x).all()


def test_arrow(model):
    pyarrow = pytest.importorskip("pyarrow")
    net = model("simple_mul")
    x = pyarrow.array([1, 2, 3, 4], pyarrow.float32())
    assert net(x, x).tolist() == [1, 4, 9, 16]
