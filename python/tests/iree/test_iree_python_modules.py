"""Modules whose functions are written in Python, and what programs trace."""

import gc

import numpy as np
import pytest

import incarnate.iree.runtime as rt


class Adder:
    def __init__(self, interface):
        self.calls = 0

    def add_1(self, value):
        self.calls += 1
        return value + 1

    def fail(self, value):
        raise KeyError("no such key")


def native_module(function=Adder.add_1):
    interface = rt.PyModuleInterface("native_import_module", Adder)
    interface.export("add_1", "0i_i", function)
    return interface, interface.create()


def test_bytecode_calls_python(load):
    interface, native = native_module()
    module = load("vm", native, file="vm.vmfb")
    assert (module.call_imported(5), module.call_internal(5)) == (25, 5)
    del module, native
    gc.collect()
    assert interface.destroyed and str(interface) == "<PyModuleInterface 'native_import_module' destroyed>"


def test_exceptions_of_python_are_errors_of_the_call(load):
    _, native = native_module(Adder.fail)
    context = rt.VmContext(rt.VmInstance(), [native])
    arguments = rt.VmVariantList(1)
    arguments.push_int(1)
    with pytest.raises(RuntimeError, match="UNKNOWN; exception raised from Python: KeyError: 'no such key'"):
        context.invoke(native.lookup_function("add_1"), arguments, rt.VmVariantList(1))
    _, native = native_module(lambda state, value: "text")
    context = rt.VmContext(rt.VmInstance(), [native])
    with pytest.raises(RuntimeError, match="TypeError"):
        context.invoke(native.lookup_function("add_1"), arguments, rt.VmVariantList(1))


def test_interfaces_are_checked():
    interface, _ = native_module()
    with pytest.raises(RuntimeError, match="created"):
        interface.create()
    with pytest.raises(RuntimeError, match="created"):
        interface.export("other", "0v_v", print)
    interface = rt.PyModuleInterface("m", lambda interface: None)
    interface.export("f", "0v_ii", lambda state: (1,))
    with pytest.raises(ValueError, match="exported already"):
        interface.export("f", "0v_v", print)
    with pytest.raises(ValueError, match="calling convention"):
        interface.export("g", "0x", print)
    with pytest.raises(ValueError, match="variadic"):
        interface.export("g", "0CiD_v", print)
    module = interface.create()
    context = rt.VmContext(rt.VmInstance(), [module])
    with pytest.raises(ValueError, match="1 results are returned, not 2"):
        context.invoke(module.lookup_function("f"), rt.VmVariantList(0), rt.VmVariantList(2))


def test_a_constructor_that_fails_creates_no_context():
    interface = rt.PyModuleInterface("m", lambda interface: 1 / 0)
    module = interface.create()
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        rt.VmContext(rt.VmInstance(), [module])


def test_python_calls_a_context_within_a_call(device, models):
    # The lock of the interpreter is released around the outer call and taken for the function.
    config = rt.Config(device=device)
    inner = rt.load_vm_module(rt.VmModule.mmap(config.vm_instance, str(models / "simple_mul/vmvx.vmfb")), config)
    results = []

    class Nested:
        def __init__(self, interface):
            pass

        def run(self):
            x = np.arange(4, dtype=np.float32)
            results.append(inner.simple_mul(x, x).to_host().tolist())

    interface = rt.PyModuleInterface("nested", Nested)
    interface.export("run", "0v_v", Nested.run)
    module = interface.create()
    context = rt.VmContext(config.vm_instance, [module])
    context.invoke(module.lookup_function("run"), rt.VmVariantList(0), rt.VmVariantList(0))
    assert results == [[0, 1, 4, 9]]
