//! The loop that runs pre-decoded code.
//!
//! This is one of the modules that may use `unsafe`: registers are reached through raw pointers, and instructions too. All
//! of it relies on what [`VerifiedModule`](incarnate_bytecode::VerifiedModule) promises: register operands lie in the
//! function's register files, branch targets are instructions, the last block ends.
#![allow(unsafe_code, reason = "registers of verified functions")]

mod calls;
mod registers;

use super::super::buffer::Buffer;
use super::super::call::CallBuffer;
use super::super::list::{List, check_ref};
use super::super::module::{Completion, Module};
use super::super::reference::Ref;
use super::super::stack::{BYTES_PER_FUEL, LIST_ELEMENT_BYTES, Stack};
use super::super::state::State;
use super::super::value::Value;
use super::super::{failure, trace};
use super::BytecodeModule;
use super::code::{Code, Inst, Operation, for_each_pair};
use super::frames::Mark;
use crate::{Error, Result};
use incarnate_bytecode::AnyRegister;
use incarnate_bytecode::isa::{REF_REGISTER_MASK, REF_REGISTER_MOVE_BIT, for_each_instruction};
use incarnate_bytecode::semantics;
use registers::{RegisterValue, reference, transfer};

/// What runs: a function of a module, on a stack, with what its caller passes.
pub(super) struct Machine<'a> {
    pub(super) module: &'a BytecodeModule,
    pub(super) state: &'a State,
    pub(super) stack: &'a mut Stack,
    pub(super) buffer: &'a mut CallBuffer,
    /// The tops below this activation's frames: when no caller above them waits, the activation is over.
    pub(super) bottom: Mark,
    /// The function that runs; while the loop does, only as of the last call of another module.
    pub(super) code: &'a Code,
    /// Index of the instruction that it runs, at the same times.
    pub(super) pc: u32,
}

/// What a suspended activation leaves on the stack.
#[derive(Debug)]
pub(super) struct Suspended {
    /// The module whose frames these are.
    pub(super) module: usize,
    pub(super) bottom: Mark,
    /// The tops of this activation's frames.
    pub(super) top: Mark,
    /// Ordinal of the function to go on with.
    pub(super) function: u32,
    /// Index of the instruction to go on with; of the call, where that yielded.
    pub(super) pc: u32,
}

/// The body of an instruction whose meaning is a function of `semantics`; others are arms of the loop itself.
macro_rules! evaluate {
    ($cx:tt [unary $v:ident], eval $f:ident) => { evaluate!(@1 $cx $v $v $f) };
    ($cx:tt [conversion $v:ident $w:ident], eval $f:ident) => { evaluate!(@1 $cx $v $w $f) };
    ($cx:tt [unary_comparison $v:ident], eval $f:ident) => { evaluate!(@1 $cx $v i32 $f) };
    ($cx:tt [binary $v:ident], eval $f:ident) => { evaluate!(@2 $cx $v $v $v $f) };
    ($cx:tt [shift $v:ident], eval $f:ident) => { evaluate!(@2 $cx $v i32 $v $f) };
    ($cx:tt [binary_comparison $v:ident], eval $f:ident) => { evaluate!(@2 $cx $v $v i32 $f) };
    (($regs:ident $inst:ident $fail:ident) [binary $v:ident], try_eval $f:ident) => {{
        // SAFETY: verified register operands.
        let (left, right) = unsafe { (<$v>::get($regs, $inst.a), <$v>::get($regs, $inst.b)) };
        match semantics::$f(left, right) {
            // SAFETY: verified register operand.
            Ok(value) => unsafe { <$v>::set($regs, $inst.c, value) },
            Err(error) => $fail!(error),
        }
    }};
    (($regs:ident $inst:ident $fail:ident) [ternary $v:ident], eval $f:ident) => {{
        // SAFETY: verified register operands.
        unsafe {
            let value = semantics::$f(<$v>::get($regs, $inst.a), <$v>::get($regs, $inst.b), <$v>::get($regs, $inst.c));
            <$v>::set($regs, $inst.part(0), value);
        }
    }};
    (($regs:ident $inst:ident $fail:ident) [select $v:ident], eval $f:ident) => {{
        // SAFETY: verified register operands.
        unsafe {
            let value = semantics::$f(<i32>::get($regs, $inst.a), <$v>::get($regs, $inst.b), <$v>::get($regs, $inst.c));
            <$v>::set($regs, $inst.part(0), value);
        }
    }};
    (@1 ($regs:ident $inst:ident $fail:ident) $v:ident $w:ident $f:ident) => {{
        // SAFETY: verified register operands.
        unsafe { <$w>::set($regs, $inst.c, semantics::$f(<$v>::get($regs, $inst.a))) }
    }};
    (@2 ($regs:ident $inst:ident $fail:ident) $u:ident $v:ident $w:ident $f:ident) => {{
        // SAFETY: verified register operands.
        unsafe { <$w>::set($regs, $inst.c, semantics::$f(<$u>::get($regs, $inst.a), <$v>::get($regs, $inst.b))) }
    }};
    (($regs:ident $inst:ident $fail:ident) [$($format:tt)*], special) => {
        $fail!(Error::internal(alloc::format!("operation {:?} is not one of the interpreter's", $inst.operation)))
    };
}

