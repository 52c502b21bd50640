//! The elements that loop nests access.

/// Borrows the elements of a buffer for a loop nest: `elements_of!(buffer, grid, f32, 1, base, loops)`.
///
/// It is no interface for programs, because it gives the promise that [`Ref::grid`](crate::vm::Ref::grid) asks for. The nests that
/// the translator emits keep it: what they load decides nothing before it is settled.
#[doc(hidden)]
#[macro_export]
macro_rules! elements_of {
    ($buffer:expr, $function:ident, $element:ty, $dimensions:literal, $base:expr, $loops:expr) => {
        // SAFETY: a nest loads numbers to compute with and to store, and settles divisors before it divides; and all that it leaves
        // behind (`settled`, `settle_memory`).
        unsafe { $crate::vm::Ref::$function::<$element, $dimensions>(&$buffer, $base, $loops) }
    };
}

/// Runs a contraction in place of its loops: `contract!(FmaF32, (output, 0), (left, 8), (right, 0), [(count, 1, 0, 4), ..])` with a
/// buffer and the index of the first iteration's element each, and for each loop its trip count and the strides of the three.
/// Operands may be computed from elements: `(left, 8).map(|element: i16| ..)`, `(left, 8).extended()` for bytes. The left one may be `one`. The call returns false, and does nothing, where the
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
            $crate::vm::View::new(&$left, $left_base)$(.$left_method($($left_function)?))?,
            $($rest)*
        )
    };
    (
        @ $operation:ident,
        ($output:expr, $output_base:expr),
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
        let output = $crate::vm::View::new(&$output, $output_base);
        let left = $left;
        let right = $crate::vm::View::new(&$right, $right_base)$(.$right_method($($right_function)?))?;
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

/// Combines the numbers of a loop with partial results, by calls of `strip::<1, LANES>(arguments, results, first)`, which returns the
/// results. Number `i` is combined with the partial result `i` modulo [`PARTIAL`](crate::support::PARTIAL).
#[doc(hidden)]
#[macro_export]
macro_rules! partial_results {
    ($count:expr, $results:ident, $strip:ident($($argument:expr),*)) => {{
        let mut first = 0;
        while $count - first >= $crate::support::PARTIAL {
            $results = $strip::<1, { $crate::support::PARTIAL }>($($argument,)* $results, first);
            first += $crate::support::PARTIAL;
        }
        if first < $count {
            // A copy, so that the results themselves are only accessed as a whole, in registers.
            let mut rest = $results;
            for (number, result) in (first..$count).zip(&mut rest[0]) {
                let [[next]] = $strip::<1, 1>($($argument,)* [[*result]], number);
                *result = next;
            }
            $results = rest;
        }
    }};
}

/// Calls a function for the strips of a loop, the widest first: `strips!(count, [4 x LANES, last x LANES, 1 x 4, last x 4, 1 x 1],
/// strip(arguments))` calls `strip::<4, LANES>(arguments, first, 0)` for as many iterations as there are, and so on. Where iterations are
/// left, and the loop has as many as a `last` strip is wide, its last ones are that strip. The strip's last argument is the number of its
/// iterations that have run, and have no effect again.
///
/// The fences are no instructions. They keep LLVM from vectorising the loop over rows, which it sees as one over single elements while the
/// strips of a row are unrolled and no vectors yet: with gathers and scatters, it would take ten times as long.
#[doc(hidden)]
#[macro_export]
macro_rules! strips {
    ($count:expr, [$($number:tt x $lanes:tt),*], $strip:ident $arguments:tt) => {{
        let mut first = 0;
        $($crate::strips!(@ first, $count, $number, $lanes, $strip $arguments);)*
        let _ = first;
    }};
    (@ $first:ident, $count:expr, last, $lanes:tt, $strip:ident($($argument:expr),*)) => {
        if $first < $count && $count >= $lanes {
            $strip::<1, $lanes>($($argument,)* $count - $lanes, $lanes - ($count - $first));
            core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
            $first = $count;
        }
    };
    (@ $first:ident, $count:expr, $number:literal, $lanes:tt, $strip:ident($($argument:expr),*)) => {
        while $count - $first >= $number * $lanes {
            $strip::<$number, $lanes>($($argument,)* $first, 0);
            core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
            $first += $number * $lanes;
        }
    };
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::cell::RefCell;

    #[test]
    fn strips_cover_every_iteration_once() {
        fn strip<const STRIPS: usize, const L: usize>(
            iterations: &RefCell<Vec<(usize, usize)>>,
            first: usize,
            kept: usize,
        ) {
            assert!(kept < STRIPS * L && first + STRIPS * L <= iterations.borrow().len());
            let width = STRIPS * L;
            for (at, (runs, widest)) in iterations.borrow_mut().iter_mut().enumerate().skip(first).take(width) {
                *runs += usize::from(at >= first + kept);
                *widest = width.max(*widest);
            }
        }
        const LANES: usize = 8;
        for count in 0..=150 {
            let iterations = RefCell::new(vec![(0, 0); count]);
            strips!(count, [4 x LANES, 1 x LANES, last x LANES, 1 x 4, last x 4, 1 x 1], strip(&iterations));
            let narrowest = if count >= 8 { 8 } else { 1 + 3 * usize::from(count >= 4) };
            let is_once = |(runs, widest): &(usize, usize)| *runs == 1 && *widest >= narrowest;
            assert!(iterations.borrow().iter().all(is_once), "{count}: {iterations:?}");
        }
    }
}
