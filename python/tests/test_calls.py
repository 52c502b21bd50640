"""Calls: arguments, results, signatures."""

import gc
import weakref

import numpy as np
import pytest

import incarnate


def case(models, model, name, count):
    read = lambda kind, index: np.load(models / model / f"{name}.{kind}{index}.npy")  # noqa: E731
    return [read("in", index) for index in range(count)]


def test_models_compute(model, models, device):
    (x,) = case(models, "mlp", "batch", 1)
    expected = np.load(models / "mlp" / "batch.out0.npy")
    for variant in ["vmvx", "llvm-cpu", "async-external"]:
        np.testing.assert_allclose(model("mlp", variant, device=device)(x), expected, rtol=1e-5, atol=1e-5)


NAMES = r"""
vm.module @names version 0
vm.type i32
vm.export @subtract
vm.func @subtract(%i0: i32, %i1: i32, %i2: i32, %i3: i32) -> (i32, i32) {
  //! attribute "iree.abi.declaration" = "sync func @subtract(%a.b: i32, %a_b: i32, %c.d: i32, %\22c/d\22: i32) -> (%x.y: i32, %b: i32)"
^bb0:
  %i4 = vm.sub.i32 %i0, %i1
  %i5 = vm.sub.i32 %i2, %i3
  vm.return %i4, %i5
}
"""


def test_arguments_and_results_have_the_names_of_the_model(assembled):
    net = incarnate.load(assembled(NAMES))
    assert net(**{"c/d": 1, "c.d": 3, "a.b": 20, "a_b": 5}) == (15, 2)
    assert net(20, a_b=5, **{"c/d": 1, "c.d": 3}) == (15, 2)
    assert net(20, 5, 3, 1)._fields == ("x_y", "b")
    with pytest.raises(TypeError, match="`c_d` may be any of `c.d`, `c/d`"):
        net(20, 5, c_d=1, **{"c/d": 1})
    with pytest.raises(TypeError, match="argument `a.b` is given twice"):
        net(20, 5, 3, **{"a.b": 1})


def test_arguments_have_names_and_types(model):
    net = model("simple_mul")
    x = np.array([1, 2, 3, 4], np.float32)
    for result in [net(x, x), net(input0=x, input1=x), net(x, input1=x), net.simple_mul(x, x), net.functions["simple_mul"](x, x)]:
        assert result.dtype == np.float32
        assert result.tolist() == [1, 4, 9, 16]
    # Numbers and lists take the declared type.
    assert net([1, 2, 3, 4], (2, 2, 2, 2)).tolist() == [2, 4, 6, 8]
    with pytest.raises(TypeError, match="takes 2 arguments, but 1 was given"):
        net(x)
    with pytest.raises(TypeError, match="no argument `bias`"):
        net(x, bias=x)
    with pytest.raises(TypeError, match="argument `input0` is given twice"):
        net(x, input0=x)
    with pytest.raises(incarnate.InvalidArgumentError, match="`input0`: expected elements of type float32, got float64"):
        net(x.astype(np.float64), x)
    with pytest.raises(incarnate.InvalidArgumentError, match=r"`input1`: expected an array of shape \[4\], got \[5\]"):
        net(x, np.zeros(5, np.float32))
    with pytest.raises(incarnate.InvalidArgumentError, match="`input0` is no array of numbers"):
        net("four", x)


def test_signatures(model):
    net = model("dynamic")
    scale = net.scale_rows.signature
    assert [value.name for value in scale.inputs] == ["input0", "input1"]
    assert scale.inputs[0].shape == (None, 4) and scale.inputs[0].dtype == np.float32
    assert scale.inputs[0].type == "tensor<?x4xf32>"
    assert str(scale) == "(input0: tensor<?x4xf32>, input1: tensor<4xf32>) -> (output0: tensor<?x4xf32>)"
    assert net.normalise.signature.outputs[1].dtype == np.int64 and net.normalise.signature.outputs[1].shape == ()
    assert list(net.functions) == ["scale_rows", "matmul", "normalise"]
    assert "matmul" in dir(net)
    with pytest.raises(TypeError, match="several functions; call one of scale_rows, matmul, normalise"):
        net.signature
    with pytest.raises(AttributeError, match="no function 'encode'; its functions are scale_rows"):
        net.encode


