//! Names of the HAL ABI's flags and types, as the `i32` values that compilers pass in calls.

pub use incarnate_bytecode::abi::*;

#[cfg(feature = "std")]
macro_rules! compared {
    ($($(#[$doc:meta])* $module:ident: $type:ident, $raw:ident { $($name:ident = $value:expr),* $(,)? })*) => {
        $($(const _: () = assert!($module::$name == crate::hal::$type::$name.$raw() as i32);)*)*
    };
}
#[cfg(feature = "std")]
incarnate_bytecode::for_each_abi_constant!(compared);
