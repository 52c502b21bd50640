//! What `trace`, `print` and `break` tell the world: events of the `tracing` crate.

use alloc::string::String;
use core::fmt::Write;

use super::super::module::Module;
use super::super::reference::Ref;
use super::BytecodeModule;
use super::code::Operation;
use crate::bytecode::AnyRegister;

/// A value of an event, as text.
pub(super) struct Operand(String);

impl Operand {
    /// The value of an encoded register.
    pub(super) fn of<'a>(
        encoded: u16,
        word: impl FnOnce(u16) -> i32,
        reference: impl FnOnce(u16) -> &'a mut Ref,
    ) -> Operand {
        let register = AnyRegister(encoded);
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = match register.is_ref() {
            true => write!(text, "{:?}", reference(register.index())),
            false => write!(text, "{}", word(register.index())),
        };
        Operand(text)
    }
}

/// Emits the event of a `trace` (at level `TRACE`) or `print` (at level `INFO`), with its values.
pub(super) fn event(
    module: &BytecodeModule,
    operation: Operation,
    name: &str,
    operands: impl Iterator<Item = Operand>,
) {
    let mut values = String::new();
    for operand in operands {
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(&operand.0);
    }
    if operation == Operation::Print {
        tracing::info!(target: "vm.print", module = module.name(), values, "{name}");
    } else {
        tracing::trace!(target: "vm.trace", module = module.name(), values, "{name}");
    }
}

/// Emits the event of a `break` (at level `DEBUG`): there is no debugger to stop in, so execution goes on.
#[cold]
pub(super) fn breakpoint(module: &BytecodeModule, function: u32) {
    tracing::debug!(target: "vm.break", module = module.name(), function, "break");
}
