//! The operations that are counted.

use crate::models::{
    TASK, collatz, empty_by_session, first_call, load, mul_by_method, mul_by_session, mul_packed, perceptron,
    scalar_by_method, scan, translate, translated_mul_by_session, translated_perceptron, translated_scan, vm,
};
use crate::{Operation, WARM_UPS, device, kernels};

/// The name of an operation, the function that prepares it, and how often it runs before it is counted.
type Row = (&'static str, fn() -> Operation, usize);

const SYNC: &str = "local-sync";

/// All operations. Loops run for 10,000 iterations where the name has no number; the functions that call make twenty calls each.
pub(crate) const ALL: &[Row] = &[
    ("vm: empty call", || vm("empty", None, false), WARM_UPS),
    ("vm: empty call, translated", || vm("empty", None, true), WARM_UPS),
    ("vm: calls within a module", || vm("call_internal", Some(100), false), WARM_UPS),
    ("vm: calls of a native module", || vm("call_imported", Some(100), false), WARM_UPS),
    ("vm: calls of a native module, translated", || vm("call_imported", Some(100), true), WARM_UPS),
    ("vm: loop_sum", || vm("loop_sum", Some(10_000), false), WARM_UPS),
    ("vm: buffer_reduce", || vm("buffer_reduce", Some(10_000), false), WARM_UPS),
    ("vm: buffer_reduce of 16", || vm("buffer_reduce", Some(16), false), WARM_UPS),
    ("vm: buffer_reduce_unrolled", || vm("buffer_reduce_unrolled", Some(10_000), false), WARM_UPS),
    ("vm: multiply_add_modulo", || vm("multiply_add_modulo", Some(10_000), false), WARM_UPS),
    ("vm: collatz of the numbers to 100", || vm("collatz", Some(100), false), WARM_UPS),
    ("vm: fused_multiply_add", || vm("fused_multiply_add", Some(10_000), false), WARM_UPS),
    ("session: empty call", empty_by_session, WARM_UPS),
    ("session: simple_mul, local-sync", || mul_by_session(Some(SYNC), "simple_mul/llvm-cpu.vmfb"), WARM_UPS),
    ("session: simple_mul, local-task", || mul_by_session(Some(TASK), "simple_mul/llvm-cpu.vmfb"), WARM_UPS),
    ("session: simple_mul, VMVX", || mul_by_session(Some(SYNC), "simple_mul/vmvx.vmfb"), WARM_UPS),
    ("session: simple_mul, inline", || mul_by_session(None, "simple_mul/inline-static.vmfb"), WARM_UPS),
    ("session: simple_mul, translated, local-sync", || translated_mul_by_session(SYNC), WARM_UPS),
    ("session: simple_mul, translated, local-task", || translated_mul_by_session(TASK), WARM_UPS),
    ("packed: simple_mul, local-sync", || mul_packed(Some(SYNC), "simple_mul/llvm-cpu.vmfb"), WARM_UPS),
    ("packed: simple_mul, local-task", || mul_packed(Some(TASK), "simple_mul/llvm-cpu.vmfb"), WARM_UPS),
    ("packed: simple_mul, inline", || mul_packed(None, "simple_mul/inline-static.vmfb"), WARM_UPS),
    ("method: number", scalar_by_method, WARM_UPS),
    ("method: simple_mul of tensors, local-sync", || mul_by_method(SYNC, true), WARM_UPS),
    ("method: simple_mul of arrays, local-sync", || mul_by_method(SYNC, false), WARM_UPS),
    ("method: simple_mul of tensors, local-task", || mul_by_method(TASK, true), WARM_UPS),
    ("model: Collatz on local-sync", || collatz(SYNC), 4),
    ("model: Collatz on local-task", || collatz(TASK), 4),
    ("model: ten steps of an LSTM, host loop", || scan("lstm/llvm-cpu.vmfb"), 4),
    ("model: ten steps of an LSTM, VMVX", || scan("lstm/vmvx.vmfb"), 4),
    ("model: ten steps of an LSTM, translated", translated_scan, WARM_UPS),
    ("model: perceptron, VMVX, local-sync", || perceptron(SYNC), WARM_UPS),
    ("model: perceptron, VMVX, local-task", || perceptron(TASK), WARM_UPS),
    ("model: perceptron, translated, local-sync", || translated_perceptron(SYNC), WARM_UPS),
    ("model: perceptron, translated, local-task", || translated_perceptron(TASK), WARM_UPS),
    ("dispatch: 1 binding", || device::dispatch(1), WARM_UPS),
    ("dispatch: 4 bindings", || device::dispatch(4), WARM_UPS),
    ("dispatch: 16 bindings", || device::dispatch(16), WARM_UPS),
    ("replay: 1 dispatch", || device::replay(1), WARM_UPS),
    ("replay: 10 dispatches", || device::replay(10), WARM_UPS),
    ("replay: 100 dispatches", || device::replay(100), WARM_UPS),
    ("load: simple_mul", || load("simple_mul/llvm-cpu.vmfb"), 1),
    ("load: digits", || load("digits/vmvx.vmfb"), 1),
    ("load: attention", || load("attention/vmvx.vmfb"), 1),
    ("first call: simple_mul, VMVX", first_call, 0),
    ("translate: simple_mul, VMVX", || translate("simple_mul/vmvx.vmfb"), 0),
    ("kernel: product, fma f32", kernels::product_fma_f32, WARM_UPS),
    ("kernel: product, mul and add f32", kernels::product_mul_add_f32, WARM_UPS),
    ("kernel: product, mul and add i32", kernels::product_mul_add_i32, WARM_UPS),
    ("kernel: product, bytes", kernels::product_u8, WARM_UPS),
    ("kernel: product, fma f32, any order", kernels::product_fma_f32_any_order, WARM_UPS),
    ("kernel: product of columns, fma f32", kernels::transposed_fma_f32, WARM_UPS),
    ("kernel: vector, fma f32", kernels::vector_fma_f32, WARM_UPS),
    ("kernel: vector, fma f32, any order", kernels::vector_fma_f32_any_order, WARM_UPS),
    ("kernel: depthwise, fma f32", kernels::depthwise_fma_f32, WARM_UPS),
    ("text: 256 numbers read", device::parse, WARM_UPS),
    ("text: 256 numbers written", device::format, WARM_UPS),
];
