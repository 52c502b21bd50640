//! Parts of constants with their elements in another order, kept for contractions that read them again.
//!
//! A matrix whose sums run along its adjacent elements, as most frameworks store weights, is read across lines of the cache: its
//! elements must be transposed before they are vectors. What a contraction reads of a constant is copied in the
//! [order that suits it](Layout) once, when it is read for the second time, and kept as long as the constant.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Block, Buffer, Chunk, Storage};
use crate::Error;
use crate::sync::Once;
use incarnate_kernels::contraction::{Axis, Layout};

/// The most bytes of layouts of a constant: beyond, memory is what limits kernels.
const MAX_BYTES: usize = 1 << 30;
/// The most layouts of a constant's elements: a matrix may be multiplied by single rows and by several, which have different ones.
const ORDERS: usize = 2;
/// Bytes of a constant for each list of layouts.
const BYTES_OF_A_LIST: usize = 16 << 10;
/// The most lists.
const MAX_LISTS: usize = 4096;
/// The most parts in a list, each of which takes some hundred bytes: kernels cut matrices into a few in so many bytes.
const MAX_NODES: usize = 32;
/// Bytes of an element.
const WIDTH: usize = size_of::<u32>();
/// The alignment of layouts, in bytes: a line of the cache.
const ALIGNMENT: usize = 64;

/// The bytes of a constant from an offset on, which memory that a kernel reads has, too: a binding, for instance.
///
/// It is an address. Who passes it on keeps the constant: see [`Buffer::borrow_other`].
#[derive(Clone, Copy, Debug)]
pub struct ConstantBytes {
    constant: NonNull<Buffer>,
    offset: usize,
}

// SAFETY: what is reached through it is a buffer, which threads may share.
unsafe impl Send for ConstantBytes {}
// SAFETY: as above.
unsafe impl Sync for ConstantBytes {}

impl ConstantBytes {
    /// Names the bytes from `offset` on of a buffer over a module's file. None for other buffers.
    #[must_use]
    pub fn new(constant: &Arc<Buffer>, offset: usize) -> Option<ConstantBytes> {
        let is_constant = matches!(constant.storage, Storage::Contents(..));
        is_constant.then(|| ConstantBytes { constant: NonNull::from(&**constant), offset })
    }

    /// The bytes that are so many further.
    #[must_use]
    pub const fn moved(self, bytes: usize) -> ConstantBytes {
        ConstantBytes { offset: self.offset.wrapping_add(bytes), ..self }
    }
}

/// The loops that move an operand, in the order of a layout.
type Axes = [Axis; Layout::AXES];

/// A part that was read.
struct Node {
    /// The position of the first iteration's element in the constant, in bytes.
    first: usize,
    /// The loops over the elements, in the order of the layout, which decide its strides.
    axes: Axes,
    /// A thread copies the elements, or has copied them.
    is_copied: AtomicBool,
    /// The elements in the layout's order; None where they would take too much memory.
    elements: Once<Option<Block>>,
    next: Once<Box<Node>>,
}

/// The layouts of a constant. Nothing is removed while the constant lives.
#[derive(Default)]
pub(super) struct Layouts {
    lists: Once<Vec<Once<Box<Node>>>>,
    /// Bytes of the elements of all layouts.
    bytes: AtomicUsize,
    /// Memory for them, once a long constant has one; None where the system has no such memory.
    chunk: Once<Option<Arc<Chunk>>>,
}

impl Layouts {
    /// Returns a part in the layout's order, if it was read before and there is memory for it.
    ///
    /// # Safety
    /// The elements of all iterations are within the constant.
    unsafe fn elements(&self, constant: &Buffer, first: usize, layout: &Layout) -> Option<&Block> {
        let lists = match self.lists.get() {
            Some(lists) => lists,
            None => self.lists.get_or_try_init(|| lists(constant.length)).ok()?,
        };
        let mut slot = lists.get(first / BYTES_OF_A_LIST % lists.len().max(1))?;
        for _ in 0..MAX_NODES {
            let Some(node) = slot.get() else {
                // Read for the first time. If another thread adds a node meanwhile, this one is added when the part is read again.
                let node = Node {
                    first,
                    axes: layout.axes,
                    is_copied: AtomicBool::new(false),
                    elements: Once::default(),
                    next: Once::default(),
                };
                let _ = slot.get_or_try_init(|| Ok(Box::new(node)));
                return None;
            };
            if node.first == first && node.axes == layout.axes {
                if node.elements.get().is_none() && !node.is_copied.swap(true, Ordering::Relaxed) {
                    // SAFETY: promised by the caller.
                    let copied = unsafe { self.copied(constant, first, layout) };
                    let _ = node.elements.get_or_try_init(|| Ok(copied));
                }
                return node.elements.get()?.as_ref();
            }
            slot = &node.next;
        }
        None
    }

