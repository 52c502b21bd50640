#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::{Allocator, BufferParameters, StatusCode};

#[derive(Debug)]
#[repr(align(64))]
struct Aligned<const N: usize>([u8; N]);

impl<const N: usize> AsRef<[u8]> for Aligned<N> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn buffer(length: u64) -> Arc<Buffer> {
    Allocator::new().allocate(BufferParameters::DEVICE, length).unwrap()
}

#[test]
fn spans_share_the_allocation() {
    let whole = buffer(64);
    whole.fill(0, WHOLE_BUFFER, 0, 1).unwrap();
    let span = whole.subspan(16, 32).unwrap();
    let inner = span.subspan(8, WHOLE_BUFFER).unwrap();
    assert_eq!((inner.byte_offset(), inner.byte_length()), (24, 24));
    inner.write(0, &[1, 2, 3]).unwrap();
    assert_eq!(&whole.to_vec().unwrap()[23..28], &[0, 1, 2, 3, 0]);
    assert!(inner.same_allocation(&whole));
    assert!(Arc::ptr_eq(&span.subspan(0, 32).unwrap(), &span));
    drop((whole, span));
    assert_eq!(inner.to_vec().unwrap()[..3], [1, 2, 3]);
}

#[test]
fn ranges_are_checked() {
    let buffer = buffer(16);
    assert_eq!(buffer.range(4, WHOLE_BUFFER).unwrap(), (4, 12));
    assert_eq!(buffer.range(16, 0).unwrap(), (16, 0));
    for (offset, length) in [(17, 0), (17, WHOLE_BUFFER), (0, 17), (8, 9), (u64::MAX, 1), (1, u64::MAX - 1)] {
        assert_eq!(buffer.range(offset, length).unwrap_err().code(), StatusCode::OutOfRange, "{offset} {length}");
    }
    assert!(buffer.write(15, &[0; 2]).is_err());
    assert!(buffer.read(15, &mut [0; 2]).is_err());
    assert!(buffer.subspan(4, 13).is_err());
}

#[test]
fn fills_repeat_their_pattern() {
    for (pattern, length, expected) in [
        (0x11u64, 1, [0x11u8; 8]),
        (0x2211, 2, [0x11, 0x22, 0x11, 0x22, 0x11, 0x22, 0x11, 0x22]),
        (0x4433_2211, 4, [0x11, 0x22, 0x33, 0x44, 0x11, 0x22, 0x33, 0x44]),
        (0x8877_6655_4433_2211, 8, [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]),
    ] {
        let buffer = buffer(24);
        buffer.fill(0, WHOLE_BUFFER, 0, 8).unwrap();
        buffer.fill(8, 8, pattern, length).unwrap();
        let bytes = buffer.to_vec().unwrap();
        assert_eq!(bytes[8..16], expected);
        assert!(bytes[..8].iter().chain(&bytes[16..]).all(|byte| *byte == 0));
    }
    assert!(buffer(8).fill(0, 8, 0, 3).is_err());
    assert!(buffer(8).fill(2, 4, 0, 4).is_err());
    assert!(buffer(8).fill(0, 6, 1, 4).is_err());
}

