//! The IR as text.
//!
//! ```text
//! function 0 (v0: i32) -> (i32) {
//! bb0(v0: i32):
//!   v2: i32 = add.i32 v0, 1
//!   cond_br v2, bb1, bb2(v2)
//! ...
//! ```
//!
//! Constants stand where they are used: integers as signed numbers, floats with a point or an exponent, `null`. A reference
//! that is moved has `move` before it.

use alloc::string::String;
use core::fmt::{self, Display, Write};

use super::function::{BlockData, Definition, Function, Inst};
use super::op::{Call, Callee, Edge, Global, Op, Operand, Terminator};
use super::value::{Type, Value};

impl Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::i32 => "i32",
            Type::i64 => "i64",
            Type::f32 => "f32",
            Type::f64 => "f64",
            Type::Ref => "ref",
        })
    }
}

impl Display for super::Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bb{}", self.0)
    }
}

/// Something of a function, which tells what its values are.
struct In<'a, T>(&'a Function, T);

impl Display for In<'_, Value> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let In(function, value) = *self;
        let Definition::Constant(bits) = function.definition(value) else { return write!(f, "v{}", value.0) };
        match function.ty(value) {
            Type::i32 => write!(f, "{}", bits as i32),
            Type::i64 => write!(f, "{}", bits as i64),
            Type::f32 => write!(f, "{:?}", f32::from_bits(bits as u32)),
            Type::f64 => write!(f, "{:?}", f64::from_bits(bits)),
            Type::Ref => f.write_str("null"),
        }
    }
}

impl Display for In<'_, Operand> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.1.moved { "move " } else { "" };
        write!(f, "{prefix}{}", In(self.0, self.1.value))
    }
}

impl<T: Copy> Display for In<'_, &[T]>
where
    for<'b> In<'b, T>: Display,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.1.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", In(self.0, *item))?;
        }
        Ok(())
    }
}

impl Display for In<'_, Global> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Global::Direct(global) => write!(f, "@{global}"),
            Global::Indirect(value) => write!(f, "[{}]", In(self.0, value)),
        }
    }
}

impl Display for In<'_, &Edge> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let In(function, edge) = *self;
        write!(f, "{}", edge.target)?;
        if !edge.arguments.is_empty() {
            write!(f, "({})", In(function, &edge.arguments[..]))?;
        }
        match edge.drops.is_empty() {
            true => Ok(()),
            false => write!(f, " drop({})", In(function, &edge.drops[..])),
        }
    }
}

impl Display for In<'_, &Call> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let In(function, call) = *self;
        match call.callee {
            Callee::Internal(ordinal) => write!(f, "function {ordinal}")?,
            Callee::Import(ordinal) => write!(f, "import {ordinal}")?,
        }
        write!(f, "({})", In(function, &call.operands[..]))?;
        call.segments.as_ref().map_or(Ok(()), |segments| write!(f, " segments {segments:?}"))?;
        call.deferred.map_or(Ok(()), |operand| write!(f, " deferred {operand}"))
    }
}

/// Returns the name of an operation in the text form.
fn mnemonic(op: &Op) -> &'static str {
    match op {
        Op::Eval { opcode, .. }
        | Op::BufferLoad { opcode, .. }
        | Op::BufferStore { opcode, .. }
        | Op::BufferFill { opcode, .. } => opcode.info().mnemonic,
        Op::Bitcast { .. } => "bitcast",
        Op::Low { .. } => "low",
        Op::High { .. } => "high",
        Op::Pair { .. } => "pair",
        Op::Switch { .. } | Op::SwitchRef { .. } => "switch",
        Op::GlobalLoad { .. } => "global.load",
        Op::GlobalStore { .. } => "global.store",
        Op::GlobalLoadRef { take: false, .. } => "global.load.ref",
        Op::GlobalLoadRef { .. } => "global.take.ref",
        Op::GlobalStoreRef { .. } => "global.store.ref",
        Op::Rodata { .. } => "rodata",
        Op::CheckRef { .. } => "check.ref",
        Op::SelectRef { .. } => "select.ref",
        Op::CompareRef { negated: false, .. } => "eq.ref",
        Op::CompareRef { .. } => "ne.ref",
        Op::IsNonNull { .. } => "nz.ref",
        Op::ListAlloc { .. } => "list.alloc",
        Op::ListReserve { .. } => "list.reserve",
        Op::ListSize { .. } => "list.size",
        Op::ListResize { .. } => "list.resize",
        Op::ListGet { .. } => "list.get",
        Op::ListSet { .. } => "list.set",
        Op::ListGetRef { take: false, .. } => "list.get.ref",
        Op::ListGetRef { .. } => "list.take.ref",
        Op::ListSetRef { .. } => "list.set.ref",
        Op::BufferAlloc { .. } => "buffer.alloc",
        Op::BufferClone { .. } => "buffer.clone",
        Op::BufferLength { .. } => "buffer.length",
        Op::BufferCopy { .. } => "buffer.copy",
        Op::BufferCompare { .. } => "buffer.compare",
        Op::BufferHash { .. } => "buffer.hash",
        Op::Call(_) => "call",
        Op::ImportResolved { .. } => "import.resolved",
        Op::Trace { print: false, .. } => "trace",
        Op::Trace { .. } => "print",
        Op::Drop { .. } => "drop",
    }
}

