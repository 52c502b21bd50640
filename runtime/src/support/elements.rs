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
