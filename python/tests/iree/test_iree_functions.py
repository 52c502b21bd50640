"""Modules, contexts, and calls of functions."""

import gc
import json
import os
import threading

import numpy as np
import pytest

import incarnate.iree.runtime as rt
from incarnate.iree.runtime.function import FunctionInvoker


def test_a_function_takes_and_returns_arrays(load, models):
    module = load("simple_mul")
    folder = models / "simple_mul"
    x, y, expected = (np.load(folder / f"arrays.{name}.npy") for name in ("in0", "in1", "out0"))
    result = module.simple_mul(x, y)
    assert isinstance(result, rt.DeviceArray) and not result.is_host_accessible
    np.testing.assert_array_equal(result, expected)
    assert result.is_host_accessible and result.shape == [4] and result.dtype == np.float32
    # Results are arguments without a transfer to the host.
    np.testing.assert_array_equal(module["simple_mul"](result, result), expected * expected)


def test_models_compute_what_their_references_do(load, models):
    for model, case, function, inputs in [("mlp", "batch", "mlp", 1), ("lstm", "steps10", "lstm", 2)]:
        arguments = [np.load(models / model / f"{case}.in{index}.npy") for index in range(inputs)]
        results = load(model)[function](*arguments)
        for index, result in enumerate(results if isinstance(results, tuple) else [results]):
            expected = np.load(models / model / f"{case}.out{index}.npy")
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_numbers_are_converted_to_the_types_of_arguments(load):
    echo = load("scalars").echo
    assert echo(1, 2, 3.5, 4.5, 5) == (1, 2, 3.5, 4.5, 5)
    assert echo(-1, 1 << 40, 3, 4, 0) == (-1, 1 << 40, 3.0, 4.0, 0)


def test_state_stays_between_calls_and_is_one_for_each_context(device, models):
    config = rt.Config(device=device)
    module = rt.VmModule.mmap(config.vm_instance, str(models / "accumulator/vmvx.vmfb"))
    first, second = rt.load_vm_module(module, config), rt.load_vm_module(module, config)
    ones = np.ones(4, np.float32)
    table = np.array([0.5, 1.5, 2.5, 3.5], np.float32)
    for count in (1, 2, 3):
        np.testing.assert_array_equal(first.accumulate(ones), count * table)
        assert first.count() == count
    assert second.count() == 0


def test_modules_are_added_to_a_context_with_its_state(device, models):
    context = rt.SystemContext(config=rt.Config(device=device))
    context.add_vm_module(rt.VmModule.mmap(context.instance, str(models / "accumulator/vmvx.vmfb")))
    accumulator = context.modules.module
    accumulator.accumulate(np.ones(4, np.float32))
    context.add_vm_module(rt.VmModule.mmap(context.instance, str(models / "failures/vm.vmfb")))
    assert accumulator.count() == 1
    assert context.modules.failures.load(2) == 3
    with pytest.raises(ValueError, match="failures"):
        context.add_vm_module(rt.VmModule.mmap(context.instance, str(models / "failures/vm.vmfb")))


def test_errors_have_a_status_and_a_location(load):
    failures = load("failures", file="vm.vmfb")
    for code, kind, name in [
        (3, ValueError, "INVALID_ARGUMENT"),
        (5, ValueError, "NOT_FOUND"),
        (11, IndexError, "OUT_OF_RANGE"),
        (12, NotImplementedError, "UNIMPLEMENTED"),
        (13, RuntimeError, "INTERNAL"),
    ]:
        with pytest.raises(kind, match=f"Error invoking function: .*{name}; as told") as raised:
            failures.fail(code)
        assert raised.value.code == name and raised.value.message == "as told"
        assert "@failures.fail" in raised.value.locations[0]
    # The context stays usable.
    assert failures.load(0) == 1