/// Writes a name and the operands behind it.
struct Operation<'a>(&'a Function, &'a Op);

impl Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation(function, op) = *self;
        if let Op::Call(call) = op {
            return write!(f, "call {}", In(function, call));
        }
        f.write_str(mnemonic(op))?;
        let mut separator = " ";
        let mut write = |text: fmt::Arguments<'_>| {
            let written = write!(f, "{separator}{text}");
            separator = ", ";
            written
        };
        match op {
            Op::GlobalLoad { global } | Op::GlobalLoadRef { global, .. } => {
                write(format_args!("{}", In(function, *global)))?;
            }
            Op::GlobalStore { global, value } => {
                write(format_args!("{}, {}", In(function, *global), In(function, *value)))?;
            }
            Op::GlobalStoreRef { global, value, .. } => {
                write(format_args!("{}, {}", In(function, *global), In(function, *value)))?;
            }
            Op::Rodata { rodata: ordinal } | Op::ImportResolved { import: ordinal } => {
                write(format_args!("{ordinal}"))?
            }
            Op::Trace { name, .. } => write(format_args!("{:?}", String::from_utf8_lossy(name)))?,
            _ => {}
        }
        if !matches!(
            op,
            Op::GlobalLoad { .. } | Op::GlobalLoadRef { .. } | Op::GlobalStore { .. } | Op::GlobalStoreRef { .. }
        ) {
            let mut result = Ok(());
            op.visit(|operand| {
                let written = match operand {
                    super::Use::Read(value) => write(format_args!("{}", In(function, *value))),
                    super::Use::Take(operand) => write(format_args!("{}", In(function, *operand))),
                };
                result = result.and(written);
            });
            result?;
        }
        match op.type_def() {
            Some(type_def) => write!(f, ": type {}", type_def.0),
            None => Ok(()),
        }
    }
}

impl Display for In<'_, &Inst> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let In(function, inst) = *self;
        if !inst.results.is_empty() {
            write!(f, "{} = ", Typed(function, &inst.results))?;
        }
        write!(f, "{}", Operation(function, &inst.op))
    }
}

/// Values with their types.
struct Typed<'a>(&'a Function, &'a [Value]);

impl Display for Typed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, value) in self.1.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}v{}: {}", value.0, self.0.ty(*value))?;
        }
        Ok(())
    }
}

impl Display for In<'_, &Terminator> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let In(function, terminator) = *self;
        let edge = |edge| In(function, edge);
        match terminator {
            Terminator::Branch(next) => write!(f, "br {}", edge(next)),
            Terminator::CondBranch { condition, if_true, if_false } => {
                write!(f, "cond_br {}, {}, {}", In(function, *condition), edge(if_true), edge(if_false))
            }
            Terminator::BranchTable { index, cases, default } => {
                write!(f, "br_table {}", In(function, *index))?;
                for (number, case) in cases.iter().enumerate() {
                    write!(f, ", {number}: {}", edge(case))?;
                }
                write!(f, ", default: {}", edge(default))
            }
            Terminator::Return(operands) if operands.is_empty() => f.write_str("return"),
            Terminator::Return(operands) => write!(f, "return {}", In(function, &operands[..])),
            Terminator::Fail { status, message, next } => {
                write!(f, "fail {}, {:?}", In(function, *status), String::from_utf8_lossy(message))?;
                next.as_ref().map_or(Ok(()), |next| write!(f, ", else {}", edge(next)))
            }
            Terminator::Yield(next) => write!(f, "yield {}", edge(next)),
            Terminator::CallYieldable { call, results, resume } => {
                if !results.is_empty() {
                    write!(f, "{} = ", Typed(function, results))?;
                }
                write!(f, "call.yieldable {}, {}", In(function, call), edge(resume))
            }
            Terminator::Break(next) => write!(f, "break {}", edge(next)),
            Terminator::CondBreak { condition, next } => {
                write!(f, "cond_break {}, {}", In(function, *condition), edge(next))
            }
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {} (", self.ordinal)?;
        write!(f, "{}) -> (", Typed(self, self.arguments()))?;
        for (index, ty) in self.results.iter().enumerate() {
            write!(f, "{}{ty}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str(") {\n")?;
        for (block, BlockData { parameters, instructions, terminator, .. }) in self.iter() {
            match parameters.is_empty() || block == super::Block::ENTRY {
                true => writeln!(f, "{block}:")?,
                false => writeln!(f, "{block}({}):", Typed(self, parameters))?,
            }
            for inst in instructions {
                writeln!(f, "  {}", In(self, inst))?;
            }
            writeln!(f, "  {}", In(self, terminator))?;
        }
        f.write_char('}')
    }
}