/// The match over all operations: the given arms, then those that the instruction table gives a function.
macro_rules! operations {
    ({ $($pair:ident = $first:ident, $second:ident;)* } $body:ident $advance:ident $cx:tt $operation:expr, { $($arms:tt)* }
        $(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*) => {
        match $operation {
            $($arms)*
            $(Operation::$pair => {
                $body!($first);
                $advance!();
                $body!($second);
            })*
            $(#[allow(unreachable_patterns, reason = "operations that the arms above treat")]
            Operation::$name => evaluate!($cx $format, $($semantics)*),)*
        }
    };
}

/// The match over the pairs of operations, too.
macro_rules! dispatch {
    ($body:ident $advance:ident $cx:tt $operation:expr, $arms:tt $($pairs:tt)*) => {
        for_each_instruction!(operations, { $($pairs)* } $body $advance $cx $operation, $arms)
    };
}

impl<'m> Machine<'m> {
    /// Runs until the activation returns, yields or fails; then the frame says where.
    #[allow(clippy::too_many_lines, reason = "the interpreter's loop keeps its state in machine registers")]
    pub(super) fn run(&mut self) -> Result<Completion> {
        let mut code: &'m Code = self.code;
        let (mut regs, mut refs) = self.stack.frames.registers(code.words, code.refs);
        let mut start: *const Inst = code.instructions.as_ptr();
        // SAFETY: a frame's pc is an index of its code's instructions.
        let mut next: *const Inst = unsafe { start.add(self.pc as usize) };
        let mut inst: &Inst;
        let mut fuel = self.stack.fuel;

        macro_rules! save {
            () => {
                self.code = code;
                // SAFETY: `next` is behind an instruction of `start`'s slice.
                self.pc = (unsafe { next.offset_from(start) } - 1) as u32;
                self.stack.fuel = fuel;
            };
        }
        macro_rules! fail {
            ($error:expr) => {{
                let error = $error;
                save!();
                return Err(error);
            }};
        }
        macro_rules! check {
            ($result:expr) => {
                match $result {
                    Ok(value) => value,
                    Err(error) => fail!(error),
                }
            };
        }
        macro_rules! get {
            ($type:ty, $register:expr) => {
                // SAFETY: verified register operand.
                unsafe { <$type>::get(regs, $register) }
            };
        }
        macro_rules! set {
            ($type:ty, $register:expr, $value:expr) => {{
                let value: $type = $value;
                // SAFETY: verified register operand.
                unsafe { <$type>::set(regs, $register, value) }
            }};
        }
        macro_rules! reference {
            ($register:expr) => {
                // SAFETY: verified register operand; the borrow ends with the statement.
                unsafe { reference(refs, $register) }
            };
        }
        macro_rules! set_ref {
            ($register:expr, $value:expr) => {{
                let value: Ref = $value;
                *reference!($register) = value;
            }};
        }
        macro_rules! goto {
            ($index:expr) => {{
                let index = $index as usize;
                // SAFETY: branch targets were verified and resolved to indices of this code's instructions.
                next = unsafe { start.add(index) }
            }};
        }
        macro_rules! burn {
            () => {
                fuel -= 1;
                if fuel == 0 {
                    fuel = 1;
                    fail!(failure::out_of_fuel());
                }
            };
        }
        // What one instruction does to many bytes counts too, or else it would be for free. The next branch or call fails.
        macro_rules! burn_bytes {
            ($bytes:expr) => {
                fuel = fuel.saturating_sub($bytes / BYTES_PER_FUEL).max(1)
            };
        }
        macro_rules! skip {
            ($inst:ident, $displacement:expr) => {{
                let displacement = $displacement as i32 as isize;
                // SAFETY: branch targets were verified and resolved to displacements within this code's instructions.
                next = unsafe { (&raw const *$inst).offset(displacement) }
            }};
        }
        macro_rules! branch {
            ($inst:ident, $condition:expr) => {{
                burn!();
                if $condition {
                    predicted();
                    skip!($inst, $inst.low());
                } else {
                    skip!($inst, $inst.high());
                }
            }};
        }
        macro_rules! compare_branch {
            ($inst:ident, $type:ty, $compare:ident) => {{
                let result = semantics::$compare(get!($type, $inst.a), get!($type, $inst.b));
                set!(i32, $inst.c, result);
                branch!($inst, result != 0)
            }};
        }
        macro_rules! load {
            ($inst:ident, $scalar:ty => $type:ty) => {{
                let buffer = check!(reference!($inst.a).buffer());
                let value = check!(buffer.load::<$scalar>(get!(u64, $inst.b)));
                set!($type, $inst.c, value as $type)
            }};
        }
        macro_rules! store {
            ($inst:ident, $type:ty => $scalar:ty) => {{
                let buffer = check!(reference!($inst.a).buffer());
                check!(buffer.store::<$scalar>(get!(u64, $inst.b), get!($type, $inst.c) as $scalar))
            }};
        }
        macro_rules! fill {
            ($inst:ident, $type:ty => $scalar:ty) => {{
                let value = get!($type, $inst.part(0)) as $scalar;
                let buffer = check!(reference!($inst.a).buffer());
                check!(buffer.fill::<$scalar>(get!(u64, $inst.b), get!(u64, $inst.c), value));
                burn_bytes!(get!(u64, $inst.c) * size_of::<$scalar>() as u64)
            }};
        }
        macro_rules! list_get {
            ($inst:ident, $type:ty, $convert:ident) => {{
                let list = check!(reference!($inst.a).list());
                let value = check!(list.get(get!(i32, $inst.b) as u32));
                set!($type, $inst.c, check!(value.$convert().ok_or_else(failure::not_a_primitive)))
            }};
        }
        macro_rules! list_set {
            ($inst:ident, $type:ty, $variant:ident) => {{
                let list = check!(reference!($inst.a).list());
                check!(list.set(get!(i32, $inst.b) as u32, Value::$variant(get!($type, $inst.c))))
            }};
        }
        macro_rules! switch {
            ($inst:ident, $type:ty) => {{
                let entries = &code.tables[$inst.imm as usize].entries;
                let chosen = entries.get(get!(i32, $inst.a) as u32 as usize).map_or($inst.b, |entry| *entry as u16);
                set!($type, $inst.c, get!($type, chosen))
            }};
        }
        macro_rules! load_global {
            ($inst:ident, $offset:expr, $type:ty, $method:ident, $convert:expr) => {
                set!($type, $inst.c, $convert(check!(self.state.$method($offset))))
            };
        }
        macro_rules! checked_type {
            ($inst:ident, $reference:expr) => {
                check!(check_ref($reference, self.module.type_of($inst.high())))
            };
        }
        macro_rules! global_ref_load {
            ($inst:ident, $global:expr) => {{
                let global = check!(self.state.reference($global));
                let mut slot = global.lock();
                checked_type!($inst, &slot);
                let value =
                    if $inst.a & REF_REGISTER_MOVE_BIT != 0 { core::mem::take(&mut *slot) } else { slot.clone() };
                drop(slot);
                set_ref!($inst.a, value)
            }};
        }
        macro_rules! global_ref_store {
            ($inst:ident, $global:expr) => {{
                let global = check!(self.state.reference($global));
                checked_type!($inst, reference!($inst.a));
                // SAFETY: verified register operand.
                let value = unsafe { transfer(refs, $inst.a) };
                let replaced = core::mem::replace(&mut *global.lock(), value);
                drop(replaced);
            }};
        }
        macro_rules! enter_frame {
            ($code:expr, $registers:expr) => {
                code = $code;
                (regs, refs) = $registers;
                start = code.instructions.as_ptr();
            };
        }

        macro_rules! advance {
            () => {
                // SAFETY: the first of a pair is no terminator, and so another instruction follows.
                (inst, next) = unsafe { (&*next, next.add(1)) }
            };
        }
        macro_rules! body {
            (BufferLoadI32) => { load!(inst, u32 => i32) };
            (BufferStoreI32) => { store!(inst, i32 => u32) };
            (Move32) => { set!(i32, inst.b, get!(i32, inst.a)) };
            (Move64) => { set!(i64, inst.b, get!(i64, inst.a)) };
            (ConstI32) => { set!(i32, inst.c, inst.imm as i32) };
            (CmpLtI32SBranch) => { compare_branch!(inst, i32, cmp_lt_i32_s) };
            (CmpLtI64SBranch) => { compare_branch!(inst, i64, cmp_lt_i64_s) };
            (AddI32) => { evaluate!((regs inst fail) [binary i32], eval add_i32) };
            (AddI64) => { evaluate!((regs inst fail) [binary i64], eval add_i64) };
            (MulI64) => { evaluate!((regs inst fail) [binary i64], eval mul_i64) };
            (FmaI64) => { evaluate!((regs inst fail) [ternary i64], eval fma_i64) };
            (FmaF32) => { evaluate!((regs inst fail) [ternary f32], eval fma_f32) };
            (AddF32) => { evaluate!((regs inst fail) [binary f32], eval add_f32) };
            (MulF32) => { evaluate!((regs inst fail) [binary f32], eval mul_f32) };
        }

        macro_rules! in_buffer {
            ($type:ty, $from:expr, |$value:ident| $result:expr, $target:expr, $to:expr) => {{
                let buffer = check!(reference!(inst.a).buffer());
                let $value = check!(buffer.load::<u32>(get!(u64, inst.b)));
                set!(i32, inst.c, $value as i32);
                advance!();
                let $value: $type = $from($value);
                let result = $result;
                set!($type, $target, result);
                advance!();
                let buffer = check!(reference!(inst.a).buffer());
                check!(buffer.store::<u32>(get!(u64, inst.b), $to(result)));
            }};
        }

        loop {
            // SAFETY: `next` points to an instruction: each block ends with a terminator, and the last instruction of the
            // code is one that does not go on.
            inst = unsafe { &*next };
            // SAFETY: at most one past the end.
            next = unsafe { next.add(1) };
            for_each_pair!(dispatch, body advance (regs inst fail) inst.operation, {
                Operation::AddI32InBuffer => in_buffer!(
                    i32, |bits| bits as i32, |value| semantics::add_i32(value, get!(i32, inst.b)), inst.c, |value| value as u32
                ),
                Operation::AddF32InBuffer => in_buffer!(
                    f32, f32::from_bits, |value| semantics::add_f32(value, get!(f32, inst.b)), inst.c, f32::to_bits
                ),
                Operation::FmaI32InBuffer => in_buffer!(
                    i32,
                    |bits| bits as i32,
                    |value| semantics::fma_i32(get!(i32, inst.a), get!(i32, inst.b), value),
                    inst.part(0),
                    |value| value as u32
                ),
                Operation::FmaF32InBuffer => in_buffer!(
                    f32,
                    f32::from_bits,
                    |value| semantics::fma_f32(get!(f32, inst.a), get!(f32, inst.b), value),
                    inst.part(0),
                    f32::to_bits
                ),
                Operation::Move32 => set!(i32, inst.b, get!(i32, inst.a)),
                Operation::Move64 => set!(i64, inst.b, get!(i64, inst.a)),
                Operation::MoveRef => {
                    let value = core::mem::take(reference!(inst.a));
                    set_ref!(inst.b, value);
                }
                Operation::CopyRef => {
                    let value = reference!(inst.a).clone();
                    set_ref!(inst.b, value);
                }
                Operation::Branch => {
                    burn!();
                    skip!(inst, inst.low());
                }
                Operation::Loop => {
                    let counted = &code.loops[inst.high() as usize];
                    // SAFETY: the frame's registers, which nothing else borrows now.
                    let (words, objects) = unsafe {
                        (core::slice::from_raw_parts_mut(regs, code.words * 2), core::slice::from_raw_parts(refs, code.refs))
                    };
                    let _ = counted.run(words, objects, &mut fuel);
                    skip!(inst, inst.low());
                }
                Operation::Move32Branch => {
                    burn!();
                    set!(i32, inst.b, get!(i32, inst.a));
                    skip!(inst, inst.low());
                }
                Operation::Move64Branch => {
                    burn!();
                    set!(i64, inst.b, get!(i64, inst.a));
                    skip!(inst, inst.low());
                }
                Operation::CondBranch => branch!(inst, get!(i32, inst.a) != 0),
                Operation::CmpEqI32Branch => compare_branch!(inst, i32, cmp_eq_i32),
                Operation::CmpNeI32Branch => compare_branch!(inst, i32, cmp_ne_i32),
                Operation::CmpLtI32SBranch => compare_branch!(inst, i32, cmp_lt_i32_s),
                Operation::CmpLtI32UBranch => compare_branch!(inst, i32, cmp_lt_i32_u),
                Operation::CmpEqI64Branch => compare_branch!(inst, i64, cmp_eq_i64),
                Operation::CmpNeI64Branch => compare_branch!(inst, i64, cmp_ne_i64),
                Operation::CmpLtI64SBranch => compare_branch!(inst, i64, cmp_lt_i64_s),
                Operation::CmpLtI64UBranch => compare_branch!(inst, i64, cmp_lt_i64_u),
                Operation::BranchTable => {
                    burn!();
                    let entries = &code.tables[inst.imm as usize].entries;
                    let default = entries.len() - 1;
                    goto!(entries[(get!(i32, inst.a) as u32 as usize).min(default)]);
                }

                Operation::ConstI32 | Operation::ConstF32 => set!(i32, inst.c, inst.imm as i32),
                Operation::ConstI32Zero | Operation::ConstF32Zero => set!(i32, inst.c, 0),
                Operation::ConstI64 | Operation::ConstF64 => set!(u64, inst.c, inst.imm),
                Operation::ConstI64Zero | Operation::ConstF64Zero => set!(u64, inst.c, 0),
                Operation::ConstRefZero => set_ref!(inst.c, Ref::Null),
                Operation::ConstRefRodata => set_ref!(inst.c, Ref::Buffer(check!(self.module.rodata(inst.low())).clone())),
                Operation::AssignRef => {
                    // SAFETY: verified register operand.
                    let value = unsafe { transfer(refs, inst.a) };
                    set_ref!(inst.c, value);
                }
                Operation::CastAnyRef => {
                    checked_type!(inst, reference!(inst.a));
                    // SAFETY: verified register operand.
                    let value = unsafe { transfer(refs, inst.a) };
                    set_ref!(inst.c, value);
                }
                Operation::CmpEQRef => set!(i32, inst.c, i32::from(reference!(inst.a).same(reference!(inst.b)))),
                Operation::CmpNERef => set!(i32, inst.c, i32::from(!reference!(inst.a).same(reference!(inst.b)))),
                Operation::CmpNZRef => set!(i32, inst.c, i32::from(!reference!(inst.a).is_null())),
                Operation::SelectRef => {
                    let (chosen, other) = if get!(i32, inst.a) != 0 { (inst.b, inst.c) } else { (inst.c, inst.b) };
                    let target = inst.part(0);
                    checked_type!(inst, reference!(chosen));
                    // SAFETY: verified register operand.
                    let value = unsafe { transfer(refs, chosen) };
                    if other & REF_REGISTER_MOVE_BIT != 0 && other & REF_REGISTER_MASK != target {
                        set_ref!(other, Ref::Null);
                    }
                    set_ref!(target, value);
                }
                Operation::SwitchI32 => switch!(inst, i32),
                Operation::SwitchI64 => switch!(inst, i64),
                Operation::SwitchF32 => switch!(inst, f32),
                Operation::SwitchF64 => switch!(inst, f64),
                Operation::SwitchRef => {
                    let table = &code.tables[inst.imm as usize];
                    let index = get!(i32, inst.a) as u32 as usize;
                    let chosen = table.entries.get(index).map_or(inst.b, |entry| *entry as u16);
                    check!(check_ref(reference!(chosen), table.check));
                    // SAFETY: verified register operand.
                    let value = unsafe { transfer(refs, chosen) };
                    set_ref!(inst.c, value);
                }

                Operation::GlobalLoadI32 | Operation::GlobalLoadF32 => {
                    load_global!(inst, inst.low(), i32, load32, |bits| bits as i32);
                }
                Operation::GlobalLoadI64 | Operation::GlobalLoadF64 => {
                    load_global!(inst, inst.low(), u64, load64, |bits| bits);
                }
                Operation::GlobalLoadIndirectI32 | Operation::GlobalLoadIndirectF32 => {
                    load_global!(inst, get!(i32, inst.a) as u32, i32, load32, |bits| bits as i32);
                }
                Operation::GlobalLoadIndirectI64 | Operation::GlobalLoadIndirectF64 => {
                    load_global!(inst, get!(i32, inst.a) as u32, u64, load64, |bits| bits);
                }
                Operation::GlobalStoreI32 | Operation::GlobalStoreF32 => {
                    check!(self.state.store32(inst.low(), get!(i32, inst.a) as u32));
                }
                Operation::GlobalStoreI64 | Operation::GlobalStoreF64 => {
                    check!(self.state.store64(inst.low(), get!(u64, inst.a)));
                }
                Operation::GlobalStoreIndirectI32 | Operation::GlobalStoreIndirectF32 => {
                    check!(self.state.store32(get!(i32, inst.a) as u32, get!(i32, inst.b) as u32));
                }
                Operation::GlobalStoreIndirectI64 | Operation::GlobalStoreIndirectF64 => {
                    check!(self.state.store64(get!(i32, inst.a) as u32, get!(u64, inst.b)));
                }
                Operation::GlobalLoadRef => global_ref_load!(inst, inst.low()),
                Operation::GlobalLoadIndirectRef => global_ref_load!(inst, get!(i32, inst.b) as u32),
                Operation::GlobalStoreRef => global_ref_store!(inst, inst.low()),
                Operation::GlobalStoreIndirectRef => global_ref_store!(inst, get!(i32, inst.b) as u32),

                Operation::ListAlloc => {
                    let element_type = self.module.element_type_of(inst.high());
                    let budget = Some(&self.stack.limits().memory);
                    let capacity = get!(i32, inst.a) as u32;
                    let list = check!(List::new(element_type, capacity, budget));
                    burn_bytes!(u64::from(capacity) * LIST_ELEMENT_BYTES);
                    set_ref!(inst.c, Ref::List(list));
                }
                Operation::ListReserve => {
                    let capacity = get!(i32, inst.b) as u32;
                    check!(check!(reference!(inst.a).list()).reserve(capacity));
                    burn_bytes!(u64::from(capacity) * LIST_ELEMENT_BYTES);
                }
                Operation::ListSize => set!(i32, inst.c, check!(reference!(inst.a).list()).len() as i32),
                Operation::ListResize => {
                    let length = get!(i32, inst.b) as u32;
                    check!(check!(reference!(inst.a).list()).resize(length));
                    burn_bytes!(u64::from(length) * LIST_ELEMENT_BYTES);
                }
                Operation::ListGetI32 => list_get!(inst, i32, to_i32),
                Operation::ListGetI64 => list_get!(inst, i64, to_i64),
                Operation::ListGetF32 => list_get!(inst, f32, to_f32),
                Operation::ListGetF64 => list_get!(inst, f64, to_f64),
                Operation::ListSetI32 => list_set!(inst, i32, I32),
                Operation::ListSetI64 => list_set!(inst, i64, I64),
                Operation::ListSetF32 => list_set!(inst, f32, F32),
                Operation::ListSetF64 => list_set!(inst, f64, F64),
                Operation::ListGetRef => {
                    let (index, take) = (get!(i32, inst.b) as u32, inst.c & REF_REGISTER_MOVE_BIT != 0);
                    let expected = self.module.type_of(inst.high());
                    let value = check!(check!(reference!(inst.a).list()).get_ref(index, expected, take));
                    set_ref!(inst.c, value);
                }
                Operation::ListSetRef => {
                    let list = check!(reference!(inst.a).list()).clone();
                    // SAFETY: verified register operand.
                    let value = unsafe { transfer(refs, inst.c) };
                    check!(list.set(get!(i32, inst.b) as u32, Value::Ref(value)));
                }

                Operation::BufferLoadI8U => load!(inst, u8 => i32),
                Operation::BufferLoadI8S => load!(inst, i8 => i32),
                Operation::BufferLoadI16U => load!(inst, u16 => i32),
                Operation::BufferLoadI16S => load!(inst, i16 => i32),
                Operation::BufferLoadI32 | Operation::BufferLoadF32 => load!(inst, u32 => i32),
                Operation::BufferLoadI64 | Operation::BufferLoadF64 => load!(inst, u64 => u64),
                Operation::BufferStoreI8 => store!(inst, i32 => u8),
                Operation::BufferStoreI16 => store!(inst, i32 => u16),
                Operation::BufferStoreI32 | Operation::BufferStoreF32 => store!(inst, i32 => u32),
                Operation::BufferStoreI64 | Operation::BufferStoreF64 => store!(inst, u64 => u64),
                Operation::BufferFillI8 => fill!(inst, i32 => u8),
                Operation::BufferFillI16 => fill!(inst, i32 => u16),
                Operation::BufferFillI32 | Operation::BufferFillF32 => fill!(inst, i32 => u32),
                Operation::BufferFillI64 | Operation::BufferFillF64 => fill!(inst, u64 => u64),
                Operation::BufferAlloc => {
                    let (length, alignment) = (get!(u64, inst.a), get!(i32, inst.b) as u32);
                    let buffer = check!(Buffer::zeroed(length, alignment, Some(&self.stack.limits().memory)));
                    burn_bytes!(length);
                    set_ref!(inst.c, Ref::Buffer(buffer));
                }
                Operation::BufferClone => {
                    let (length, alignment) = (get!(u64, inst.part(0)), get!(i32, inst.part(1)) as u32);
                    let budget = Some(&self.stack.limits().memory);
                    let source = check!(reference!(inst.a).buffer());
                    let copy = check!(source.clone_range(get!(u64, inst.b), length, alignment, budget));
                    burn_bytes!(length);
                    set_ref!(inst.c, Ref::Buffer(copy));
                }
                Operation::BufferLength => set!(u64, inst.c, check!(reference!(inst.a).buffer()).length()),
                Operation::BufferCopy => {
                    let (source, target) = (reference!(inst.a).clone(), reference!(inst.part(0)).clone());
                    let (source, target) = (check!(source.buffer()), check!(target.buffer()));
                    let (source_offset, target_offset) = (get!(u64, inst.b), get!(u64, inst.part(1)));
                    check!(Buffer::copy(source, source_offset, target, target_offset, get!(u64, inst.c)));
                    burn_bytes!(get!(u64, inst.c));
                }
                Operation::BufferCompare => {
                    let (lhs, rhs) = (reference!(inst.a).clone(), reference!(inst.part(0)).clone());
                    let (lhs, rhs) = (check!(lhs.buffer()), check!(rhs.buffer()));
                    let (lhs_offset, rhs_offset) = (get!(u64, inst.b), get!(u64, inst.part(1)));
                    let length = get!(u64, inst.part(2));
                    let equal = check!(Buffer::equal(lhs, lhs_offset, rhs, rhs_offset, length));
                    burn_bytes!(length);
                    set!(i32, inst.c, i32::from(equal));
                }
                Operation::BufferHash => {
                    let buffer = check!(reference!(inst.a).buffer());
                    let length = get!(u64, inst.part(0));
                    set!(i64, inst.c, check!(buffer.hash(get!(u64, inst.b), length)));
                    burn_bytes!(length);
                }

                Operation::Call => {
                    burn!();
                    let (callee, registers) = check!(self.call(code, inst));
                    enter_frame!(callee, registers);
                    next = start;
                }
                Operation::CallImport => {
                    burn!();
                    save!();
                    let site = &code.sites[inst.imm as usize];
                    if self.call_import(code, site)? == Completion::Yielded {
                        return Err(failure::unexpected_yield());
                    }
                    (regs, refs) = self.stack.frames.registers(code.words, code.refs);
                    fuel = self.stack.fuel;
                }
                Operation::CallImportYieldable => {
                    burn!();
                    save!();
                    let site = &code.sites[inst.imm as usize];
                    let top = self.stack.frames.mark();
                    if self.call_import(code, site)? == Completion::Yielded {
                        return self.suspend(top);
                    }
                    (regs, refs) = self.stack.frames.registers(code.words, code.refs);
                    fuel = self.stack.fuel;
                    goto!(site.resume);
                }
                Operation::Return => {
                    let list = inst.low()..inst.high();
                    let Some(back) = check!(self.return_to_caller(code, (regs, refs), &list)) else {
                        save!();
                        self.leave(code, (regs, refs), &list);
                        return Ok(Completion::Done);
                    };
                    enter_frame!(back.code, back.registers);
                    goto!(back.next);
                }
                Operation::Fail => {
                    check!(failure::fail(get!(i32, inst.a), &code.strings[inst.imm as usize]));
                }
                Operation::FellThrough => fail!(failure::fell_through()),
                Operation::ImportResolved => {
                    set!(i32, inst.c, i32::from(self.state.import(inst.low()).is_some()));
                }
                Operation::Yield => {
                    save!();
                    self.pc = self.pc.wrapping_add(inst.low());
                    return self.suspend(self.stack.frames.mark());
                }
                Operation::Trace | Operation::Print => {
                    let registers = &code.tables[inst.high() as usize].entries;
                    let name = &*code.strings[inst.low() as usize];
                    let print = inst.operation == Operation::Print;
                    trace::event(self.module.name(), print, name, registers.iter().map(|&encoded| {
                        match AnyRegister(encoded as u16) {
                            register if register.is_ref() => trace::Traced::Ref(&*reference!(register.index())),
                            register => trace::Traced::Word(get!(i32, register.index())),
                        }
                    }));
                    for &encoded in registers.iter().filter(|&&encoded| encoded as u16 & REF_REGISTER_MOVE_BIT != 0) {
                        if encoded as u16 & incarnate_bytecode::isa::REF_REGISTER_TYPE_BIT != 0 {
                            set_ref!(encoded as u16, Ref::Null);
                        }
                    }
                }
                Operation::Break => {
                    burn!();
                    trace::breakpoint(self.module.name(), code.function);
                    skip!(inst, inst.low());
                }
                Operation::CondBreak => {
                    if get!(i32, inst.a) != 0 {
                        trace::breakpoint(self.module.name(), code.function);
                    }
                }
            });
        }
    }
}

/// Keeps a conditional branch one: as a conditional move, the next instruction's address would wait for the condition, and
/// the processor could not run ahead.
#[inline(always)]
fn predicted() {
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    // SAFETY: no instructions.
    unsafe {
        core::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
