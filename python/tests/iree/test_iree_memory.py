"""Memory that Python and the runtime share: who sees what, and how long it lives."""

import array
import gc
import sys
import weakref

import numpy as np
import pytest

import incarnate.iree.runtime as rt

MEMORY = {"memory_type": rt.MemoryType.DEVICE_LOCAL, "allowed_usage": rt.BufferUsage.DEFAULT}


def view_of(device, values):
    return rt.asdevicearray(device, values)._buffer_view


def test_mapped_arrays_are_the_memory_and_keep_it(device):
    view = view_of(device, np.arange(1000, dtype=np.int32))
    first, second = (view.map().asarray(view.shape, np.dtype(np.int32)) for _ in range(2))
    assert first.ctypes.data == second.ctypes.data and first.flags.writeable
    first[0] = 77
    assert second[0] == 77
    del view, second
    gc.collect()
    # Allocations reuse freed memory, so they would overwrite it.
    others = [view_of(device, np.full(1000, -1, np.int32)) for _ in range(20)]
    assert first[0] == 77 and first[999] == 999
    assert all(other.map().asarray([1000], np.dtype(np.int32)).ctypes.data != first.ctypes.data for other in others)


def test_results_outlive_device_and_context(load, device):
    module = load("mlp")
    array = module.mlp(np.ones((8, 32), np.float32)).to_host()
    expected = array.copy()
    del module
    gc.collect()
    view_of(device, np.full(array.shape, -1, np.float32))
    np.testing.assert_array_equal(array, expected)


def test_arguments_are_copied(device):
    values = np.arange(4, dtype=np.float32)
    view = view_of(device, values)
    values[:] = 0
    np.testing.assert_array_equal(view.map().asarray([4], np.dtype(np.float32)), [0, 1, 2, 3])