    /// Copies a part. None where there is no memory for it.
    ///
    /// # Safety
    /// The elements of all iterations are within the constant.
    #[cold]
    unsafe fn copied(&self, constant: &Buffer, first: usize, layout: &Layout) -> Option<Block> {
        let bytes = layout.elements().checked_mul(WIDTH)?.checked_next_multiple_of(ALIGNMENT)?;
        let limit = constant.length.saturating_mul(ORDERS).min(MAX_BYTES);
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        let offset = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        let chunk = if constant.length >= Chunk::UNIT { self.chunk(limit) } else { None };
        let in_chunk = chunk.and_then(|chunk| Block::of_chunk(Arc::clone(chunk), offset, bytes));
        let Some(copied) = in_chunk.or_else(|| Block::allocate(bytes, ALIGNMENT)) else {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        let from = constant.data.as_ptr().wrapping_add(first).cast::<u32>();
        // SAFETY: promised by the caller; those of the layout are within the block, which no other thread has yet.
        unsafe { copy(from.cast_const(), copied.pointer().as_ptr().cast(), &layout.axes, &layout.strides) };
        Some(copied)
    }

    /// Memory for layouts of so many bytes. Kernels that read matrices read some megabytes once in a call, from everywhere in them:
    /// with small pages, those of 4 MB took a fifth longer.
    fn chunk(&self, limit: usize) -> Option<&Arc<Chunk>> {
        self.chunk.get_or_try_init(|| Ok(Chunk::map(limit))).ok()?.as_ref()
    }
}

fn lists(length: usize) -> crate::Result<Vec<Once<Box<Node>>>> {
    let count = (length / BYTES_OF_A_LIST).clamp(1, MAX_LISTS);
    let mut lists = Vec::new();
    lists.try_reserve_exact(count).map_err(|_| Error::resource_exhausted("no memory for lists of layouts"))?;
    lists.extend(iter::repeat_with(Once::default).take(count));
    Ok(lists)
}

/// Copies the elements of all iterations, the last axis innermost. They may be at any address in the constant.
///
/// # Safety
/// They are valid at the addresses: for reads, and those of `into` for writes that nothing else accesses.
unsafe fn copy(from: *const u32, into: *mut u32, axes: &[Axis], strides: &[i64]) {
    let (Some((Axis { count, stride }, axes)), Some((into_stride, strides))) =
        (axes.split_first(), strides.split_first())
    else {
        return;
    };
    for index in 0..*count as i64 {
        let from = from.wrapping_offset(stride.wrapping_mul(index) as isize);
        let into = into.wrapping_offset(into_stride.wrapping_mul(index) as isize);
        // SAFETY: promised by the caller: these are the elements of an iteration. A file that is mapped may change meanwhile: what is
        // read is then unspecified.
        unsafe {
            match axes {
                [] => into.write(from.cast::<MaybeUninit<u32>>().read_unaligned().assume_init()),
                _ => copy(from, into, axes, strides),
            }
        }
    }
}

/// Returns the elements of an operand in a layout, if they were read before and there is memory for them.
///
/// # Safety
/// The constant lives, and the elements of all iterations are within it; that of the first one is at `first`. Both follow from
/// [`Buffer::borrow_other`] for elements that [`Memory::region_of`](super::Memory::region_of) found within such a buffer.
pub(super) unsafe fn elements(first: ConstantBytes, layout: &Layout) -> Option<*const u8> {
    // SAFETY: promised by the caller.
    let constant = unsafe { first.constant.as_ref() };
    let Storage::Contents(_, layouts) = &constant.storage else { return None };
    // SAFETY: promised by the caller.
    let elements = unsafe { layouts.elements(constant, first.offset, layout) }?;
    Some(elements.pointer().as_ptr())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
mod tests {
    use super::super::{Contract, HasMemory, View};
    use super::*;
    use crate::Ref;
    use incarnate_bytecode::Contents;
    use incarnate_kernels::Loop;
    use incarnate_kernels::contraction::{FmaF32, FmaF32AnyOrder};

    const fn each(count: usize, output: i64, left: i64, right: i64) -> Loop {
        Loop { count, output, left, right }
    }

    /// A matrix by columns, times a vector.
    const fn matrix_vector(columns: usize, sums: usize) -> [Loop; 2] {
        [each(columns, 1, 0, sums as i64), each(sums, 0, 1, 1)]
    }

    /// Bytes of different numbers, so that the order of sums matters.
    fn bytes(count: usize) -> Vec<u8> {
        let number = |at: usize| (at as u32).wrapping_mul(2_654_435_769) >> 8;
        (0..count).flat_map(|at| (number(at) as f32 / 65536.0 - 100.0).to_le_bytes()).collect()
    }

    /// A constant, and a borrowed buffer with its bytes from `skipped` on.
    fn constant(count: usize, skipped: usize) -> (Arc<Buffer>, Ref, Ref) {
        let contents = [alloc::vec![0; skipped], bytes(count)].concat();
        let length = contents.len();
        let constant = Buffer::of_contents(Arc::new(Contents::from_vec(contents)), 0..length).unwrap();
        let memory = Buffer::copy_of(&bytes(count)).unwrap();
        // SAFETY: the caller keeps the memory, which nothing writes to, and the constant.
        let borrowed = unsafe {
            let memory = (memory.as_ptr(), count * WIDTH, false);
            let mut borrowed = Buffer::borrowed(memory.0, memory.1, memory.2);
            borrowed.borrow_other(memory, Some(ConstantBytes::new(&constant, skipped).unwrap()));
            borrowed
        };
        (constant, Ref::Buffer(memory), Ref::Buffer(Arc::new(borrowed)))
    }

    fn run<O: Contract<Number = f32>>(
        outputs: usize,
        left: (&Ref, i64),
        right: (&Ref, i64),
        loops: &[Loop],
    ) -> Vec<u8> {
        let output = Ref::Buffer(Buffer::copy_of(&bytes(outputs)).unwrap());
        let (left, right) = (View::new(left.0.memory(), left.1), View::new(right.0.memory(), right.1));
        // SAFETY: a test's memory is that of one thread.
        assert!(unsafe { O::contract(View::new(output.memory(), 0), &left, &right, loops, &mut || true) });
        let Ref::Buffer(output) = output else { return Vec::new() };
        output.to_vec().unwrap()
    }

    fn kept(constant: &Buffer) -> usize {
        let Storage::Contents(_, layouts) = &constant.storage else { return 0 };
        layouts.bytes.load(Ordering::Relaxed)
    }

    fn span(loops: &[Loop], stride: impl Fn(&Loop) -> i64) -> usize {
        loops.iter().map(|each| stride(each) as usize * (each.count - 1)).sum::<usize>() + 1
    }

    #[test]
    fn results_are_those_of_the_constant_as_it_stands() {
        let cases: [&[Loop]; 6] = [
            &matrix_vector(64, 33),
            &matrix_vector(40, 7),
            &matrix_vector(1024, 9),
            // Rows share the matrix.
            &[each(3, 20, 11, 0), each(20, 1, 0, 11), each(11, 0, 1, 1)],
            // Of a batch, whose matrices have another order than the columns.
            &[each(4, 12, 0, 9), each(12, 1, 0, 36), each(9, 0, 1, 1)],
            &[each(2, 60, 15, 40 * 15), each(40, 1, 0, 15), each(3, 0, 5, 5), each(5, 0, 1, 1)],
        ];
        for (loops, skipped) in cases.iter().flat_map(|loops| [(*loops, 0), (*loops, 4), (*loops, 3)]) {
            let [outputs, lefts, rights] =
                [span(loops, |each| each.output), span(loops, |each| each.left), span(loops, |each| each.right)];
            let left = Ref::Buffer(Buffer::copy_of(&bytes(lefts)).unwrap());
            // Elsewhere in the constant.
            let (constant, memory, borrowed) = constant(rights + 1000, skipped);
            let expected = run::<FmaF32>(outputs, (&left, 0), (&memory, 100), loops);
            for times in 1..=3 {
                assert_eq!(run::<FmaF32>(outputs, (&left, 0), (&borrowed, 100), loops), expected, "{loops:?} {times}");
                assert_eq!(kept(&constant) > 0, times > 1, "{loops:?} {times}");
            }
            // With the operands exchanged.
            let swapped = loops.iter().map(|each| Loop { left: each.right, right: each.left, ..*each });
            let swapped = swapped.collect::<Vec<_>>();
            assert_eq!(run::<FmaF32>(outputs, (&borrowed, 100), (&left, 0), &swapped), expected, "{loops:?}");
        }
    }

    #[test]
    fn a_layout_may_be_of_the_whole_constant() {
        let left = Ref::Buffer(Buffer::copy_of(&bytes(9)).unwrap());
        let loops = matrix_vector(1024, 9);
        let (constant, memory, borrowed) = constant(1024 * 9, 0);
        let expected = run::<FmaF32>(1024, (&left, 0), (&memory, 0), &loops);
        for _ in 0..3 {
            assert_eq!(run::<FmaF32>(1024, (&left, 0), (&borrowed, 0), &loops), expected);
        }
        assert_eq!(kept(&constant), constant.length);
    }

    #[test]
    fn single_rows_and_several_have_layouts_of_their_own() {
        let left = Ref::Buffer(Buffer::copy_of(&bytes(33 * 512)).unwrap());
        let (constant, memory, borrowed) = constant(64 * 512, 0);
        let rows = |rows: usize| [each(rows, 64, 512, 0), each(64, 1, 0, 512), each(512, 0, 1, 1)];
        for _ in 0..3 {
            for count in [33, 1] {
                let expected = run::<FmaF32>(64 * count, (&left, 0), (&memory, 0), &rows(count));
                assert_eq!(run::<FmaF32>(64 * count, (&left, 0), (&borrowed, 0), &rows(count)), expected);
            }
        }
        assert_eq!(kept(&constant), ORDERS * constant.length);
        // A tile of a matrix by rows.
        let (constant, memory, borrowed) = self::constant(128 * 512, 0);
        let loops = [each(33, 64, 512, 0), each(64, 1, 0, 1), each(512, 0, 1, 128)];
        for _ in 0..3 {
            let expected = run::<FmaF32>(64 * 33, (&left, 0), (&memory, 0), &loops);
            assert_eq!(run::<FmaF32>(64 * 33, (&left, 0), (&borrowed, 0), &loops), expected);
        }
        assert_eq!(kept(&constant), constant.length / 2);
    }

    #[test]
    fn parts_of_many_lengths_are_forgotten() {
        let left = Ref::Buffer(Buffer::copy_of(&bytes(2000)).unwrap());
        let (constant, memory, borrowed) = constant(64 * 2000, 0);
        for sums in 2..2000 {
            let loops = matrix_vector(40, sums);
            let expected = run::<FmaF32>(40, (&left, 0), (&memory, 0), &loops);
            assert_eq!(run::<FmaF32>(40, (&left, 0), (&borrowed, 0), &loops), expected);
        }
        let Storage::Contents(_, layouts) = &constant.storage else { panic!() };
        let mut slot = &layouts.lists.get().unwrap()[0];
        let mut count = 0;
        while let Some(node) = slot.get() {
            (slot, count) = (&node.next, count + 1);
        }
        assert_eq!(count, MAX_NODES);
    }

    #[test]
    fn what_is_adjacent_or_summed_in_another_order_stays() {
        let left = Ref::Buffer(Buffer::copy_of(&bytes(512)).unwrap());
        let (constant, memory, borrowed) = constant(64 * 512, 0);
        // By rows; a convolution's image; partial sums, whose order is that of the elements.
        let by_rows = [each(64, 1, 0, 1), each(512, 0, 1, 64)];
        let windows = [each(64, 1, 0, 2), each(512, 0, 1, 1)];
        for _ in 0..3 {
            for loops in [by_rows, windows] {
                let expected = run::<FmaF32>(64, (&left, 0), (&memory, 0), &loops);
                assert_eq!(run::<FmaF32>(64, (&left, 0), (&borrowed, 0), &loops), expected);
            }
            let loops = matrix_vector(64, 512);
            let expected = run::<FmaF32AnyOrder>(64, (&left, 0), (&memory, 0), &loops);
            assert_eq!(run::<FmaF32AnyOrder>(64, (&left, 0), (&borrowed, 0), &loops), expected);
        }
        assert_eq!(kept(&constant), 0);
    }

    #[test]
    fn layouts_are_no_longer_than_the_constant() {
        let left = Ref::Buffer(Buffer::copy_of(&bytes(64)).unwrap());
        let (constant, memory, borrowed) = constant(64 * 64, 0);
        // Parts that overlap: all of them are some hundred times as long.
        for _ in 0..2 {
            for first in 0..1000 {
                let loops = matrix_vector(32, 64);
                let expected = run::<FmaF32>(32, (&left, 0), (&memory, first), &loops);
                assert_eq!(run::<FmaF32>(32, (&left, 0), (&borrowed, first), &loops), expected);
            }
        }
        assert!((1..=ORDERS * constant.length).contains(&kept(&constant)));
    }
}
