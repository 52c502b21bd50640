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
