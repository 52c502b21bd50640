//! The decoder: bytes of a function to instructions, checked to be complete.

use incarnate_bytecode::read::{u16_at, u32_at};
use incarnate_bytecode::{Error, Result};

use super::isa::{Kind, Row, row};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A register, as encoded.
    Register(u8),
    /// An immediate, an ordinal or an offset.
    Number(u32),
    /// Registers, pairs of registers, or segment sizes.
    List(&'a [u8]),
    /// A text.
    Text(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of a list; none of anything else.
    pub(super) fn list(self) -> &'a [u8] {
        match self {
            Value::List(bytes) | Value::Text(bytes) => bytes,
            Value::Register(_) | Value::Number(_) => &[],
        }
    }

    /// The number, or the register's byte; 0 of anything else.
    pub(super) fn number(self) -> u32 {
        match self {
            Value::Number(number) => number,
            Value::Register(register) => register.into(),
            Value::List(_) | Value::Text(_) => 0,
        }
    }
}

/// An instruction, as decoded.
#[derive(Clone, Debug)]
pub(super) struct Instruction<'a> {
    /// Where it begins, in bytes from the start of the function.
    pub(super) offset: u32,
    /// Where the next one begins.
    pub(super) end: u32,
    pub(super) row: &'static Row,
    /// The fields of the row's format, in its order.
    pub(super) values: Vec<Value<'a>>,
}

impl<'a> Instruction<'a> {
    /// Decodes the instruction at an offset, in bytes, of a function's bytecode.
    ///
    /// Fails with `INVALID_ARGUMENT` if the byte there is no opcode, and with `OUT_OF_RANGE` if the function ends before the
    /// instruction does.
    pub(super) fn decode(function: &'a [u8], offset: u32) -> Result<Instruction<'a>> {
        let Some(&byte) = function.get(offset as usize) else {
            return Err(Error::out_of_range(format!("the function ends at 0x{:X}", function.len())));
        };
        let Some(row) = row(byte) else {
            return Err(Error::invalid_argument(format!("no instruction of BMOD has the opcode 0x{byte:02X}")));
        };
        let mut position = offset as usize + 1;
        let fields = row.format.fields();
        let mut values = Vec::with_capacity(fields.len());
        for &(name, kind) in fields {
            let Some((value, end)) = field(function, position, kind) else {
                return Err(Error::out_of_range(format!(
                    "the function ends at 0x{:X}, within `{name}` of vm.{}",
                    function.len(),
                    row.mnemonic
                )));
            };
            values.push(value);
            position = end;
        }
        // A function's length is a 31-bit number.
        Ok(Instruction { offset, end: position as u32, row, values })
    }

    /// The fields with their names and kinds.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, Kind, Value<'a>)> + '_ {
        self.row.format.fields().iter().zip(&self.values).map(|(&(name, kind), &value)| (name, kind, value))
    }

    /// Offsets that it may branch to.
    pub(super) fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        self.fields().filter(|field| field.1 == Kind::Target).map(|field| field.2.number())
    }
}

/// The value of a field at a position, and where it ends.
fn field(function: &[u8], position: usize, kind: Kind) -> Option<(Value<'_>, usize)> {
    let list = |size: usize| {
        let count = usize::from(*function.get(position)?);
        let end = position + 1 + count * size;
        Some((Value::List(function.get(position + 1..end)?), end))
    };
    match kind {
        Kind::InI32 | Kind::OutI32 | Kind::InRef | Kind::OutRef => {
            Some((Value::Register(*function.get(position)?), position + 1))
        }
        Kind::ImmI8 => Some((Value::Number((*function.get(position)?).into()), position + 1)),
        Kind::ImmI32 | Kind::Global | Kind::GlobalRef | Kind::Rodata | Kind::Function | Kind::TypeId | Kind::Target => {
            Some((Value::Number(u32_at(function, position)?), position + 4))
        }
        Kind::String => {
            let end = position + 2 + usize::from(u16_at(function, position)?);
            Some((Value::Text(function.get(position + 2..end)?), end))
        }
        Kind::Remap => list(2),
        Kind::List | Kind::Results | Kind::Segments => list(1),
    }
}
