//! The state of a translated module in a context.

use alloc::sync::Arc;
use core::fmt;

use super::description::Description;
#[cfg(feature = "std")]
use crate::modules::check::CheckState;
#[cfg(feature = "std")]
use crate::modules::hal::HalState;
use crate::modules::hal_inline::HalInlineState;
#[cfg(feature = "std")]
use crate::modules::hal_loader::HalLoaderState;
#[cfg(feature = "std")]
use crate::modules::io_parameters::IoParametersState;
#[cfg(feature = "std")]
use crate::modules::vmvx::VmvxState;
use crate::vm::{BoundFunction, Ledger, ModuleState, Native, Ref, ValueType, check_ref, state};
use crate::{Error, Result};

/// The result of a lookup of a constant that does not exist.
static NULL: Ref = Ref::Null;

/// Globals, constants, imports.
pub struct State {
    pub(super) description: &'static Description,
    /// The state that interpreted modules have as well.
    pub(super) core: state::State,
    rodata: Arc<[Ref]>,
    natives: Natives,
}

impl ModuleState for State {}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State(@{})", self.description.name)
    }
}

/// The native modules that translated code calls directly: the field, the type of the module's state, its name, and the
/// method that adds the program's loaders of executables to it.
macro_rules! natives {
    ($($(#[$attribute:meta])* $module:ident: $state:ty = $name:literal $(, $adapt:ident)?;)*) => {
        #[derive(Debug, Default)]
        struct Natives {
            $($(#[$attribute])* $module: Option<Arc<$state>>,)*
        }

        impl Natives {
            /// Stores the state of the native module that an import is bound to.
            fn bind(&mut self, target: &BoundFunction, _program: &Description, _rodata: &Arc<[Ref]>) -> Result<()> {
                match target.module.name() {
                    $($(#[$attribute])*
                    $name => {
                        let state: Arc<$state> = own_state(target)?;
                        if self.$module.is_none() {
                            $(let state = Arc::new(state.$adapt(_program.executables.loader(_rodata), _program.loaders));)?
                            self.$module = Some(state);
                        }
                        Ok(())
                    })*
                    _ => Err(not_ours(target)),
                }
            }
        }

        impl State {
            $($(#[$attribute])*
            #[doc = concat!("The native module `", $name, "`.")]
            #[inline(always)]
            #[must_use]
            pub fn $module(&self) -> Native<'_, $state> {
                Native::new($name, self.natives.$module.as_ref())
            })*
        }
    };
}
natives! {
    #[cfg(feature = "std")]
    check: CheckState = "check";
    #[cfg(feature = "std")]
    hal: HalState = "hal", for_program;
    hal_inline: HalInlineState = "hal_inline";
    #[cfg(feature = "std")]
    hal_loader: HalLoaderState = "hal_loader", for_program;
    #[cfg(feature = "std")]
    io_parameters: IoParametersState = "io_parameters";
    #[cfg(feature = "std")]
    vmvx: VmvxState = "vmvx";
}

/// The state of a native module of this crate.
fn own_state<S: ModuleState>(target: &BoundFunction) -> Result<Arc<S>> {
    target.state.clone().downcast_arc().map_err(|_| not_ours(target))
}

#[cold]
fn not_ours(target: &BoundFunction) -> Error {
    Error::incompatible(alloc::format!(
        "the translated module calls @{} directly, and the module of that name is not this runtime's own",
        target.module.name()
    ))
}

impl State {
    pub(super) fn new(description: &'static Description, rodata: Arc<[Ref]>, ledger: &Ledger) -> Result<State> {
        let Description { global_bytes, global_refs, imports, .. } = description;
        let core = state::State::new(*global_bytes, *global_refs, imports.len() as u32, ledger)?;
        Ok(State { description, core, rodata, natives: Natives::default() })
    }

    /// Creates a state that shares the globals and has unresolved imports.
    pub(super) fn fork(&self) -> Result<State> {
        Ok(State {
            description: self.description,
            core: self.core.fork()?,
            rodata: self.rodata.clone(),
            natives: Natives::default(),
        })
    }

    pub(super) fn resolve(&mut self, import: u32, target: BoundFunction) -> Result<()> {
        if self.description.imports.get(import as usize).is_some_and(|import| import.direct) {
            self.natives.bind(&target, self.description, &self.rodata)?;
        }
        self.core.resolve(import, target)
    }

    /// Returns the constant with the given ordinal, a read-only buffer.
    #[inline(always)]
    #[must_use]
    pub fn rodata(&self, ordinal: u32) -> &Ref {
        self.rodata.get(ordinal as usize).unwrap_or(&NULL)
    }

    /// Loads the reference global with the given ordinal, if it is null or of the type.
    ///
    /// # Errors
    /// OUT_OF_RANGE if there is no such global; INVALID_ARGUMENT for another type.
    #[inline]
    pub fn load_ref(&self, global: u32, expected: ValueType) -> Result<Ref> {
        let slot = self.core.reference(global)?.lock();
        check_ref(&slot, expected)?;
        Ok(slot.clone())
    }

    /// Loads a reference global and replaces it by null.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn take_ref(&self, global: u32, expected: ValueType) -> Result<Ref> {
        let mut slot = self.core.reference(global)?.lock();
        check_ref(&slot, expected)?;
        Ok(core::mem::take(&mut *slot))
    }

    /// Stores a reference that is null or of the type.
    ///
    /// # Errors
    /// As above.
    #[inline]
    pub fn store_ref(&self, global: u32, expected: ValueType, value: Ref) -> Result<()> {
        let slot = self.core.reference(global)?;
        check_ref(&value, expected)?;
        let replaced = core::mem::replace(&mut *slot.lock(), value);
        // The drop may be long and reentrant, so it runs without the lock.
        drop(replaced);
        Ok(())
    }
}

macro_rules! globals {
    ($($load:ident, $store:ident: $type:ty, $raw_load:ident, $raw_store:ident, $bits:ident => $from:expr, $value:ident => $to:expr;)*) => {
        impl State {
            $(/// Loads the primitive global at an offset in bytes.
            ///
            /// # Errors
            /// OUT_OF_RANGE; INVALID_ARGUMENT for an offset that is not a multiple of 4.
            #[inline]
            pub fn $load(&self, offset: u32) -> Result<$type> {
                let $bits = self.core.$raw_load(offset)?;
                Ok($from)
            }

            /// Stores the primitive global at an offset in bytes.
            ///
            /// # Errors
            /// As above.
            #[inline]
            pub fn $store(&self, offset: u32, $value: $type) -> Result<()> {
                self.core.$raw_store(offset, $to)
            })*
        }
    };
}
globals! {
    load_i32, store_i32: i32, load32, store32, bits => bits as i32, value => value as u32;
    load_i64, store_i64: i64, load64, store64, bits => bits as i64, value => value as u64;
    load_f32, store_f32: f32, load32, store32, bits => f32::from_bits(bits), value => value.to_bits();
    load_f64, store_f64: f64, load64, store64, bits => f64::from_bits(bits), value => value.to_bits();
}
