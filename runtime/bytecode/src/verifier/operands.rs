//! Operands: the checks of each field kind, and the code that applies them to every field of every format.

use alloc::format;

use super::super::instruction::{field_length, read_field};
use super::super::isa::{FUNCTION_ORDINAL_IMPORT_BIT, Format, REF_REGISTER_TYPE_BIT, for_each_format};
use super::super::operand::{
    AnyRegister, BlockOffset, FunctionOrdinal, Reader, RefRegister, Register, RegisterList, RemapList, TypeId,
};
use super::{Fault, FunctionVerifier, Row};
use crate::{Error, Result};

/// Checks a field, by its kind. `v` and `w` are the sizes in bytes of the instruction's banks.
macro_rules! check_field {
    ($self:ident $at:ident $v:ident $w:ident in_v $name:expr, $value:expr) => {
        $self.value_register($name, $value, $v)?
    };
    ($self:ident $at:ident $v:ident $w:ident out_v $name:expr, $value:expr) => {
        $self.value_register($name, $value, $v)?
    };
    ($self:ident $at:ident $v:ident $w:ident in_w $name:expr, $value:expr) => {
        $self.value_register($name, $value, $w)?
    };
    ($self:ident $at:ident $v:ident $w:ident out_w $name:expr, $value:expr) => {
        $self.value_register($name, $value, $w)?
    };
    ($self:ident $at:ident $v:ident $w:ident in_i32 $name:expr, $value:expr) => {
        $self.value_register($name, $value, 4)?
    };
    ($self:ident $at:ident $v:ident $w:ident out_i32 $name:expr, $value:expr) => {
        $self.value_register($name, $value, 4)?
    };
    ($self:ident $at:ident $v:ident $w:ident in_i64 $name:expr, $value:expr) => {
        $self.value_register($name, $value, 8)?
    };
    ($self:ident $at:ident $v:ident $w:ident out_i64 $name:expr, $value:expr) => {
        $self.value_register($name, $value, 8)?
    };
    ($self:ident $at:ident $v:ident $w:ident in_ref $name:expr, $value:expr) => {
        $self.kept_ref_register($name, $value)?
    };
    ($self:ident $at:ident $v:ident $w:ident in_ref_move $name:expr, $value:expr) => {
        $self.ref_register($name, $value)?
    };
    ($self:ident $at:ident $v:ident $w:ident out_ref $name:expr, $value:expr) => {
        $self.ref_register($name, $value)?
    };
    ($self:ident $at:ident $v:ident $w:ident imm_v $name:expr, $value:expr) => {
        let _ = $value;
    };
    ($self:ident $at:ident $v:ident $w:ident global $name:expr, $value:expr) => {
        $self.global($name, $value, $v)?
    };
    ($self:ident $at:ident $v:ident $w:ident global_ref $name:expr, $value:expr) => {
        ordinal($name, "reference globals", $value, $self.limits.global_refs)?
    };
    ($self:ident $at:ident $v:ident $w:ident rodata $name:expr, $value:expr) => {
        ordinal($name, "constants", $value, $self.limits.rodata)?
    };
    ($self:ident $at:ident $v:ident $w:ident function $name:expr, $value:expr) => {
        $self.function($name, $value)?
    };
    ($self:ident $at:ident $v:ident $w:ident import $name:expr, $value:expr) => {
        ordinal($name, "imports", $value, $self.limits.imports)?
    };
    ($self:ident $at:ident $v:ident $w:ident type_id $name:expr, $value:expr) => {{
        let TypeId(index) = $value;
        ordinal($name, "types", index, $self.limits.types)?
    }};
    ($self:ident $at:ident $v:ident $w:ident string $name:expr, $value:expr) => {
        let _ = $value;
    };
    ($self:ident $at:ident $v:ident $w:ident target $name:expr, $value:expr) => {
        $self.target($name, $value, $at)?
    };
    ($self:ident $at:ident $v:ident $w:ident remap $name:expr, $value:expr) => {
        $self.remap($name, $value)?
    };
    ($self:ident $at:ident $v:ident $w:ident list_v $name:expr, $value:expr) => {
        $self.value_list($name, $value, $v)?
    };
    ($self:ident $at:ident $v:ident $w:ident list_ref $name:expr, $value:expr) => {
        $self.ref_list($name, $value)?
    };
    // Calls and returns are checked against calling conventions as a whole.
    ($self:ident $at:ident $v:ident $w:ident list_any $name:expr, $value:expr) => {
        let _ = $value;
    };
    ($self:ident $at:ident $v:ident $w:ident results $name:expr, $value:expr) => {
        let _ = $value;
    };
    ($self:ident $at:ident $v:ident $w:ident segments $name:expr, $value:expr) => {
        let _ = $value;
    };
    ($self:ident $at:ident $v:ident $w:ident cases $name:expr, $value:expr) => {
        for (target, operands) in $value.iter() {
            $self.target($name, target, $at)?;
            $self.remap($name, operands)?;
        }
    };
}

