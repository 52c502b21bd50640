"""Parameters: archives, arrays in place, providers."""

import array
import gc
import sys

import numpy as np
import pytest

import incarnate.iree.runtime as rt


def providers(models, extension="irpa"):
    indices = {"model": rt.ParameterIndex(), "state": rt.ParameterIndex()}
    indices["model"].load(str(models / f"parameters/model.{extension}"))
    indices["state"].load(str(models / "parameters/state.irpa"))
    return [index.create_provider(scope=scope) for scope, index in indices.items()]


@pytest.mark.parametrize("extension", ["irpa", "gguf", "safetensors", "npz"])
def test_programs_load_archives(load, models, extension):
    module = load("parameters", rt.create_io_parameters_module(rt.VmInstance(), *providers(models, extension)))
    folder = models / "parameters"
    result = module.predict(np.load(folder / f"{extension}.in0.npy"))
    np.testing.assert_allclose(result, np.load(folder / f"{extension}.out0.npy"), atol=1e-5)
    np.testing.assert_array_equal(module.gather(), np.load(folder / "gather.out0.npy"))


def test_programs_load_arrays_in_place(load, models):
    loaded = rt.ParameterIndex()
    loaded.load(str(models / "parameters/model.irpa"))
    arrays = {key: np.frombuffer(entry.file_view, np.uint8).copy() for key, entry in loaded.items()}
    index = rt.ParameterIndex()
    for key, values in arrays.items():
        index.add_buffer(key, values)
    counts = {key: sys.getrefcount(values) for key, values in arrays.items()}
    parameters = rt.create_io_parameters_module(
        rt.VmInstance(), index.create_provider(scope="model"), providers(models)[1]
    )
    module = load("parameters", parameters)
    del index, parameters
    gc.collect()
    folder = models / "parameters"
    np.testing.assert_allclose(
        module.predict(np.load(folder / "irpa.in0.npy")), np.load(folder / "irpa.out0.npy"), atol=1e-5
    )
    assert {key: sys.getrefcount(values) for key, values in arrays.items()} == counts
    del module
    gc.collect()
    assert all(sys.getrefcount(values) == counts[key] - 1 for key, values in arrays.items())


def test_a_missing_parameter_is_named(load, models):
    parameters = rt.create_io_parameters_module(rt.VmInstance(), rt.ParameterIndex().create_provider(scope="model"))
    with pytest.raises(ValueError, match="layer0.weight"):
        load("parameters", parameters)


def test_archives_are_written_and_read(tmp_path):
    values = np.arange(12, dtype=np.float64).reshape(3, 4)
    index = rt.ParameterIndex()
    rt.parameter_index_add_numpy_ndarray(index, "values", values)
    rt.parameter_index_add_numpy_ndarray(index, "scalar", np.array(7, np.int16))
    index.add_splat("ones", np.float32(1), 40, metadata=b"\x00\xff")
    path = str(tmp_path / "archive.irpa")
    written = index.create_archive_file(path)
    read = rt.ParameterIndex()
    read.load(path, mmap=False)
    for entries in (dict(written.items()), dict(read.items())):
        np.testing.assert_array_equal(rt.parameter_index_entry_as_numpy_ndarray(entries["values"]), values)
        assert rt.parameter_index_entry_as_numpy_ndarray(entries["scalar"]) == 7
        ones = entries["ones"]
        assert (ones.is_splat, ones.length, ones.splat_pattern) == (True, 40, np.float32(1).tobytes())
        assert ones.metadata == b"\x00\xff"
    assert len(read) == 3 and read[0].key == "values" and "3 entries" in repr(read)
    with pytest.raises(IndexError):
        read[3]
    with pytest.raises(NotImplementedError):
        index.create_archive_file(path, file_offset=64)


def test_views_of_entries_keep_the_file(tmp_path):
    path = str(tmp_path / "archive.irpa")
    rt.save_archive_file({"values": np.arange(4, dtype=np.int32)}, path)
    index = rt.ParameterIndex()
    index.load(path)
    view = index.items()[0][1].file_view
    del index
    gc.collect()
    np.testing.assert_array_equal(np.frombuffer(view, np.int32), [0, 1, 2, 3])
    assert view.readonly


def test_entries_must_be_within_their_file():
    index = rt.ParameterIndex()
    handle = rt.FileHandle.wrap_memory(b"foobar")
    index.add_from_file_handle("end", handle, 3, offset=3)
    assert bytes(dict(index.items())["end"].file_view) == b"bar"
    assert handle.is_host_allocation and not handle.is_fd
    with pytest.raises(IndexError):
        index.add_from_file_handle("beyond", handle, 4, offset=3)
    with pytest.raises(RuntimeError, match="ALREADY_EXISTS"):
        index.add_buffer("end", b"again")
    with pytest.raises(ValueError, match="splat"):
        index.add_splat("pattern", array.array("b", [1, 2, 3]), 9)
    with pytest.raises(IndexError, match="ends within the header"):
        index.load_from_file_handle(handle, "irpa")
    with pytest.raises(NotImplementedError, match="extension"):
        index.load_from_file_handle(handle, "zip")
    assert len(index) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are those of Unix")
def test_open_files_are_mapped(tmp_path):
    path = tmp_path / "archive.irpa"
    rt.save_archive_file({"values": np.arange(4, dtype=np.int32)}, path)
    with open(path, "rb") as file:
        handle = rt.FileHandle.wrap_fd(file.fileno())
        assert handle.is_fd and handle.fd == file.fileno() and not handle.is_host_allocation
    index = rt.ParameterIndex()
    index.load_from_file_handle(handle, "irpa")
    key, entry = index.items()[0]
    assert (key, entry.length, entry.file_storage[0].fd) == ("values", 16, handle.fd)
    with pytest.raises(ValueError, match="cannot be mapped"):
        entry.file_view
    with pytest.raises((ValueError, RuntimeError)):
        rt.FileHandle.wrap_fd(9999)
