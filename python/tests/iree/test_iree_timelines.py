"""Semaphores, fences, queues, asyncio."""

import asyncio
import signal
import threading
import time

import numpy as np
import pytest

import incarnate.iree.runtime as rt


def test_a_wait_has_a_timeout_or_a_deadline(device):
    semaphore = device.create_semaphore(0)
    assert not semaphore.wait(1, timeout=0) and not semaphore.wait(1, deadline=0)
    assert not semaphore.wait(1, timeout=5_000_000)
    assert not semaphore.wait(1, deadline=time.time_ns() + 5_000_000)
    with pytest.raises(ValueError, match="not both"):
        semaphore.wait(1, timeout=0, deadline=0)
    semaphore.signal(1)
    assert semaphore.wait(1) and semaphore.wait(1, deadline=time.time_ns() + (60 << 30))
    with pytest.raises(ValueError, match="INVALID_ARGUMENT"):
        semaphore.signal(1)


def test_a_waiting_thread_lets_others_run(device):
    semaphore = device.create_semaphore(0)
    thread = threading.Thread(target=semaphore.wait, args=(1,))
    thread.start()
    semaphore.signal(1)
    thread.join()


def interrupted(function, *arguments):
    """Calls a function until a signal handler raises."""

    def interrupt(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            function(*arguments)
    finally:
        signal.signal(signal.SIGALRM, former)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_an_interrupt_ends_a_wait(device):
    interrupted(device.create_semaphore(0).wait, 1)
    interrupted(rt.HalFence.create_at(device.create_semaphore(0), 1).wait)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_an_interrupt_ends_a_call(load, models):
    native = rt.VmModule.mmap(rt.VmInstance(), str(models / "native_import_module/vm.vmfb"))
    module = load("vm", native, file="vm.vmfb")
    # Minutes: the result of each iteration decides the next one.
    interrupted(module.multiply_add_modulo, (1 << 31) - 1)
    assert module.call_internal(5) == 5


def test_operations_wait_for_semaphores(device):
    first, second = device.create_semaphore(0), device.create_semaphore(0)
    source = rt.asdevicearray(device, np.arange(4, dtype=np.int32))._buffer_view.get_buffer()
    target = device.queue_alloca(16, wait_semaphores=[], signal_semaphores=[])
    target.fill_zero(0, 16)
    wait = rt.HalFence.join([rt.HalFence.create_at(first, 1), rt.HalFence.create_at(second, 2)])
    done = rt.HalFence.create_at(device.create_semaphore(0), 5)
    device.queue_copy(source, target, wait_semaphores=wait, signal_semaphores=done)
    first.signal(1)
    assert not done.wait(timeout=0)
    assert not np.frombuffer(target.map(), np.int32).any()
    second.signal(3)
    assert done.wait()
    np.testing.assert_array_equal(np.frombuffer(target.map(), np.int32), [0, 1, 2, 3])


def test_failures_reach_what_waits(device):
    semaphore = device.create_semaphore(0)
    done = rt.HalFence.create_at(device.create_semaphore(0), 1)
    device.queue_execute(None, wait_semaphores=[(semaphore, 1)], signal_semaphores=done)
    semaphore.fail("the sensor is gone")
    with pytest.raises(RuntimeError, match="synchronous fence failure: UNKNOWN; the sensor is gone"):
        done.wait()
    with pytest.raises(RuntimeError, match="the sensor is gone"):
        semaphore.query()


def test_fences_have_a_capacity(device):
    semaphores = [device.create_semaphore(0) for _ in range(3)]
    fence = rt.HalFence(2)
    for semaphore in semaphores[:2]:
        fence.insert(semaphore, 1)
    fence.insert(semaphores[0], 3)
    assert fence.timepoint_count == 2
    with pytest.raises(RuntimeError, match="capacity 2"):
        fence.insert(semaphores[2], 1)
    fence.signal()
    assert [semaphore.query() for semaphore in semaphores] == [3, 1, 0]
    assert rt.HalFence.join([]).timepoint_count == 0 and rt.HalFence(0).wait()


def test_asynchronous_functions_take_fences(device, models):
    config = rt.Config(device=device)
    file = models / "simple_mul/async-external.vmfb"
    module = rt.VmModule.mmap(config.vm_instance, str(file))
    try:
        context = rt.VmContext(config.vm_instance, [*config.default_vm_modules, module])
    except RuntimeError as error:
        pytest.skip(f"machine code of another processor: {error}")
    arguments, results = rt.VmVariantList(4), rt.VmVariantList(1)
    x = rt.asdevicearray(device, np.arange(4, dtype=np.float32))
    wait, done = (rt.HalFence.create_at(device.create_semaphore(0), 1) for _ in range(2))
    for reference in (x._buffer_view, x._buffer_view, wait, done):
        arguments.push_ref(reference)
    context.invoke(module.lookup_function("simple_mul"), arguments, results)
    assert not done.wait(timeout=0)
    wait.signal()
    assert done.wait()
    result = rt.DeviceArray(device, results.get_as_object(0, rt.HalBufferView))
    np.testing.assert_array_equal(result.to_host(), np.arange(4) ** 2)


def test_futures_of_semaphores(device):
    async def main():
        bridge = rt.HalDeviceLoopBridge(device, asyncio.get_running_loop())
        first, second, third = (device.create_semaphore(0) for _ in range(3))
        reached = bridge.on_semaphore(first, 2, "reached")
        failed = bridge.on_semaphore(second, 1, "never")
        forgotten = bridge.on_semaphore(third, 1, "never")
        first.signal(1)
        assert not reached.done()
        first.signal(2)
        assert await reached == "reached"
        second.fail("the sensor is gone")
        with pytest.raises(RuntimeError, match="the sensor is gone"):
            await failed
        await asyncio.get_running_loop().run_in_executor(None, bridge.stop)
        bridge.stop()
        with pytest.raises(asyncio.CancelledError):
            await forgotten
        with pytest.raises(RuntimeError, match="stopped"):
            bridge.on_semaphore(first, 3, None)

    asyncio.run(main())