def test_wrong_arguments_are_errors(load):
    module = load("simple_mul")
    x = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="takes 2 arguments, 1 are given"):
        module.simple_mul(x)
    with pytest.raises(ValueError, match="shape is 3, expected 4"):
        module.simple_mul(x, x[:3])
    with pytest.raises(ValueError, match="could not convert python value"):
        module.simple_mul(x, object())
    with pytest.raises(ValueError, match="could not map dtype"):
        module.simple_mul(x, np.array(["text"]))
    with pytest.raises(ValueError, match="no keyword arguments"):
        module.simple_mul(x, y=x)
    with pytest.raises(AttributeError, match="exports no function 'simple_div'"):
        module.simple_div


def test_sequences_do_not_overflow_the_stack(load):
    nested = []
    for _ in range(10000):
        nested = [nested]
    with pytest.raises(ValueError, match="nested more than 64 deep"):
        load("simple_mul").simple_mul(nested, nested)
    # A dropped list of lists, and one that contains itself.
    elements = rt.VmVariantList(0)
    for _ in range(100000):
        outer = rt.VmVariantList(1)
        outer.push_list(elements)
        elements = outer
    assert repr(elements).count("List[") == 65
    cycle = rt.VmVariantList(1)
    cycle.push_list(cycle)
    assert repr(cycle) == "<VmVariantList(1): [List[...]]>"
    with pytest.raises(ValueError, match="nested more than"):
        cycle.get_serialized_trace_value(0)