def test_extents_that_calls_decide(model, device):
    net = model("dynamic", device=device)
    for rows in [0, 1, 7, 300]:
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        np.testing.assert_array_equal(net.scale_rows(x, np.full(4, 2, np.float32)), 2 * x)


def test_layouts(model):
    net = model("dynamic")
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.arange(20, dtype=np.float32).reshape(4, 5)
    expected = x @ y
    for a in [x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2], x[:, ::-1][:, ::-1]]:
        np.testing.assert_allclose(net.matmul(a, y), expected)
        np.testing.assert_allclose(net.matmul(y.T.copy(), a.T), (x @ y).T)
    assert x.tolist() == np.arange(12, dtype=np.float32).reshape(3, 4).tolist()


def test_several_results(model):
    net = model("several_results")
    results = net.statistics(np.ones((6, 5), np.float32))
    assert results._fields == ("output0", "output1", "output2", "output3", "output4")
    assert results.output0.shape == () and results[4].shape == (6, 5) and isinstance(results.output3, int)
    assert net.nothing() is None


def test_numbers(model):
    net = model("scalars", "vmvx")
    assert net.echo(-1, 2**40, 0.5, 0.1, -7) == (-1, 2**40, 0.5, 0.1, -7)
    assert net.echo(np.int32(3), np.int64(4), np.float32(5), 6.0, True)[:2] == (3, 4)
    with pytest.raises(incarnate.InvalidArgumentError, match="`input0`: expected i32, got str"):
        net.echo("1", 1, 1, 1, 1)
    with pytest.raises(incarnate.InvalidArgumentError, match="`input0`: expected i32"):
        net.echo(2**40, 1, 1, 1, 1)


def test_integers_have_no_signs(model):
    net = model("integers", "llvm-cpu")
    x = np.array([1, 2, 3, 4, 5, 6, 7], np.int32)
    signed, unsigned = net.bits_i32(x, x), net.bits_i32(x.view(np.uint32), x)
    assert all((a == b).all() for a, b in zip(signed, unsigned))
    flags = np.arange(9) % 2 == 0
    values, _ = net.select(flags, np.full(9, 1, np.int16), np.full(9, 2, np.int16))
    assert values.tolist() == [1 if flag else 2 for flag in flags]
    # Of a byte of a Boolean only the lowest bit counts: 2 would be false.
    with pytest.raises(incarnate.InvalidArgumentError, match="elements of type bool, got int8"):
        net.select(np.full(9, 2, np.int8), np.full(9, 1, np.int16), np.full(9, 2, np.int16))


def test_narrow_floats(model, models):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    net = model("mixed_types", "llvm-cpu")
    assert net.widen.signature.inputs[1].dtype == ml_dtypes.bfloat16
    x = np.linspace(-2, 2, 8, dtype=np.float32)
    half, brain = net.narrow(x)
    assert half.dtype == np.float16 and brain.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(brain.astype(np.float32), x.astype(ml_dtypes.bfloat16).astype(np.float32))
    np.testing.assert_allclose(net.widen(half, brain), half.astype(np.float64) * brain.astype(np.float64), rtol=0)


def test_state_belongs_to_a_model(model):
    first, second = model("accumulator"), model("accumulator")
    ones = np.ones(4, np.float32)
    for _ in range(2):
        first.accumulate(ones)
    assert second.accumulate(ones).tolist() != first.accumulate(ones).tolist()
    assert (first.count(), second.count()) == (3, 1)


def test_modules_in_memory(models):
    net = incarnate.load((models / "simple_mul" / "vmvx.vmfb").read_bytes())
    assert net([1, 2, 3, 4], [2, 2, 2, 2]).tolist() == [2, 4, 6, 8]


def test_models_are_collected(model):
    net = model("simple_mul")
    function = net.simple_mul
    reference = weakref.ref(net)
    del net
    # A function keeps its model.
    assert reference() is not None
    del function
    gc.collect()
    assert reference() is None
