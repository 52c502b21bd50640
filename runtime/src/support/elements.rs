//! The elements that loop nests access.

/// Borrows the elements of a buffer for a loop nest: `elements_of!(buffer, grid, f32, 1, base, loops)`.
///
/// It is no interface for programs, because it gives the promise that [`Memory::grid`](crate::vm::Memory::grid) asks for. The nests that
/// the translator emits keep it: what they load decides nothing before it is settled.
#[doc(hidden)]
#[macro_export]
macro_rules! elements_of {
    ($buffer:expr, $function:ident, $element:ty, $dimensions:literal, $base:expr, $loops:expr) => {
        // SAFETY: a nest loads numbers to compute with and to store, and settles divisors before it divides; and all that it leaves
        // behind (`settled`, `settle_memory`).
        unsafe {
            match $crate::vm::HasMemory::memory(&$buffer) {
                Some(memory) => $crate::vm::Memory::$function::<$element, $dimensions>(&memory, $base, $loops),
                None => None,
            }
        }
    };
}

/// Borrows all elements of a buffer for loads at indices that a loop nest computes: `gather_of!(buffer, f32)`.
///
/// It is no interface for programs, for the reason of [`elements_of`].
#[doc(hidden)]
#[macro_export]
macro_rules! gather_of {
    ($buffer:expr, $element:ty) => {
        // SAFETY: as in `elements_of`; the translator settles indices that were loaded.
        unsafe {
            match $crate::vm::HasMemory::memory(&$buffer) {
                Some(memory) => $crate::vm::Memory::gather::<$element>(&memory),
                None => None,
            }
        }
    };
}

/// Allocates a buffer for a contraction, which writes what later nests load: `accumulator!(stack, length, alignment)`. Its memory is not
/// cleared; `of_zeros` in [`contract`] takes it for zeros, and where the loops of the bytecode run instead, `buffer_clear` comes before.
///
/// It is no interface for programs, as the memory may have any bytes.
#[doc(hidden)]
#[macro_export]
macro_rules! accumulator {
    ($stack:expr, $length:expr, $alignment:expr) => {
        // SAFETY: the translator found that nothing is used but what a contraction has written before (`ir::nest::Accumulators`). It emits
        // `buffer_clear` where the contraction does not run.
        unsafe { $crate::vm::Buffer::uncleared($length as u64, $alignment as u32, Some(&$stack.limits().ledger)) }
            .map($crate::vm::Ref::Buffer)
    };
}

/// Runs a contraction in place of its loops: `contract!(FmaF32, (output, 0), (left, 8), (right, 0), [(count, 1, 0, 4), ..])` with a
/// buffer and the index of the first iteration's element each, and for each loop its trip count and the strides of the three.
/// Operands may be computed from elements: `(left, 8).map(|element: i16| ..)`, `(left, 8).extended_u8()` for narrow integers. The left one may be `one`. The call returns false, and does nothing, where the
/// original loop must run. An expression after the loops must be true; it is evaluated last.
///
/// It is no interface for programs, for the reason of [`elements_of`].
#[doc(hidden)]
#[macro_export]
macro_rules! contract {
    (
        $operation:ident,
        $output:tt,
        one,
        $($rest:tt)*
    ) => {
        $crate::contract!(@ $operation, $output, $crate::vm::One, $($rest)*)
    };
    (
        $operation:ident,
        $output:tt,
        ($left:expr, $left_base:expr) $(.$left_method:ident($($left_function:expr)?))?,
        $($rest:tt)*
    ) => {
        $crate::contract!(
            @ $operation,
            $output,
            $crate::vm::View::new($crate::vm::HasMemory::memory(&$left), $left_base)$(.$left_method($($left_function)?))?,
            $($rest)*
        )
    };
    (
        @ $operation:ident,
        ($output:expr, $output_base:expr $(, $zeros:ident)?),
        $left:expr,
        ($right:expr, $right_base:expr) $(.$right_method:ident($($right_function:expr)?))?,
        [$(($count:expr, $output_stride:expr, $left_stride:expr, $right_stride:expr)),*] $(, $permitted:expr)?
    ) => {{
        let loops = [$($crate::vm::kernels::Loop {
            count: $count,
            output: $output_stride,
            left: $left_stride,
            right: $right_stride,
        }),*];
        let output = $crate::vm::View::new($crate::vm::HasMemory::memory(&$output), $output_base)$(.$zeros())?;
        let left = $left;
        let right = $crate::vm::View::new($crate::vm::HasMemory::memory(&$right), $right_base)$(.$right_method($($right_function)?))?;
        let mut permitted = || true $(&& $permitted)?;
        // SAFETY: a nest loads numbers to compute with and to store, and settles the memory afterwards. Functions of operands only
        // compute, and divide by nothing that was loaded.
        unsafe {
            <$crate::vm::kernels::contraction::$operation as $crate::vm::Contract>::contract(
                output,
                &left,
                &right,
                &loops,
                &mut permitted,
            )
        }
    }};
}

