//! The operand formats of bytecode major version 17: which fields follow an opcode, in which order.
//!
//! A row reads `Variant = row_name(Bank parameters) { field: kind, ... }`; the kinds are
//!
//! | kind | encoded as | meaning |
//! |---|---|---|
//! | `in_v`, `out_v`, `in_w`, `out_w` | u16 | register of the instruction's first (`v`) or second (`w`) bank, read or written |
//! | `in_i32`, `out_i32`, `in_i64`, `out_i64` | u16 | register of a fixed bank |
//! | `in_ref` | u16 | reference register, read, no move bit allowed |
//! | `in_ref_move` | u16 | reference register, read, moved from where the move bit is set |
//! | `out_ref` | u16 | reference register, written (the move bit is allowed and moves the source of a global load) |
//! | `imm_v` | 4 or 8 bytes | immediate of the first bank |
//! | `global` | u32 | byte offset of a primitive global |
//! | `global_ref` | u32 | ordinal of a reference global |
//! | `rodata` | u32 | ordinal of a read-only segment |
//! | `function` | u32 | function ordinal; the high bit marks an import |
//! | `import` | u32 | import ordinal; the high bit is ignored |
//! | `type_id` | u32 | index into the module's type table |
//! | `string` | u16 length, bytes | text |
//! | `target` | u32 | offset of a block marker within the function |
//! | `remap` | aligned to 2: u16 count, pairs of u16 | source and target registers, of either file |
//! | `list_v` | aligned to 2: u16 count, u16 each | registers of the first bank |
//! | `list_ref` | the same | reference registers, move bit allowed |
//! | `list_any` | the same | registers of either file, distinguished by the high bit |
//! | `results` | the same | registers of either file, written |
//! | `segments` | the same | element counts of variadic spans, not registers; 0xFFFF where an argument is not a span |
//! | `cases` | u16 count, then a `target` and a `remap` each | the cases of a branch table |

/// Passes every row of the format table to the macro named by the argument.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_format {
    ($callback:ident $(, $($prefix:tt)*)?) => { $callback! { $($($prefix)*)?
        Unary = unary { operand: in_v, result: out_v }
        Binary = binary { left: in_v, right: in_v, result: out_v }
        Ternary = ternary { first: in_v, second: in_v, third: in_v, result: out_v }
        Shift = shift { operand: in_v, amount: in_i32, result: out_v }
        Power = power { base: in_v, exponent: in_i64, result: out_v }
        Select = select { condition: in_i32, true_value: in_v, false_value: in_v, result: out_v }
        UnaryComparison = unary_comparison { operand: in_v, result: out_i32 }
        BinaryComparison = binary_comparison { left: in_v, right: in_v, result: out_i32 }
        RefUnaryComparison = ref_unary_comparison { operand: in_ref, result: out_i32 }
        RefBinaryComparison = ref_binary_comparison { left: in_ref, right: in_ref, result: out_i32 }
        Conversion = conversion { operand: in_v, result: out_w }
        GlobalLoad = global_load { byte_offset: global, result: out_v }
        GlobalStore = global_store { byte_offset: global, value: in_v }
        GlobalLoadIndirect = global_load_indirect { byte_offset: in_i32, result: out_v }
        GlobalStoreIndirect = global_store_indirect { byte_offset: in_i32, value: in_v }
        GlobalLoadRef = global_load_ref { global: global_ref, type_def: type_id, value: out_ref }
        GlobalStoreRef = global_store_ref { global: global_ref, type_def: type_id, value: in_ref_move }
        GlobalLoadIndirectRef = global_load_indirect_ref { global: in_i32, type_def: type_id, value: out_ref }
        GlobalStoreIndirectRef = global_store_indirect_ref { global: in_i32, type_def: type_id, value: in_ref_move }
        Constant = constant { value: imm_v, result: out_v }
        ZeroConstant = zero_constant { result: out_v }
        ConstRefZero = const_ref_zero { result: out_ref }
        ConstRefRodata = const_ref_rodata { rodata: rodata, value: out_ref }
        DiscardRefs = discard_refs { refs: list_ref }
        AssignRef = assign_ref { source: in_ref_move, result: out_ref }
        CastAnyRef = cast_any_ref { operand: in_ref_move, result_type: type_id, result: out_ref }
        ListAlloc = list_alloc { element_type: type_id, initial_capacity: in_i32, result: out_ref }
        ListReserve = list_reserve { list: in_ref, minimum_capacity: in_i32 }
        ListSize = list_size { list: in_ref, result: out_i32 }
        ListResize = list_resize { list: in_ref, new_size: in_i32 }
        ListGet = list_get { list: in_ref, index: in_i32, result: out_v }
        ListSet = list_set { list: in_ref, index: in_i32, value: in_v }
        ListGetRef = list_get_ref { list: in_ref, index: in_i32, type_def: type_id, result: out_ref }
        ListSetRef = list_set_ref { list: in_ref, index: in_i32, value: in_ref_move }
        SelectRef = select_ref { condition: in_i32, type_def: type_id, true_value: in_ref_move,
            false_value: in_ref_move, result: out_ref }
        Switch = switch { index: in_i32, default_value: in_v, values: list_v, result: out_v }
        SwitchRef = switch_ref { index: in_i32, type_def: type_id, default_value: in_ref_move, values: list_ref,
            result: out_ref }
        BufferLoad = buffer_load { source_buffer: in_ref, source_offset: in_i64, result: out_v }
        BufferStore = buffer_store { target_buffer: in_ref, target_offset: in_i64, value: in_v }
        BufferFill = buffer_fill { target_buffer: in_ref, target_offset: in_i64, length: in_i64, value: in_v }
        BufferAlloc = buffer_alloc { length: in_i64, alignment: in_i32, result: out_ref }
        BufferClone = buffer_clone { source: in_ref, offset: in_i64, length: in_i64, alignment: in_i32,
            result: out_ref }
        BufferLength = buffer_length { buffer: in_ref, result: out_i64 }
        BufferCopy = buffer_copy { source_buffer: in_ref, source_offset: in_i64, target_buffer: in_ref,
            target_offset: in_i64, length: in_i64 }
        BufferCompare = buffer_compare { lhs_buffer: in_ref, lhs_offset: in_i64, rhs_buffer: in_ref,
            rhs_offset: in_i64, length: in_i64, result: out_i32 }
        BufferHash = buffer_hash { source_buffer: in_ref, source_offset: in_i64, length: in_i64, result: out_i64 }
        Block = block {}
        Branch = branch { dest: target, operands: remap }
        CondBranch = cond_branch { condition: in_i32, true_dest: target, true_operands: remap, false_dest: target,
            false_operands: remap }
        CondBreak = cond_break { condition: in_i32, dest: target, operands: remap }
        BranchTable = branch_table { index: in_i32, default_dest: target, default_operands: remap, cases: cases }
        Call = call { callee: function, operands: list_any, results: results }
        CallVariadic = call_variadic { callee: function, segment_sizes: segments, operands: list_any,
            results: results }
        CallYieldable = call_yieldable { callee: function, operands: list_any, resume: target, results: results }
        CallVariadicYieldable = call_variadic_yieldable { callee: function, segment_sizes: segments,
            operands: list_any, resume: target, results: results }
        Return = return_ { operands: list_any }
        Fail = fail { status: in_i32, message: string }
        ImportResolved = import_resolved { import_ordinal: import, result: out_i32 }
        Trace = trace { event_name: string, operands: list_any }
    } };
}
#[doc(hidden)]
pub use for_each_format;
