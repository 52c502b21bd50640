//! Parts of constants with their elements in another order, kept for contractions that read them again.
//!
//! A matrix whose sums run along its adjacent elements, as most frameworks store weights, is read across lines of the cache: its
//! elements must be transposed before they are vectors. What a contraction reads of a constant is transposed once, when it is read for
//! the second time, and kept as long as the constant.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Buffer, Storage};
use crate::Error;
use crate::sync::Once;
use incarnate_kernels::Loop;

/// The most bytes of layouts of a constant, which are never more than the constant's either: beyond, memory is what limits kernels.
const MAX_BYTES: usize = 256 << 20;
/// Bytes of a constant for each list of layouts.
const BYTES_OF_A_LIST: usize = 16 << 10;
/// The most lists.
const MAX_LISTS: usize = 4096;
/// The most loops that move the operand.
const MAX_AXES: usize = 4;
/// The most loops of a contraction.
const MAX_LOOPS: usize = 8;
/// The fewest columns of a matrix that is transposed.
const MIN_COLUMNS: usize = 4;
/// Elements of 32 bits in a line of the cache.
const LINE: usize = 16;
/// Elements in 4 KiB: lines at such a distance compete for one set of the cache.
const COMPETING: usize = 1024;
/// Bytes of an element.
const WIDTH: usize = size_of::<u32>();
/// The alignment of layouts, in bytes: a line of the cache.
const ALIGNMENT: u32 = 64;

/// The bytes of a constant from an offset on, which memory that a kernel reads has, too: a binding, for instance.
///
/// It is an address. Who passes it on keeps the constant: see [`Buffer::of_constant`].
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

/// A loop that moves an operand: its trip count and its stride, in elements.
type Axis = (usize, i64);

/// What a contraction reads of a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    /// The position of the first iteration's element in the constant, in bytes.
    first: usize,
    /// The loops from the outermost one of the layout to its columns; unused ones are zero.
    axes: [Axis; MAX_AXES],
}

/// A part that was read.
struct Node {
    part: Part,
    /// The elements in the layout's order; None where they would take too much memory.
    layout: Once<Option<Arc<Buffer>>>,
    next: Once<Box<Node>>,
}

/// The layouts of a constant. Nothing is removed while the constant lives.
#[derive(Default)]
pub(super) struct Layouts {
    lists: Once<Vec<Once<Box<Node>>>>,
    /// Bytes of all layouts and nodes.
    bytes: AtomicUsize,
}

impl Layouts {
    /// Returns a part in the layout's order, if it was read before and there is memory for it.
    fn layout(&self, constant: &Buffer, part: &Part) -> Option<&Buffer> {
        let lists = match self.lists.get() {
            Some(lists) => lists,
            None => self.lists.get_or_try_init(|| lists(constant.length)).ok()?,
        };
        let mut slot = lists.get(part.first / BYTES_OF_A_LIST % lists.len().max(1))?;
        while let Some(node) = slot.get() {
            if node.part == *part {
                return match node.layout.get() {
                    Some(layout) => layout.as_deref(),
                    None => self.keep(node, self.create(constant, part)),
                };
            }
            slot = &node.next;
        }
        // Read for the first time. If another thread adds a node meanwhile, this one is added when the part is read again.
        if self.take(constant, size_of::<Node>()) {
            let node = || Ok(Box::new(Node { part: *part, layout: Once::default(), next: Once::default() }));
            let _ = slot.get_or_try_init(node);
        }
        None
    }

