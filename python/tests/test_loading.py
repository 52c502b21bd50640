"""Loading: files, errors, parameters, pickles, compiled models."""

import importlib.metadata
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import incarnate


def test_errors_say_what_is_wrong(tmp_path, models):
    with pytest.raises(FileNotFoundError):
        incarnate.load(tmp_path / "missing.vmfb")
    with pytest.raises(IsADirectoryError):
        incarnate.load(tmp_path)
    wrong = tmp_path / "wrong.vmfb"
    wrong.write_bytes(b"\x7fELF" + bytes(100))
    with pytest.raises(incarnate.InvalidArgumentError, match="ELF") as raised:
        incarnate.load(wrong)
    assert raised.value.code == "INVALID_ARGUMENT" and isinstance(raised.value, (incarnate.Error, ValueError))
    with pytest.raises(incarnate.NotFoundError, match="local-nothing"):
        incarnate.load(models / "simple_mul" / "vmvx.vmfb", "local-nothing")
    with pytest.raises(incarnate.InvalidArgumentError, match="workers"):
        incarnate.load(models / "simple_mul" / "vmvx.vmfb", "local-task", workers=0)
    with pytest.raises(incarnate.InvalidArgumentError, match="timeout"):
        incarnate.load(models / "simple_mul" / "vmvx.vmfb", timeout=-1)


def test_a_failed_call_leaves_the_model_usable(model):
    net = model("failures", "vm")
    with pytest.raises(incarnate.Error) as raised:
        net.fail(3)
    assert raised.value.code == "INVALID_ARGUMENT" and raised.value.locations
    assert net.fail(0) is None


def test_untrusted_models_have_no_machine_code(model):
    net = model("simple_mul", untrusted=True)
    assert net([1, 2, 3, 4], [2, 2, 2, 2]).tolist() == [2, 4, 6, 8]
    with pytest.raises(incarnate.Error, match="embedded-elf"):
        model("simple_mul", "llvm-cpu", untrusted=True)
    with pytest.raises(incarnate.ResourceExhaustedError):
        model("mlp", untrusted=True, memory_limit=1000)(np.zeros((8, 32), np.float32))


@pytest.mark.parametrize("archive", ["model.safetensors", "model.irpa", "model.gguf", "model.npz"])
def test_archives(models, archive):
    folder = models / "parameters"
    name = {"model.safetensors": "safetensors", "model.irpa": "irpa", "model.gguf": "gguf", "model.npz": "npz"}[archive]
    net = incarnate.load(folder / "vmvx.vmfb", parameters={"model": folder / archive, "state": folder / "state.irpa"})
    x, expected = np.load(folder / f"{name}.in0.npy"), np.load(folder / f"{name}.out0.npy")
    np.testing.assert_allclose(net.predict(x), expected, rtol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_arrays_as_parameters(models, aligned, frozen):
    folder = models / "parameters"
    arrays = dict(np.load(folder / "model.npz"))
    for name, array in arrays.items():
        copy = aligned(array.shape, array.dtype.type)
        copy[:] = array
        copy.flags.writeable = not frozen
        arrays[name] = copy
    net = incarnate.load(folder / "vmvx.vmfb", parameters={"model": arrays, "state": [folder / "state.irpa"]})
    if not frozen:
        # These were copied.
        for array in arrays.values():
            array.fill(0)
    x, expected = np.load(folder / "npz.in0.npy"), np.load(folder / "npz.out0.npy")
    del arrays
    np.testing.assert_allclose(net.predict(x), expected, rtol=1e-5)


def test_missing_parameters(models):
    with pytest.raises(incarnate.Error, match="scope 'model'"):
        incarnate.load(models / "parameters" / "vmvx.vmfb")
    with pytest.raises(incarnate.InvalidArgumentError, match="parameters are a file"):
        incarnate.load(models / "parameters" / "vmvx.vmfb", parameters=3)


def test_pickles(model, models, tmp_path):
    net = model("simple_mul", device="local-sync")
    copy = pickle.loads(pickle.dumps(net))
    assert copy([1, 2, 3, 4], [2, 2, 2, 2]).tolist() == [2, 4, 6, 8]
    # A process loads a pickled model once.
    assert pickle.loads(pickle.dumps(net)) is copy
    assert pickle.loads(pickle.dumps(net.simple_mul))([1, 2, 3, 4], [3, 3, 3, 3]).tolist() == [3, 6, 9, 12]
    contents = (models / "simple_mul" / "vmvx.vmfb").read_bytes()
    assert pickle.loads(pickle.dumps(incarnate.load(contents)))([1] * 4, [2] * 4).tolist() == [2] * 4
    # A model is sent by its path, with the hash of what is there.
    path = tmp_path / "net.vmfb"
    path.write_bytes(contents)
    pickled = pickle.dumps(incarnate.load(path))
    assert len(pickled) < 1000
    path.write_bytes((models / "mlp" / "vmvx.vmfb").read_bytes())
    with pytest.raises(ValueError, match="other contents"):
        pickle.loads(pickled)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="at the same path"):
        pickle.loads(pickled)


def test_other_processes_unpickle(model):
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)([1, 2, 3, 4], [2, 2, 2, 2]).tolist())"
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(model("simple_mul")), capture_output=True)
    assert done.stdout == b"[2.0, 4.0, 6.0, 8.0]\n", done.stderr


def test_models_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("IREE_COMPILE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    source = tmp_path / "mul.mlir"
    source.write_text("func.func @mul(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }\n")
    with pytest.raises(incarnate.NotFoundError, match="incarnate compile --setup"):
        incarnate.load(source)


def test_other_floats_than_the_model_s_are_a_warning(tmp_path, compiler):
    source = tmp_path / "net.mlir"
    source.write_text("")
    with pytest.warns(UserWarning, match=r"net\.mlir: .*computes with f32 where the model says f16"):
        incarnate.compile(source, tmp_path / "net.vmfb", iree_compile=compiler)


def test_models_are_compiled(tmp_path):
    if "IREE_COMPILE" not in os.environ:
        pytest.skip("IREE_COMPILE does not name a compiler")
    source = tmp_path / "double.mlir"
    source.write_text(
        "func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = arith.addf %x, %x : tensor<4xf32>\n  return %y : tensor<4xf32>\n}\n"
    )
    for target in ["native", "portable"]:
        assert incarnate.load(source, target=target)([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]
    output = incarnate.compile(source, tmp_path / "double.vmfb", target="portable")
    assert incarnate.load(output, untrusted=True)([1, 2, 3, 4]).tolist() == [2, 4, 6, 8]
    source.write_text("func.func @wrong(\n")
    with pytest.raises(incarnate.InvalidArgumentError, match="double.mlir:1"):
        incarnate.load(source)


def test_the_command_line_is_installed(models):
    command = os.path.join(os.path.dirname(sys.executable), "incarnate")
    arguments = ["run", os.fspath(models / "simple_mul" / "vmvx.vmfb"), "--function=simple_mul"]
    inputs = ["--input=4xf32=1,2,3,4", "--input=4xf32=2"]
    done = subprocess.run([command, *arguments, *inputs], capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4xf32=2 4 6 8")
    assert subprocess.run([command, *arguments], capture_output=True).returncode == 1
    assert subprocess.run([command, "nonsense"], capture_output=True).returncode == 2


def test_devices():
    assert {"local-sync://", "local-task://"} <= set(incarnate.devices())


def test_the_version_is_that_of_the_package():
    assert incarnate.__version__ == importlib.metadata.version("incarnate")
