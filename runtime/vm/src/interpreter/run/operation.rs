//! One function for each operation, named as it.
//!
//! Those of the instructions whose meaning is a function of `semantics` are generated from the instruction table; the
//! others are listed here with the cursor's method that runs them.
#![allow(non_snake_case, reason = "functions are named as the operations")]

use super::super::super::reference::{Ref, Value};
use super::super::operation::Inst;
use super::cursor::{Cursor, Flow, IntoFlow};
use incarnate_bytecode::isa::for_each_instruction;
use incarnate_bytecode::semantics;

macro_rules! operations {
    ($run:ident, $inst:ident; $($($name:ident)|+ => $method:expr;)*) => {
        $($(
            #[inline(always)]
            pub(super) fn $name<'m>($run: &mut Cursor<'_, 'm>, $inst: &'m Inst) -> Flow {
                $method.into_flow()
            }
        )+)*
    };
}

/// The function of an instruction of the table, by its format.
macro_rules! evaluation {
    ($name:ident [unary $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.unary::<$v, $v>(inst, semantics::$f);); };
    ($name:ident [conversion $v:ident $w:ident] eval $f:ident) => { operations!(run, inst; $name => run.unary::<$v, $w>(inst, semantics::$f);); };
    ($name:ident [unary_comparison $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.unary::<$v, i32>(inst, semantics::$f);); };
    ($name:ident [binary $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.binary::<$v, $v, $v>(inst, semantics::$f);); };
    ($name:ident [shift $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.binary::<$v, i32, $v>(inst, semantics::$f);); };
    ($name:ident [power $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.binary::<$v, i64, $v>(inst, semantics::$f);); };
    ($name:ident [binary_comparison $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.binary::<$v, $v, i32>(inst, semantics::$f);); };
    ($name:ident [binary $v:ident] try_eval $f:ident) => { operations!(run, inst; $name => run.try_binary::<$v>(inst, semantics::$f);); };
    ($name:ident [ternary $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.ternary::<$v, $v>(inst, semantics::$f);); };
    ($name:ident [select $v:ident] eval $f:ident) => { operations!(run, inst; $name => run.ternary::<i32, $v>(inst, semantics::$f);); };
    ($name:ident [$($format:tt)*] special) => {};
}

macro_rules! evaluations {
    ($(($set:ident, $byte:literal, $name:ident, $mnemonic:literal, $format:tt, [$($effect:tt)*], $($semantics:ident)*))*) => {
        $(evaluation!($name $format $($semantics)*);)*
    };
}
for_each_instruction!(evaluations);

