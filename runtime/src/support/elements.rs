//! The elements that loop nests access.

/// Borrows the elements of a buffer for a loop nest: `elements_of!(buffer, grid, f32, 1, base, loops)`.
///
/// Only nests of modules that were translated as trusted use it, and translating a module so is the promise that
/// [`Ref::grid`](crate::vm::Ref::grid) asks for: its threads do not race on the elements. It is no interface for programs.
#[doc(hidden)]
#[macro_export]
macro_rules! elements_of {
    ($buffer:expr, $function:ident, $element:ty, $dimensions:literal, $base:expr, $loops:expr) => {
        // SAFETY: the code is that of a module that its translator was told to trust.
        unsafe { $crate::vm::Ref::$function::<$element, $dimensions>(&$buffer, $base, $loops) }
    };
}