@pytest.mark.parametrize("offset", range(0, 64, 4))
def test_host_memory_is_imported_in_place_of_whatever_alignment(device, offset):
    memory = np.zeros(256, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    target = memory[start : start + 16].view(np.float32)
    imported = device.allocator.import_host_allocation(target, memory_type=0, allowed_usage=0)
    source = view_of(device, np.arange(4, dtype=np.float32)).get_buffer()
    semaphore = device.create_semaphore(0)
    device.queue_copy(source, imported, wait_semaphores=[], signal_semaphores=[(semaphore, 1)])
    assert semaphore.wait(1)
    np.testing.assert_array_equal(target, [0, 1, 2, 3])
    assert memory[:start].sum() == 0 and memory[start + 16 :].sum() == 0
    # The buffer keeps the memory.
    count = sys.getrefcount(memory)
    del target
    gc.collect()
    assert sys.getrefcount(memory) == count
    del imported
    gc.collect()
    assert sys.getrefcount(memory) == count - 1


def test_imported_memory_is_no_argument_of_kernels(load, device):
    # Kernels rely on its alignment.
    memory = np.zeros(4, np.float32)
    buffer = device.allocator.import_host_allocation(memory, memory_type=0, allowed_usage=rt.BufferUsage.DEFAULT)
    view = rt.HalBufferView(buffer, [4], rt.HalElementType.FLOAT_32)
    with pytest.raises((RuntimeError, ValueError)):
        load("simple_mul").simple_mul(view, view)


def test_read_only_memory_is_not_imported_for_writing(device):
    with pytest.raises((BufferError, ValueError)):
        device.allocator.import_host_allocation(b"constant", memory_type=0, allowed_usage=0)


def test_views_are_within_their_buffer(device):
    buffer = device.allocator.allocate_buffer(allocation_size=16, **MEMORY)
    view = rt.HalBufferView(buffer, (2, 2), rt.HalElementType.FLOAT_32)
    assert (view.shape, view.byte_length, view.element_type) == ([2, 2], 16, rt.HalElementType.FLOAT_32)
    with pytest.raises(ValueError, match="cannot hold"):
        rt.HalBufferView(buffer, (5,), rt.HalElementType.FLOAT_32)
    with pytest.raises((TypeError, ValueError)):
        view.map().asarray([5], np.dtype(np.float32))
    opaque = buffer.create_view(rt.Shape([4]), 4)
    assert opaque.element_type == rt.HalElementType.OPAQUE_32
    buffer.fill_zero(0, 16)
    assert bytes(buffer.map()) == bytes(16)
    with pytest.raises(IndexError):
        buffer.fill_zero(8, 16)


def test_empty_arrays_and_scalars(device):
    for values in [np.zeros((0, 3), np.float32), np.array(5, np.int64), np.float64(2.5)]:
        result = rt.asdevicearray(device, values, implicit_host_transfer=True)
        np.testing.assert_array_equal(result, values)
        np.testing.assert_array_equal(result._copy_to_host(), values)


def test_arrays_that_are_not_contiguous_are_refused_or_copied(device):
    strided = np.arange(10, dtype=np.int32)[::2]
    np.testing.assert_array_equal(rt.asdevicearray(device, strided).to_host(), strided)
    with pytest.raises((BufferError, ValueError)):
        device.allocator.allocate_buffer_copy(device=device, buffer=strided, **MEMORY)


def test_dlpack_shares_memory(device):
    values = rt.asdevicearray(device, np.arange(12, dtype=np.float32).reshape(3, 4))
    shared = np.from_dlpack(values)
    assert shared.ctypes.data == values.to_host().ctypes.data
    # Aligned memory is imported in place, and kept.
    address = shared.ctypes.data
    imported = device.from_dlpack_capsule(values.to_host().__dlpack__())
    assert imported.map().asarray([12], np.dtype(np.float32)).ctypes.data == address
    del values
    gc.collect()
    np.testing.assert_array_equal(shared, np.arange(12).reshape(3, 4))
    del shared
    gc.collect()
    np.testing.assert_array_equal(imported.map().asarray([3, 4], np.dtype(np.float32)), np.arange(12).reshape(3, 4))
    # Other memory is copied.
    odd = np.zeros(65, np.float32)
    odd = odd[(-odd.ctypes.data % 64) // 4 + 1 :][:4]
    copied = device.from_dlpack_capsule(odd.__dlpack__())
    odd[:] = 1
    np.testing.assert_array_equal(copied.map().asarray([4], np.dtype(np.float32)), [0, 0, 0, 0])


def test_dlpack_capsules_are_used_once_and_checked(device):
    capsule = np.zeros(4, np.float32).__dlpack__()
    device.from_dlpack_capsule(capsule)
    with pytest.raises(ValueError, match="was consumed"):
        device.from_dlpack_capsule(capsule)
    with pytest.raises(TypeError, match="no capsule of DLPack"):
        device.from_dlpack_capsule(object())
    # Tensors in another order are copied.
    strided = np.arange(16, dtype=np.float32).reshape(4, 4).T[:, :2]
    copied = device.from_dlpack_capsule(strided.__dlpack__())
    np.testing.assert_array_equal(copied.map().asarray([4, 2], np.dtype(np.float32)), strided)
    # A tensor that was copied is deleted at once.
    owner = np.ones((4, 4), np.float32)
    deleted, capsule = weakref.ref(owner), owner.T[:, :2].__dlpack__()
    del owner
    assert deleted() is not None
    copied = device.from_dlpack_capsule(capsule)
    gc.collect()
    assert deleted() is None
    np.testing.assert_array_equal(copied.map().asarray([4, 2], np.dtype(np.float32)), np.ones((4, 2)))
    view = view_of(device, np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="no type in DLPack"):
        device.create_dlpack_capsule(view.get_buffer().create_view(rt.Shape([4]), 4), 1, 0)
    # A capsule that no library takes frees its tensor.
    before = device.allocator.statistics["device_bytes_freed"]
    device.create_dlpack_capsule(view, 1, 0)
    del view
    gc.collect()
    assert device.allocator.statistics["device_bytes_freed"] >= before + 16


def test_device_arrays_are_accessed_explicitly_or_as_declared(device):
    values = np.array([[True, False], [False, True]])
    explicit = rt.asdevicearray(device, values)
    with pytest.raises(ValueError, match="to_host"):
        np.asarray(explicit)
    assert explicit.to_host().dtype == bool and len(explicit) == 2
    implicit = rt.asdevicearray(device, values, implicit_host_transfer=True)
    assert np.array_equal(implicit ^ values, np.zeros((2, 2), bool))
    assert implicit.astype(np.int64).sum() == 2
    assert np.asarray(implicit, dtype=np.float32).dtype == np.float32
    np.testing.assert_array_equal(np.concatenate([implicit, values]), np.concatenate([values, values]))
    with pytest.raises(ValueError, match="to_host"):
        np.concatenate([explicit, values])


def test_byte_buffers_are_memory_of_python():
    buffer = rt.VmBuffer(10)
    memoryview(buffer)[2:5] = b"abc"
    assert bytes(buffer) == b"\0\0abc" + bytes(5)
    view = memoryview(buffer)
    del buffer
    gc.collect()
    assert bytes(view[2:5]) == b"abc"
    constant = rt.VmBuffer(4, mutable=False)
    assert memoryview(constant).readonly
    with pytest.raises(ValueError, match="power of two"):
        rt.VmBuffer(4, alignment=3)
    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
        rt.VmBuffer(1 << 62)


def test_references_are_cast_to_their_types(device):
    view = view_of(device, np.zeros(4, np.float32))
    elements = rt.VmVariantList(3)
    elements.push_ref(view)
    elements.push_ref(view.get_buffer())
    elements.push_int(3)
    reference = elements.get_as_ref(0)
    assert reference.isinstance(rt.HalBufferView) and not reference.isinstance(rt.HalBuffer)
    assert reference.deref(rt.HalBufferView) == view and hash(reference.deref(rt.HalBufferView)) == hash(view)
    assert reference.deref(rt.HalBuffer, True) is None
    with pytest.raises(TypeError, match="hal.buffer_view"):
        reference.deref(rt.HalBuffer)
    assert elements.get_as_object(1, rt.HalBuffer) == view.get_buffer()
    assert elements.get_as_object(1, rt.HalFence) is None
    with pytest.raises(ValueError, match="no reference"):
        elements.get_as_ref(2)
    for index in (3, -1, 1 << 40):
        with pytest.raises(IndexError):
            elements.get_variant(index)
    described = elements.get_serialized_trace_value(0)
    assert described == {"type": "hal.buffer_view", "shape": [4], "element_type": "f32", "contents": bytes(16)}
    assert elements.get_serialized_trace_value(2) == {"type": "value", "i64": 3}


def test_commands_copy_and_fill(device):
    source = view_of(device, np.arange(4, dtype=np.int32)).get_buffer()
    target = device.allocator.allocate_buffer(allocation_size=16, **MEMORY)
    commands = rt.HalCommandBuffer(device)
    commands.fill(target, np.int32(-1))
    commands.copy(source, target, source_offset=4, target_offset=8, length=8, end=True)
    semaphore = device.create_semaphore(0)
    device.queue_execute(commands, wait_semaphores=[], signal_semaphores=[(semaphore, 1)])
    assert semaphore.wait(1)
    np.testing.assert_array_equal(target.map().asarray([4], np.dtype(np.int32)), [-1, -1, 1, 2])
    with pytest.raises(IndexError):
        rt.HalCommandBuffer(device).copy(source, target, length=17)
    with pytest.raises(ValueError, match="3 bytes"):
        rt.HalCommandBuffer(device).fill(target, array.array("b", [1, 2, 3]))
    with pytest.raises(ValueError, match="16 bytes"):
        rt.HalCommandBuffer(device).fill(target, np.complex128(1))
    with pytest.raises(RuntimeError, match="not finalized"):
        device.queue_execute(rt.HalCommandBuffer(device), wait_semaphores=[], signal_semaphores=[])