    /// Keeps the layout of a node, or drops it where another thread was first.
    #[cold]
    fn keep<'a>(&self, node: &'a Node, layout: Option<Arc<Buffer>>) -> Option<&'a Buffer> {
        let own = layout.as_ref().map(|own| (Arc::as_ptr(own), own.length));
        let kept = node.layout.get_or_try_init(|| Ok(layout)).ok()?.as_deref();
        if let Some((_, bytes)) = own.filter(|(own, _)| !kept.is_some_and(|kept| core::ptr::eq(kept, *own))) {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        kept
    }

    /// Takes bytes from what the layouts of a constant may have.
    fn take(&self, constant: &Buffer, bytes: usize) -> bool {
        let limit = constant.length.min(MAX_BYTES);
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Copies a part.
    #[cold]
    fn create(&self, constant: &Buffer, part: &Part) -> Option<Arc<Buffer>> {
        let strides = strides(&part.axes);
        let length = part.axes.first().zip(strides.first()).map(|(axis, stride)| axis.0 * *stride as usize)?;
        if !self.take(constant, length * WIDTH) {
            return None;
        }
        let layout = Buffer::zeroed((length * WIDTH) as u64, ALIGNMENT, None).ok()?;
        let from = constant.data.as_ptr().wrapping_add(part.first).cast::<u32>();
        // SAFETY: `relaid` was told that the elements of all iterations are within the constant; those of the layout are within its
        // length, which nobody else accesses yet.
        unsafe { copy(from.cast_const(), layout.data.as_ptr().cast(), &part.axes, &strides) };
        Some(layout)
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
    let (Some(((count, stride), axes)), Some((into_stride, strides))) = (axes.split_first(), strides.split_first())
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

/// The strides of the axes in a layout, in elements. Lines of columns do not compete for sets of the cache.
fn strides(axes: &[Axis; MAX_AXES]) -> [i64; MAX_AXES] {
    let mut strides = [1; MAX_AXES];
    for at in (1..MAX_AXES).rev() {
        let length = strides[at] * axes[at].0 as i64;
        let is_competing = at == MAX_AXES - 1 && (length as usize).is_multiple_of(COMPETING);
        strides[at - 1] = length + if is_competing { LINE as i64 } else { 0 };
    }
    strides
}

/// The stride of an operand in a loop.
type Stride = fn(&mut Loop) -> &mut i64;

/// A contraction with an operand in another layout.
pub(super) struct Relaid {
    loops: [Loop; MAX_LOOPS],
    count: usize,
    /// The address of the first iteration's element.
    pub(super) first: *const u8,
}

impl Relaid {
    pub(super) fn loops(&self) -> &[Loop] {
        self.loops.get(..self.count).unwrap_or_default()
    }
}

/// Returns the contraction with an operand whose vectors are adjacent, if the operand is a part of a constant that must be transposed,
/// and was read before. The operand's elements are within the constant: that of the first iteration is at `first`, and those of all
/// iterations are in so many bytes.
pub(super) fn relaid(loops: &[Loop], first: ConstantBytes, bytes: usize, stride: Stride) -> Option<Relaid> {
    let count = loops.len();
    let mut relaid = Relaid { loops: [Loop::default(); MAX_LOOPS], count, first: core::ptr::null() };
    relaid.loops.get_mut(..count)?.copy_from_slice(loops);
    let stride_of = |each: &Loop| *stride(&mut { *each });
    // The loop whose elements of the output are adjacent, and those that move the operand, in the order of the layout.
    let columns = (0..count).filter(|at| loops[*at].output == 1).max_by_key(|at| loops[*at].count)?;
    let is_across = ![0, 1].contains(&stride_of(&loops[columns])) && loops[columns].count >= MIN_COLUMNS;
    let is_adjacent = loops.iter().any(|each| each.output == 0 && stride_of(each) == 1 && each.count > 1);
    if !is_across || !is_adjacent {
        return None;
    }
    let of = |sums: bool| {
        (0..count).filter(move |at| *at != columns && (loops[*at].output == 0) == sums && stride_of(&loops[*at]) != 0)
    };
    let (mut order, mut axes) = ([None; MAX_AXES], [(1, 0); MAX_AXES]);
    let moving = of(false).chain(of(true)).chain([columns]);
    let unused = MAX_AXES.checked_sub(moving.clone().count())?;
    for (at, axis) in moving.zip(unused..) {
        (order[axis], axes[axis]) = (Some(at), (loops[at].count, stride_of(&loops[at])));
    }
    // Elements that several iterations read would be copied several times.
    let elements = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.0))?;
    if elements > bytes / WIDTH {
        return None;
    }
    // SAFETY: who passed the address on keeps the constant.
    let constant = unsafe { first.constant.as_ref() };
    let Storage::Contents(_, layouts) = &constant.storage else { return None };
    let layout = layouts.layout(constant, &Part { first: first.offset, axes })?;
    for (at, new) in order.iter().zip(strides(&axes)) {
        if let Some(at) = at {
            *stride(&mut relaid.loops[*at]) = new;
        }
    }
    relaid.first = layout.data.as_ptr();
    Some(relaid)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::{Contract, View};
    use super::*;
    use crate::Ref;
    use incarnate_bytecode::Contents;
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
            let borrowed = Buffer::borrowed(memory.as_ptr(), count * WIDTH, false);
            borrowed.of_constant(ConstantBytes::new(&constant, skipped).unwrap())
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
        let (left, right) = (View::new(left.0, left.1), View::new(right.0, right.1));
        // SAFETY: a test's memory is that of one thread.
        assert!(unsafe { O::contract(View::new(&output, 0), &left, &right, loops, &mut || true) });
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
            &matrix_vector(5, 7),
            &matrix_vector(1024, 9),
            // Rows share the matrix.
            &[each(3, 20, 11, 0), each(20, 1, 0, 11), each(11, 0, 1, 1)],
            // Of a batch, whose matrices have another order than the columns.
            &[each(4, 12, 0, 9), each(12, 1, 0, 36), each(9, 0, 1, 1)],
            &[each(2, 24, 15, 6 * 15), each(6, 1, 0, 15), each(3, 0, 5, 5), each(5, 0, 1, 1)],
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
                assert_eq!(kept(&constant) > size_of::<Node>(), times > 1, "{loops:?} {times}");
            }
            // With the operands exchanged.
            let swapped = loops.iter().map(|each| Loop { left: each.right, right: each.left, ..*each });
            let swapped = swapped.collect::<Vec<_>>();
            assert_eq!(run::<FmaF32>(outputs, (&borrowed, 100), (&left, 0), &swapped), expected, "{loops:?}");
        }
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
        assert!((1..=constant.length).contains(&kept(&constant)));
    }
}
