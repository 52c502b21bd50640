"""Threads, asyncio, signals, children of fork."""

import asyncio
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import incarnate

FOREVER = """
vm.module @m version 0
vm.type i32
vm.export @f
vm.func @f() -> () {
^bb0:
  vm.br ^bb0()
}
"""


@pytest.fixture
def forever(assembled):
    """A module whose function does not end."""
    return assembled(FOREVER)


def run(source, *arguments):
    """Runs a program; a hang fails the test."""
    program = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, timeout=300)


def test_threads_call_one_model(model, device):
    net = model("dynamic", device=device)

    def work(seed):
        rows = 1 + seed * 37
        x = np.random.default_rng(seed).random((rows, 4), dtype=np.float32)
        for factor in range(20):
            np.testing.assert_array_equal(net.scale_rows(x, [factor] * 4), x * np.float32(factor))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(32)))


def test_the_lock_is_released(forever):
    program = """
        import incarnate, os, sys, threading
        net = incarnate.load(sys.argv[1])
        threading.Thread(target=net, daemon=True).start()
        for _ in range(100_000):
            pass
        print("went on", flush=True)
        os._exit(0)
    """
    assert run(program, forever).stdout == "went on\n"


def test_signals_end_calls(forever):
    program = """
        import incarnate, signal, sys, threading, time
        net = incarnate.load(sys.argv[1])
        calling, handled = False, 0
        def handle(number, frame):
            global handled
            handled += calling
            # The first ones may arrive before the call; that there are more shows that it handles signals and goes on.
            if handled == 5:
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handle)
        def interrupt():
            while True:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                time.sleep(0.01)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            calling = True
            net()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            print("interrupted")
    """
    done = run(program, forever)
    assert done.stdout == "interrupted\n", done.stderr


def test_limits_end_calls(forever):
    for options, error in [
        ({"timeout": 0.05}, incarnate.DeadlineExceededError),
        ({"fuel": 100_000}, incarnate.ResourceExhaustedError),
        ({"untrusted": True, "timeout": 0.05}, incarnate.DeadlineExceededError),
    ]:
        net = incarnate.load(forever, **options)
        for _ in range(2):
            with pytest.raises(error) as raised:
                net()
            assert raised.value.locations and "@m.f" in raised.value.locations[0]


def test_asyncio(model, device):
    net = model("dynamic", device=device)

    async def calls():
        inputs = [np.full((50, 4), each, np.float32) for each in range(16)]
        results = await asyncio.gather(*(net.scale_rows.call_async(x, [2, 2, 2, 2]) for x in inputs))
        for x, result in zip(inputs, results):
            np.testing.assert_array_equal(result, 2 * x)
        with pytest.raises(incarnate.InvalidArgumentError):
            await net.scale_rows.call_async(inputs[0], [1])

    asyncio.run(calls())


def test_children_of_fork_load_again(models, device):
    path = models / "accumulator" / "vmvx.vmfb"
    net = incarnate.load(path, device)
    ones = np.ones(4, np.float32)
    net.accumulate(ones)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        # The state of a child is its own, and begins anew.
        before = net.count()
        net.accumulate(ones)
        os.write(writer, repr([before, net.count(), incarnate.load(path).count()]).encode())
        os._exit(0)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 100) == b"[0, 1, 0]"
    net.accumulate(ones)
    assert net.count() == 2


@pytest.mark.filterwarnings("ignore:.*computes with f32")
def test_children_of_fork_load_what_is_in_no_cache(tmp_path, compiler):
    source = tmp_path / "net.mlir"
    source.write_text("")
    # A compilation with flags that name files is not kept.
    net = incarnate.load(source, flags=["--iree-opt-export-parameters=w=w.irpa"], iree_compile=compiler)
    child = os.fork()
    if child == 0:
        os._exit(0 if net([1, 2, 3, 4], [2, 2, 2, 2]).tolist() == [2, 4, 6, 8] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert net([1, 2, 3, 4], [3, 3, 3, 3]).tolist() == [3, 6, 9, 12]


def test_children_of_children(model):
    net = model("simple_mul")
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if net([1, 2, 3, 4], [1, 1, 1, 1]).tolist() == [1, 2, 3, 4] else 1)
        first = os.waitpid(grandchild, 0)[1]
        os._exit(first or (0 if net([1, 2, 3, 4], [2, 2, 2, 2]).tolist() == [2, 4, 6, 8] else 1))
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_multiprocessing(model):
    import multiprocessing

    net = model("simple_mul")
    for method in ["fork", "spawn"]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            arguments = [([each] * 4, [2] * 4) for each in range(8)]
            results = pool.starmap(net, arguments)
        assert [result.tolist() for result in results] == [[2.0 * each] * 4 for each in range(8)]
