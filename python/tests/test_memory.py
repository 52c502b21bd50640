"""Which arguments and results are copied, and who owns the memory."""

import gc

import numpy as np
import pytest


def address(array):
    return array.__array_interface__["data"][0]


# An identity: the result has the memory of the argument, unless that was copied.
ROWS = 512


@pytest.fixture
def net(model):
    return model("dynamic", device="local-sync")


def test_results_own_their_memory(net, device):
    x, ones = np.ones((ROWS, 4), np.float32), np.ones(4, np.float32)
    first = net.scale_rows(x, ones)
    kept = first.copy()
    others = [net.scale_rows(x * factor, ones) for factor in range(8)]
    np.testing.assert_array_equal(first, kept)
    assert len({address(array) for array in [first, *others]}) == 9
    # A result is its holder's: it can be written to, and outlives the model.
    first += 1
    assert first.flags.writeable and not first.flags.owndata
    del net
    gc.collect()
    np.testing.assert_array_equal(first, kept + 1)


def test_small_results_are_copies(net):
    small = net.scale_rows(np.ones((2, 4), np.float32), np.ones(4, np.float32))
    assert small.flags.owndata and small.flags.writeable


def test_memory_of_results_is_reused(net):
    x, ones = np.ones((ROWS, 4), np.float32), np.ones(4, np.float32)
    net.scale_rows(x, ones)
    seen = {address(net.scale_rows(x, ones)) for _ in range(64)}
    assert len(seen) <= 4


@pytest.mark.parametrize("offset", [0, 16])
@pytest.mark.parametrize("variant", ["vmvx", "llvm-cpu"])
def test_arguments_are_only_read(model, aligned, device, variant, offset):
    x = aligned((ROWS, 4), np.float32, offset)
    x[:] = 3
    net = model("dynamic", variant, device=device)
    for _ in range(3):
        np.testing.assert_array_equal(net.scale_rows(x, [2, 2, 2, 2]), np.full((ROWS, 4), 6))
    assert (x == 3).all()


def test_arguments_that_the_program_keeps_are_copied(models, model, aligned):
    net = model("borrowing", device="local-sync")
    names = list(net.functions)
    assert names, "the model has functions"
    for name in names:
        function = net.functions[name]
        inputs = function.signature.inputs
        arrays = [
            aligned(tuple(extent or 64 for extent in value.shape or ()), value.dtype.type)
            for value in inputs
            if value.dtype is not None and value.shape
        ]
        if len(arrays) != len(inputs):
            continue
        before = [array.copy() for array in arrays]
        results = function(*arrays)
        kept = [np.copy(result) for result in (results if isinstance(results, tuple) else [results]) if result is not None]
        for array, old in zip(arrays, before):
            np.testing.assert_array_equal(array, old)
            array.fill(77)
        results = [result for result in (results if isinstance(results, tuple) else [results]) if result is not None]
        for result, old in zip(results, kept):
            np.testing.assert_array_equal(result, old)


def test_tensors_stay_on_the_device(net):
    x = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)
    tensor = net.tensor(x)
    assert tensor.shape == (ROWS, 4) and tensor.dtype == np.float32 and len(tensor) == ROWS
    doubled = net.scale_rows.tensors(tensor, [2, 2, 2, 2])
    np.testing.assert_array_equal(net.scale_rows(doubled, [2, 2, 2, 2]), 4 * x)
    view = np.asarray(doubled)
    assert address(view) == address(np.asarray(doubled)) and not view.flags.writeable
    assert address(np.from_dlpack(doubled)) == address(view)
    assert np.asarray(doubled, dtype=np.float64).dtype == np.float64
    del doubled
    gc.collect()
    np.testing.assert_array_equal(view, 2 * x)