def test_threads_call_at_once(load):
    module = load("mlp")
    inputs = [np.full((8, 32), value, np.float32) for value in range(4)]
    expected = [module.mlp(x).to_host().copy() for x in inputs]
    right = []

    def call(x, y):
        right.extend(np.array_equal(module.mlp(x), y) for _ in range(20))

    threads = [threading.Thread(target=call, args=pair) for pair in zip(inputs, expected)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 80


def test_a_module_lives_as_long_as_its_context(device, models):
    unmapped = []
    config = rt.Config(device=device)
    path = str(models / "accumulator/vmvx.vmfb")
    module = rt.VmModule.mmap(config.vm_instance, path, destroy_callback=lambda: unmapped.append(True))
    bound = rt.load_vm_module(module, config)
    function = bound.accumulate
    del module, bound
    gc.collect()
    result = function(np.ones(4, np.float32))
    assert not unmapped
    del function
    gc.collect()
    assert unmapped
    # A result outlives all of them.
    np.testing.assert_array_equal(result, [0.5, 1.5, 2.5, 3.5])


def test_modules_load_from_buffers(device, models):
    instance = rt.VmInstance()
    blob = (models / "simple_mul/vmvx.vmfb").read_bytes()
    with pytest.warns(UserWarning, match="unaligned"):
        rt.VmModule.from_buffer(instance, memoryview(b"1" + blob)[1:])
    aligned = np.zeros(len(blob) + 64, np.uint8)
    start = -aligned.ctypes.data % 64
    aligned = aligned[start : start + len(blob)]
    aligned[:] = np.frombuffer(blob, np.uint8)
    released = []
    wrapped = rt.VmModule.wrap_buffer(instance, aligned, destroy_callback=lambda: released.append(True))
    copied = rt.VmModule.copy_buffer(instance, blob)
    for module in (wrapped, copied):
        assert module.name == "module" and module.version == 0 and "simple_mul" in module.function_names
        assert bytes(module.stashed_flatbuffer_blob) == blob
        x = np.arange(4, dtype=np.float32)
        np.testing.assert_array_equal(rt.load_vm_module(module, rt.Config(device=device)).simple_mul(x, x), x * x)
    # Code is a copy of the memory, and constants are in place: who changes them gets an error of the program.
    aligned[:] = 0
    with pytest.raises(RuntimeError, match="not found or unavailable"):
        rt.load_vm_module(wrapped, rt.Config(device=device))
    del wrapped, module
    gc.collect()
    assert released
    with pytest.raises(ValueError, match="unaligned buffer"):
        rt.VmModule.wrap_buffer(instance, aligned[1:])
    with pytest.raises((ValueError, RuntimeError, IndexError), match="Error creating vm module"):
        rt.VmModule.copy_buffer(instance, blob[:100])


def test_functions_have_attributes(models):
    module = rt.VmModule.mmap(rt.VmInstance(), str(models / "simple_mul/vmvx.vmfb"))
    function = module.lookup_function("simple_mul")
    assert module.lookup_function("absent") is None
    assert (function.name, function.module_name, function.linkage) == ("simple_mul", "module", rt.Linkage.EXPORT)
    assert "tensor<4xf32>" in function.reflection["iree.abi.declaration"]
    assert repr(function).startswith("<VmFunction simple_mul(0rr_r), reflection = {")
    assert module.lookup_function("hal.device.allocator", rt.Linkage.IMPORT).linkage == rt.Linkage.IMPORT
    context = rt.VmContext(rt.VmInstance())
    with pytest.raises(ValueError, match="not registered"):
        context.invoke(function, rt.VmVariantList(0), rt.VmVariantList(0))


class Echo:
    """A context whose functions return their arguments."""

    def invoke(self, function, arguments, results):
        for index in range(len(arguments)):
            value = arguments.get_variant(index)
            if isinstance(value, rt.VmRef):
                results.push_ref(value)
            elif isinstance(value, float):
                results.push_float(value)
            else:
                results.push_int(value)


class Described:
    def __init__(self, arguments, results):
        self.reflection = {"iree.abi": json.dumps({"a": arguments, "r": results})}


def test_reflection_describes_structures():
    device = rt.get_device("local-sync")
    structure = ["sdict", ["image", ["ndarray", "f32", 2, None, 2]], ["sizes", ["stuple", "i32", "i64"]]]
    invoke = FunctionInvoker(Echo(), device, Described([structure, ["named", "scale", "f64"]], [structure, "f64"]))
    image = np.arange(6, dtype=np.float32).reshape(3, 2)
    result, scale = invoke({"image": image, "sizes": (1, 1 << 40)}, scale=0.5)
    np.testing.assert_array_equal(result["image"], image)
    assert result["sizes"] == (1, 1 << 40) and scale == 0.5
    with pytest.raises(ValueError, match="could not get item 'sizes' from"):
        invoke({"image": image, "size": (1, 2)}, scale=0.5)
    with pytest.raises(OverflowError):
        invoke({"image": image, "sizes": (1 << 40, 1)}, scale=0.5)
    invoke = FunctionInvoker(Echo(), device, Described(["i32"], ["i32", "i32"]))
    with pytest.raises(ValueError, match="1 results are returned and 2 described"):
        invoke(1)
    with pytest.raises(ValueError, match="is no kind of argument"):
        FunctionInvoker(Echo(), device, Described([["set", "i32"]], []))
    with pytest.raises(RuntimeError, match="malformed"):
        FunctionInvoker(Echo(), device, Described(None, None))


def test_types_of_ml_dtypes_are_arguments_and_results():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    device = rt.get_device("local-sync")
    invoke = FunctionInvoker(Echo(), device, Described([["ndarray", "bf16", 1, 4]], [["ndarray", "bf16", 1, 4]]))
    result = invoke([1, 2, 3, 4])
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.to_host().astype(np.float32), [1, 2, 3, 4])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_fork_loads_again(models):
    def load():
        return rt.load_vm_flatbuffer_file(models / "simple_mul/vmvx.vmfb", driver="local-task")

    x = np.arange(4, dtype=np.float32)
    module = load()
    module.simple_mul(x, x)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(RuntimeError, match="the context belongs to the process that forked this one"):
                module.simple_mul(x, x)
            del module
            gc.collect()
            assert load().simple_mul(x, x).to_host().tolist() == [0, 1, 4, 9]
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert module.simple_mul(x, x).to_host().tolist() == [0, 1, 4, 9]