/// Checks what the fields of a format mean together; calls and returns, by the names of their formats.
macro_rules! check_format {
    (Call $self:ident $callee:ident $operands:ident $results:ident) => {
        $self.call($callee, None, $operands, $results)?
    };
    (CallYieldable $self:ident $callee:ident $operands:ident $resume:ident $results:ident) => {
        $self.call($callee, None, $operands, $results)?
    };
    (CallVariadic $self:ident $callee:ident $segment_sizes:ident $operands:ident $results:ident) => {
        $self.call($callee, Some($segment_sizes), $operands, $results)?
    };
    (CallVariadicYieldable $self:ident $callee:ident $segment_sizes:ident $operands:ident $resume:ident $results:ident) => {
        $self.call($callee, Some($segment_sizes), $operands, $results)?
    };
    (Return $self:ident $operands:ident) => {
        $self.returned($operands)?
    };
    (Trace $self:ident $event_name:ident $operands:ident) => {
        $self.any_list("operands", $operands)?
    };
    ($variant:ident $self:ident $($field:ident)*) => {};
}

macro_rules! define_operands {
    ($($variant:ident = $row:ident { $($field:ident: $kind:ident),* $(,)? })*) => {
        impl<'m> FunctionVerifier<'m, '_> {
            /// Reads and checks every field of the instruction at `at`.
            #[inline(always)]
            pub(super) fn operands(&mut self, row: &Row, reader: &mut Reader<'m>, at: u32) -> Result<(), Fault> {
                let (v, w) = (row.v, row.w);
                let banks = row.banks;
                match row.format {
                    $(Format::$variant => {
                        reader.require(0 $(+ field_length!($kind))*)?;
                        $(let $field = read_field!(reader banks $kind);)*
                        $(check_field!(self at v w $kind stringify!($field), $field);)*
                        check_format!($variant self $($field)*);
                    })*
                }
                let _ = (v, w, banks, at);
                Ok(())
            }
        }
    };
}
for_each_format!(define_operands);

impl FunctionVerifier<'_, '_> {
    /// A register of the 32-bit file, or an aligned pair where the bank has 8 bytes.
    #[inline(always)]
    pub(super) fn value_register(&self, field: &'static str, register: Register, size: u32) -> Result<()> {
        let (index, count) = (u32::from(register.0), u32::from(self.function.i32_register_count));
        // What a pair adds to a register's number, and may not be set in it: 1 where a value takes 8 bytes, 0 where 4.
        let pair = size >> 3;
        if (index & pair == 0) & (index + pair < count) {
            Ok(())
        } else {
            Err(bad_value_register(field, register, size, count))
        }
    }

    /// A reference register, perhaps with the move bit.
    #[inline(always)]
    pub(super) fn ref_register(&self, field: &'static str, register: RefRegister) -> Result<()> {
        let count = self.function.ref_register_count;
        if register.0 & REF_REGISTER_TYPE_BIT != 0 && register.index() < count {
            return Ok(());
        }
        Err(bad_ref_register(field, register, count))
    }

    /// A reference register without the move bit, or with one that means nothing.
    #[inline(always)]
    fn kept_ref_register(&self, field: &'static str, register: RefRegister) -> Result<()> {
        self.ref_register(field, register)?;
        if register.is_move() && !self.limits.moves_anywhere { Err(bad_move(field, register)) } else { Ok(()) }
    }

    /// A register of either file.
    #[inline(always)]
    fn any_register(&self, field: &'static str, register: AnyRegister) -> Result<()> {
        match register.is_ref() {
            true => self.ref_register(field, RefRegister(register.0)),
            false => self.value_register(field, Register(register.0), 4),
        }
    }