#[test]
fn copies_may_overlap() {
    let buffer = buffer(8);
    buffer.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    buffer.copy_from(2, &buffer, 0, 6).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1, 2, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn read_only_memory_is_never_written() {
    let allocator = Allocator::new();
    let storage = Storage::from_owner(Arc::new(Aligned([1u8, 2, 3, 4])));
    let constants = allocator.wrap_aligned(storage, BufferParameters::DEVICE, Charge::none()).unwrap();
    assert_eq!(constants.to_vec().unwrap(), [1, 2, 3, 4]);
    let span = constants.subspan(1, 2).unwrap();
    assert_eq!(span.write(0, &[9]).unwrap_err().code(), StatusCode::PermissionDenied);
    assert_eq!(span.fill(0, 1, 0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
    assert_eq!(span.copy_from(0, &buffer(8), 0, 1).unwrap_err().code(), StatusCode::PermissionDenied);
    assert_eq!(span.to_vec().unwrap(), [2, 3]);
}

#[test]
fn memory_is_imported_in_place_where_it_is_aligned() {
    let allocator = Allocator::new();
    let owner = Arc::new(Aligned([5u8; 256]));
    let constants = allocator.import_or_copy(Arc::clone(&owner), BufferParameters::DEVICE).unwrap();
    assert_eq!(constants.pin(Access::Read).unwrap().address().0.cast_const(), owner.0.as_ptr());
    assert_eq!((constants.to_vec().unwrap(), allocator.statistics().allocated), (vec![5; 256], 0));
    // Machine code may write to what it gets.
    let pin = constants.pin(Access::Kernel).unwrap();
    assert!(pin.is_fixed() && pin.address().0.cast_const() != owner.0.as_ptr());
    drop(pin);
    constants.write(1, &[6]).unwrap();
    assert_eq!((constants.to_vec().unwrap()[..3].to_vec(), owner.0), (vec![5, 6, 5], [5; 256]));
    assert_eq!(allocator.statistics().allocated, 256);
    let odd: Arc<Vec<u8>> = Arc::new(vec![6u8; 100]);
    let shifted = allocator.import_or_copy(odd, BufferParameters::DEVICE).unwrap();
    assert_eq!(shifted.to_vec().unwrap(), [6; 100]);
    assert_eq!(shifted.pin(Access::Read).unwrap().address().0.align_offset(64), 0);
}

#[test]
fn memory_for_transfers_is_imported_in_place_of_whatever_alignment() {
    let allocator = Allocator::new();
    let memory = vm::Buffer::zeroed(100, 64, None).unwrap();
    let odd = vm::Buffer::part(&memory, 3, 96, true, Charge::none().share()).unwrap();
    let parameters =
        BufferParameters { usage: BufferUsage::TRANSFER | BufferUsage::DISPATCH, ..BufferParameters::DEVICE };
    let buffer = allocator.import_for_transfers(&odd, parameters).unwrap();
    assert!(!buffer.usage().intersects(BufferUsage::DISPATCH) && buffer.access().contains(MemoryAccess::UNALIGNED));
    assert!(buffer.subspan(1, 4).unwrap().access().contains(MemoryAccess::UNALIGNED));
    buffer.copy_from(1, &super::tests::buffer(8), 0, 8).unwrap();
    buffer.write(0, &[7]).unwrap();
    assert_eq!((odd.load::<u8>(0).unwrap(), memory.load::<u8>(3).unwrap()), (7, 7));
}

#[test]
fn checks_name_what_is_missing() {
    let buffer = buffer(16);
    let transfer = BufferUsage::TRANSFER;
    buffer.check(16, MemoryType::DEVICE_VISIBLE, transfer).unwrap();
    assert_eq!(buffer.check(17, MemoryType::DEVICE_VISIBLE, transfer).unwrap_err().code(), StatusCode::InvalidArgument);
    let error = buffer.check(1, MemoryType::DEVICE_VISIBLE, BufferUsage::SHARING_EXPORT).unwrap_err();
    assert_eq!(error.code(), StatusCode::PermissionDenied);
    assert!(error.message().contains("SHARING_EXPORT"), "{error}");
    let error = buffer.check(1, MemoryType::HOST_CACHED, transfer).unwrap_err();
    assert!(error.message().contains("HOST_CACHED"), "{error}");
}

#[test]
fn zero_length_buffers_work() {
    let buffer = buffer(0);
    assert_eq!(buffer.to_vec().unwrap(), [0u8; 0]);
    buffer.fill(0, WHOLE_BUFFER, 0, 4).unwrap();
    buffer.write(0, &[]).unwrap();
    assert_eq!(buffer.pin(Access::Read).unwrap().address().0.addr() % 64, 0);
}

#[test]
fn allocations_count_their_owners() {
    let whole = buffer(8);
    let span = whole.subspan(4, 4).unwrap();
    assert!(span.is_terminal_allocation());
    span.preserve_allocation();
    assert!(!whole.is_terminal_allocation());
    assert!(!whole.discard_allocation());
    assert!(span.discard_allocation());
}

#[test]
fn byte_buffers_of_programs_keep_the_memory_and_are_made_once() {
    let allocator = Allocator::new();
    let allocate = || allocator.allocate(BufferParameters::DEVICE, 16).unwrap();
    let mut whole = allocate();
    let span = whole.subspan(4, 8).unwrap();
    let (bytes, part) = (Arc::clone(whole.vm_buffer().unwrap()), Arc::clone(span.vm_buffer().unwrap()));
    assert!(Arc::ptr_eq(&bytes, whole.vm_buffer().unwrap()) && Arc::ptr_eq(&part, span.vm_buffer().unwrap()));
    drop(span);
    // A program that holds the bytes can write to them.
    assert!(whole.exclusive_bytes().is_none());
    drop(bytes);
    assert!(whole.exclusive_bytes().is_none());
    drop(whole);
    part.store::<u32>(1, 7).unwrap();
    assert_eq!(allocator.statistics().live, 16);
    let other = allocate();
    assert_ne!(other.pin(Access::Read).unwrap().address().0.addr() + 4, part.as_ptr().addr());
    assert_eq!((part.load::<u32>(1).unwrap(), allocator.statistics().live), (7, 32));
    drop((part, other));
    assert_eq!((allocator.statistics().live, allocator.statistics().cached), (0, 128));
    // What is reused has the length that is asked for.
    let shorter = allocator.allocate(BufferParameters::DEVICE, 3).unwrap();
    assert_eq!((shorter.vm_buffer().unwrap().length(), allocator.statistics().system_allocations), (3, 2));
    drop(shorter);
    allocator.trim();
    assert_eq!(allocator.statistics().cached, 0);
    let nothing = allocator.allocate(BufferParameters::DEVICE, 0).unwrap();
    assert_eq!(nothing.vm_buffer().unwrap().length(), 0);
}

#[test]
fn bytes_are_lent_to_the_only_holder() {
    let mut buffer = buffer(4);
    buffer.exclusive_bytes().unwrap().copy_from_slice(&[1, 2, 3, 4]);
    let other = Arc::clone(&buffer);
    assert!(buffer.exclusive_bytes().is_none());
    assert_eq!(other.to_vec().unwrap(), [1, 2, 3, 4]);
}