operations! { run, inst;
    // Lowering replaces these by other operations.
    Block | DiscardRefs | CallVariadic | CallYieldable | CallVariadicYieldable => run.not_lowered(inst);
    ConstF32 | ConstF64 | BufferLoadF32 | BufferLoadF64 | BufferStoreF32 | BufferStoreF64 => run.not_lowered(inst);

    // Constants and moves
    ConstI32 => run.set(inst.c, inst.imm as i32);
    ConstI32Zero | ConstF32Zero => run.set(inst.c, 0i32);
    ConstI64 => run.set(inst.c, inst.imm);
    ConstI64Zero | ConstF64Zero => run.set(inst.c, 0u64);
    Move32 => run.move_word::<i32>(inst);
    Move64 => run.move_word::<i64>(inst);

    // Control flow
    Branch => run.jump(inst);
    Move32Branch => run.move_and_jump::<i32>(inst);
    Move64Branch => run.move_and_jump::<i64>(inst);
    CondBranch => run.branch(inst, run.get::<i32>(inst.a) != 0);
    CmpEqI32Branch => run.compare_and_branch(inst, semantics::cmp_eq_i32);
    CmpNeI32Branch => run.compare_and_branch(inst, semantics::cmp_ne_i32);
    CmpLtI32SBranch => run.compare_and_branch(inst, semantics::cmp_lt_i32_s);
    CmpLtI32UBranch => run.compare_and_branch(inst, semantics::cmp_lt_i32_u);
    CmpEqI64Branch => run.compare_and_branch(inst, semantics::cmp_eq_i64);
    CmpNeI64Branch => run.compare_and_branch(inst, semantics::cmp_ne_i64);
    CmpLtI64SBranch => run.compare_and_branch(inst, semantics::cmp_lt_i64_s);
    CmpLtI64UBranch => run.compare_and_branch(inst, semantics::cmp_lt_i64_u);
    BranchTable => run.branch_by_table(inst);
    Nest => run.nest(inst);
    SwitchI32 => run.switch::<i32>(inst);
    SwitchI64 => run.switch::<i64>(inst);
    SwitchF32 => run.switch::<f32>(inst);
    SwitchF64 => run.switch::<f64>(inst);
    Call => run.call(inst);
    CallImport => run.call_import(inst);
    CallImportYieldable => run.call_yieldable_import(inst);
    Return => run.return_(inst);
    Fail => run.fail(inst);
    FellThrough => run.fell_through(inst);
    ImportResolved => run.import_resolved(inst);
    Yield => run.yield_(inst);
    Trace | Print => run.trace(inst);
    Break => run.break_and_jump(inst);
    CondBreak => run.break_if(inst);

    // References
    ConstRefZero => run.set_reference(inst.c, Ref::Null);
    ConstRefRodata => run.rodata(inst);
    MoveRef => run.move_reference(inst);
    CopyRef => run.copy_reference(inst);
    AssignRef => run.assign_reference(inst);
    CastAnyRef => run.cast_reference(inst);
    CmpEQRef => run.set(inst.c, i32::from(run.is_same_reference(inst)));
    CmpNERef => run.set(inst.c, i32::from(!run.is_same_reference(inst)));
    CmpNZRef => run.set(inst.c, i32::from(run.is_reference(inst)));
    SelectRef => run.select_reference(inst);
    SwitchRef => run.switch_reference(inst);

    // Globals
    GlobalLoadI32 | GlobalLoadF32 => run.load_global_32(inst, inst.low());
    GlobalLoadI64 | GlobalLoadF64 => run.load_global_64(inst, inst.low());
    GlobalLoadIndirectI32 | GlobalLoadIndirectF32 => run.load_global_32(inst, run.ordinal(inst.a));
    GlobalLoadIndirectI64 | GlobalLoadIndirectF64 => run.load_global_64(inst, run.ordinal(inst.a));
    GlobalStoreI32 | GlobalStoreF32 => run.store_global_32(inst.a, inst.low());
    GlobalStoreI64 | GlobalStoreF64 => run.store_global_64(inst.a, inst.low());
    GlobalStoreIndirectI32 | GlobalStoreIndirectF32 => run.store_global_32(inst.b, run.ordinal(inst.a));
    GlobalStoreIndirectI64 | GlobalStoreIndirectF64 => run.store_global_64(inst.b, run.ordinal(inst.a));
    GlobalLoadRef => run.load_global_reference(inst, inst.low());
    GlobalLoadIndirectRef => run.load_global_reference(inst, run.ordinal(inst.b));
    GlobalStoreRef => run.store_global_reference(inst, inst.low());
    GlobalStoreIndirectRef => run.store_global_reference(inst, run.ordinal(inst.b));

    // Lists
    ListAlloc => run.allocate_list(inst);
    ListReserve => run.reserve_list(inst);
    ListSize => run.list_size(inst);
    ListResize => run.resize_list(inst);
    ListGetI32 => run.list_get(inst, Value::to_i32);
    ListGetI64 => run.list_get(inst, Value::to_i64);
    ListGetF32 => run.list_get(inst, Value::to_f32);
    ListGetF64 => run.list_get(inst, Value::to_f64);
    ListGetRef => run.list_get_reference(inst);
    ListSetI32 => run.list_set(inst, Value::I32);
    ListSetI64 => run.list_set(inst, Value::I64);
    ListSetF32 => run.list_set(inst, Value::F32);
    ListSetF64 => run.list_set(inst, Value::F64);
    ListSetRef => run.list_set_reference(inst);

    // Buffers
    BufferLoadI8U => run.load::<u8, i32>(inst);
    BufferLoadI8S => run.load::<i8, i32>(inst);
    BufferLoadI16U => run.load::<u16, i32>(inst);
    BufferLoadI16S => run.load::<i16, i32>(inst);
    BufferLoadI32 => run.load::<i32, i32>(inst);
    BufferLoadI64 => run.load::<i64, i64>(inst);
    BufferStoreI8 => run.store(inst, |value: i32| value as u8);
    BufferStoreI16 => run.store(inst, |value: i32| value as u16);
    BufferStoreI32 => run.store(inst, |value: i32| value);
    BufferStoreI64 => run.store(inst, |value: i64| value);
    BufferFillI8 => run.fill(inst, |value: i32| value as u8);
    BufferFillI16 => run.fill(inst, |value: i32| value as u16);
    BufferFillI32 | BufferFillF32 => run.fill(inst, |value: i32| value);
    BufferFillI64 | BufferFillF64 => run.fill(inst, |value: i64| value);
    BufferAlloc => run.allocate_buffer(inst);
    BufferClone => run.clone_buffer(inst);
    BufferLength => run.buffer_length(inst);
    BufferCopy => run.copy_bytes(inst);
    BufferCompare => run.compare_bytes(inst);
    BufferHash => run.hash_bytes(inst);

    // Loads, an operation on what was loaded, and stores of the result
    AddI32InBuffer => run.accumulate(inst, |add| add.c, |run, add, value| semantics::add_i32(value, run.get(add.b)));
    AddF32InBuffer => run.accumulate(inst, |add| add.c, |run, add, value| semantics::add_f32(value, run.get(add.b)));
    FmaI32InBuffer => run.accumulate(inst, |fma| fma.part(0), |run, fma, value| semantics::fma_i32(run.get(fma.a), run.get(fma.b), value));
    FmaF32InBuffer => run.accumulate(inst, |fma| fma.part(0), |run, fma, value| semantics::fma_f32(run.get(fma.a), run.get(fma.b), value));
}