    #[inline(always)]
    fn global(&self, field: &'static str, offset: u32, size: u32) -> Result<()> {
        let limit = self.limits.global_bytes;
        if offset & (size - 1) == 0 && offset.checked_add(size).is_some_and(|end| end <= limit) {
            return Ok(());
        }
        Err(bad_global(field, offset, size, limit))
    }

    #[inline(always)]
    fn function(&self, field: &'static str, callee: FunctionOrdinal) -> Result<()> {
        match callee.import() {
            Some(import) => ordinal(field, "imports", import, self.limits.imports),
            None => ordinal(field, "functions", callee.0, self.limits.functions),
        }
    }

    #[inline(always)]
    fn target(&mut self, field: &'static str, target: BlockOffset, at: u32) -> Result<()> {
        self.blocks.branch(field, target, at)
    }

    /// Copies of a branch: within one file, and only the source may be moved.
    #[inline(always)]
    fn remap(&self, field: &'static str, operands: RemapList<'_>) -> Result<()> {
        for (source, target) in operands.iter() {
            self.any_register(field, source)?;
            self.any_register(field, target)?;
            if source.is_ref() != target.is_ref() {
                return Err(bad_copy(field, source, target));
            }
            if target.is_move() {
                return Err(bad_move(field, RefRegister(target.0)));
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn value_list(&self, field: &'static str, list: RegisterList<'_>, size: u32) -> Result<()> {
        list.iter().try_for_each(|register| self.value_register(field, Register(register.0), size))
    }

    #[inline(always)]
    fn ref_list(&self, field: &'static str, list: RegisterList<'_>) -> Result<()> {
        list.iter().try_for_each(|register| self.ref_register(field, RefRegister(register.0)))
    }

    #[inline(always)]
    pub(super) fn any_list(&self, field: &'static str, list: RegisterList<'_>) -> Result<()> {
        list.iter().try_for_each(|register| self.any_register(field, register))
    }
}

#[inline(always)]
fn ordinal(field: &'static str, table: &'static str, index: u32, count: u32) -> Result<()> {
    if index < count { Ok(()) } else { Err(bad_ordinal(field, table, index, count)) }
}

#[cold]
fn bad_ordinal(field: &'static str, table: &'static str, index: u32, count: u32) -> Error {
    Error::out_of_range(format!("`{field}` is {index}; the module has {count} {table}"))
}

#[cold]
fn bad_value_register(field: &'static str, register: Register, size: u32, count: u32) -> Error {
    let index = register.0;
    if index & REF_REGISTER_TYPE_BIT != 0 {
        let index = RefRegister(index).index();
        return Error::invalid_argument(format!("`{field}` is reference register r{index}, not a value register"));
    }
    if size == 8 && index & 1 != 0 {
        return Error::invalid_argument(format!("`{field}` is a 64-bit value at the odd register i{index}"));
    }
    let pair = if size == 8 { format!(":{}", u32::from(index) + 1) } else { alloc::string::String::new() };
    Error::out_of_range(format!("`{field}` is register i{index}{pair}; the function has {count} 32-bit registers"))
}

#[cold]
fn bad_ref_register(field: &'static str, register: RefRegister, count: u16) -> Error {
    if register.0 & REF_REGISTER_TYPE_BIT == 0 {
        return Error::invalid_argument(format!(
            "`{field}` is value register i{}, not a reference register",
            register.0
        ));
    }
    let index = register.index();
    Error::out_of_range(format!("`{field}` is register r{index}; the function has {count} reference registers"))
}

#[cold]
pub(super) fn bad_move(field: &'static str, register: RefRegister) -> Error {
    Error::invalid_argument(format!(
        "`{field}` has the move bit on r{}, which nothing may be moved out of",
        register.index()
    ))
}

#[cold]
fn bad_copy(field: &'static str, source: AnyRegister, target: AnyRegister) -> Error {
    let name = |register: AnyRegister| format!("{}{}", if register.is_ref() { 'r' } else { 'i' }, register.index());
    Error::invalid_argument(format!(
        "`{field}` copies {} to {}, of the other register file",
        name(source),
        name(target)
    ))
}

#[cold]
fn bad_global(field: &'static str, offset: u32, size: u32, limit: u32) -> Error {
    if !offset.is_multiple_of(size) {
        return Error::invalid_argument(format!("`{field}` is {offset}, which is not aligned to {size} bytes"));
    }
    Error::out_of_range(format!("`{field}` is {offset} for {size} bytes; the module has {limit} bytes of globals"))
}
