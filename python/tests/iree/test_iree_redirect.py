"""`iree.runtime` by its own name, flags, drivers, benchmarks."""

import subprocess
import sys

import numpy as np
import pytest

import incarnate.iree.runtime as rt
from incarnate.iree.runtime import flags, system_setup

PROGRAM = """
import incarnate.iree
incarnate.iree.redirect()
incarnate.iree.redirect()
import iree.runtime
import iree.runtime as rt
from iree.runtime.function import FunctionInvoker
from iree.runtime._binding import VmVariantList
from iree.runtime import system_setup
import incarnate.iree.runtime as own
assert rt is own and FunctionInvoker is own.FunctionInvoker and VmVariantList is own.VmVariantList
assert iree.runtime.DeviceArray.__module__ == "incarnate.iree.runtime.array_interop"
"""


def test_scripts_import_iree_runtime():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_a_redirection_comes_first():
    late = "import sys, types; sys.modules['iree.runtime'] = types.ModuleType('x')\n" + PROGRAM
    finished = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True)
    assert finished.returncode != 0 and "imported already" in finished.stderr


def test_flags_of_the_environment_are_checked():
    environment = {"IREE_PY_RUNTIME_FLAGS": "--unknown"}
    finished = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}; import incarnate.iree.runtime"],
        capture_output=True, text=True, env=environment,
    )
    assert finished.returncode != 0 and "flag 'unknown' not recognized" in finished.stderr


def test_flags_set_the_number_of_workers():
    with pytest.raises(ValueError, match="no number"):
        flags.parse_flags("--task_topology_group_count=many")
    flags.parse_flags("--task_topology_group_count=2")
    try:
        assert "local-task" in repr(rt.get_device("local-task", cache=False))
        flags.parse_flags("--task_topology_group_count=100000")
        with pytest.raises(ValueError, match="100000 workers"):
            rt.get_device("local-task", cache=False)
    finally:
        flags.parse_flags("--task_topology_group_count=0")


def test_devices_are_found_by_uri(monkeypatch):
    assert {"local-sync", "local-task"} <= set(rt.query_available_drivers())
    assert rt.get_device("local-task?workers=2", cache=False) is not rt.get_device("local-task?workers=2", cache=False)
    for uri in ("nothere", "local-sync://1", "local-task?unknown=1"):
        with pytest.raises(ValueError):
            rt.get_device(uri)
    monkeypatch.setenv("IREE_DEFAULT_DEVICE", "nothere, local-sync")
    assert repr(system_setup.get_first_device()) == "local-sync"
    driver = rt.get_driver("local-sync")
    info, = driver.query_available_devices()
    assert repr(driver.create_device(info)) == repr(driver.create_default_device()) == "local-sync"
    with pytest.raises(ValueError, match="no allocator"):
        driver.create_default_device(allocators=["unknown"])
    with pytest.raises(ValueError):
        driver.create_device(1)


def test_enumerations_are_numbers():
    usage = rt.BufferUsage.TRANSFER | rt.BufferUsage.MAPPING
    assert usage == 3 | 1 << 24 | 1 << 27 and isinstance(usage, int)
    assert rt.BufferUsage.DEFAULT == 3075 and rt.MemoryType.HOST_LOCAL == 0x46
    assert rt.HalElementType.COMPLEX_128 == 0x23000080
    assert rt.HalElementType.map_to_dtype(rt.HalElementType.INT_16) == np.int16
    with pytest.raises(ValueError):
        rt.HalElementType.map_to_dtype(rt.HalElementType.OPAQUE_8)


def test_benchmarks_run_in_another_process(models):
    module = rt.VmModule.mmap(rt.VmInstance(), str(models / "simple_mul/vmvx.vmfb"))
    inputs = [np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)]
    row, = rt.benchmark_module(module, inputs=inputs, device="local-sync", benchmark_min_time="0.01s")
    assert float(row.time.split()[0]) > 0 and int(row.iterations) > 0 and "simple_mul" in row.benchmark_name
    with pytest.raises(Exception, match="takes only 2"):
        rt.benchmark_module(module, inputs=inputs[:1] * 2 + inputs, device="local-sync")