/// Calls a function for the strips of a loop, the widest first: `strips!(count, strip(arguments), [4 x LANES, 1 x 16] over 16, [1 x 4])`
/// calls `strip::<4, LANES>(arguments, first, LANES)` for as many iterations as there are, and so on. The last arguments are the first
/// iteration, and the distance from a strip to the next.
///
/// Strips `over` a width leave no iteration, or more than so many: two further strips of this width, which overlap, run those. Some
/// iterations run twice then, at once: the function has to load what it stores for all its strips before it stores.
///
/// The fences are no instructions. They keep LLVM from vectorising the loop over rows, which it sees as one over single elements while the
/// strips of a row are unrolled and no vectors yet: with gathers and scatters, whole dispatches took twice as long. By how much two strips
/// overlap is hidden from it, as it would compute what they have in common once, and what is left in narrow vectors.
#[doc(hidden)]
#[macro_export]
macro_rules! strips {
    ($count:expr, $strip:ident $arguments:tt, $($widths:tt $(over $width:tt)?),*) => {{
        let mut first = 0;
        $($crate::strips!(@ $strip $arguments, first, $count - first, $widths, $($width)?);)*
        let _ = first;
    }};
    (@ $strip:ident $arguments:tt, $first:ident, $left:expr, [$($number:tt x $lanes:tt),*],) => {
        $(
            while $left >= $number * $lanes {
                $crate::strips!(@ $strip, $number, $lanes, $arguments, $first, $lanes);
                $first += $number * $lanes;
            }
        )*
    };
    (@ $strip:ident $arguments:tt, $first:ident, $left:expr, [$($number:tt x $lanes:tt),*], $width:tt) => {
        $(
            while $left == $number * $lanes || $left > $number * $lanes + $width {
                $crate::strips!(@ $strip, $number, $lanes, $arguments, $first, $lanes);
                $first += $number * $lanes;
            }
        )*
        if $left > $width {
            $crate::strips!(@ $strip, 2, $width, $arguments, $first, core::hint::black_box($left - $width));
            $first += $left;
        }
    };
    (@ $strip:ident, $number:tt, $lanes:tt, ($($argument:expr),*), $first:ident, $step:expr) => {
        $strip::<$number, $lanes>($($argument,)* $first, $step);
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    };
}

/// How long an iteration of strips takes at least, in picoseconds: ten numbers of 32 bits are loaded, computed and stored in a nanosecond.
const LEAST_TIME: u64 = 100;

/// Runs the loops of a nest whose iterations depend on no other ones, on several threads where that pays. `around` are the trip counts of the
/// outer loops, `within` those of the loops in them. `run` is called with the iterations of the outer loops that it has to run: for each
/// loop, the first one and how many.
pub fn divide<const D: usize, const E: usize>(
    around: [usize; D],
    within: [usize; E],
    run: &(dyn Fn([(usize, usize); D]) + Sync),
) {
    let counts = around.iter().chain(&within);
    let time = counts.fold(LEAST_TIME, |time, count| time.saturating_mul(*count as u64));
    crate::vm::parallel::divide_longest(around, time, run);
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    /// The number of times that each iteration has run, and the most iterations of a call with it.
    type Iterations = RefCell<Vec<(usize, usize)>>;

    fn strip<const STRIPS: usize, const L: usize>(iterations: &Iterations, first: usize, step: usize) {
        let mut iterations = iterations.borrow_mut();
        let width = L + step * (STRIPS - 1);
        for (runs, widest) in &mut iterations[first..first + width] {
            *runs += 1;
            *widest = width.max(*widest);
        }
        // Each iteration of the call is one of a strip's.
        assert!(step <= L, "{step}");
    }

    #[test]
    fn strips_cover_every_iteration_once() {
        const LANES: usize = 8;
        for count in 0..=150 {
            let iterations = RefCell::new(vec![(0, 0); count]);
            strips!(count, strip(&iterations), [4 x LANES, 1 x LANES, 1 x 4, 1 x 1]);
            assert!(iterations.borrow().iter().all(|(runs, _)| *runs == 1), "{count}: {iterations:?}");
        }
    }

    fn check_overlapping<const LANES: usize>() {
        for count in 0..=150 {
            let iterations = RefCell::new(vec![(0, 0); count]);
            strips!(count, strip(&iterations), [4 x LANES, 2 x LANES, 1 x LANES, 1 x 16] over 16, [1 x 4] over 4, [1 x 1]);
            let narrowest = if count >= 16 { 8.min(LANES) } else { 1 + 3 * usize::from(count >= 4) };
            let is_once = |(runs, widest): &(usize, usize)| *runs == 1 && *widest >= narrowest;
            assert!(iterations.borrow().iter().all(is_once), "{LANES} {count}: {iterations:?}");
        }
    }

    #[test]
    fn overlapping_strips_cover_every_iteration_without_narrow_ones() {
        check_overlapping::<4>();
        check_overlapping::<8>();
        check_overlapping::<16>();
        check_overlapping::<32>();
    }
}
