use super::*;
use crate::{Contents, assemble};
use alloc::sync::Arc;
use alloc::{format, string::ToString};

const IMPORTS: &str = "vm.module @m
vm.type i32
vm.type i64
vm.type !hal.buffer
vm.type !hal.buffer_view
vm.type !hal.fence
vm.type !vm.buffer
vm.import @hal.buffer_view.assert cconv \"0rriiCID_v\"
vm.import @hal.buffer_view.create cconv \"0rIIiiCID_r\"
vm.import @hal.buffer_view.dim cconv \"0ri_I\"
vm.import @hal.device.queue.dealloca cconv \"0rIrrrI_v\"
vm.import @other.sink cconv \"0r_r\"
";

/// The constants of functions: f32, dense, 4, 2, the null reference in %r9.
const CONSTANTS: &str = "%i10 = vm.const.i32 553648160
%i11 = vm.const.i32 1
%i12:13 = vm.const.i64 4
%i14:15 = vm.const.i64 2
%i16 = vm.const.i32 268435488
%r9 = vm.const.ref.zero";

/// Returns the recovered types of the only exported function.
fn signature(functions: &str) -> String {
    let functions = functions.replace("CONSTANTS", CONSTANTS);
    let text = format!("{IMPORTS}vm.export @f\n{functions}");
    let bytes = assemble(&text).unwrap_or_else(|error| unreachable!("{error}\n{text}"));
    let module =
        VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).unwrap_or_else(|error| unreachable!("{error}"));
    let recovered = recovered_declarations(&module);
    let function = module.export(0).map_or(0, |export| export.function);
    Signature::of(&module, &recovered, function).unwrap_or_default().to_string()
}

#[test]
fn checks_and_creations_show_types() {
    let text = signature(
        "vm.func @f(%r0: !vm.ref<?>, %i0: i32, %r1: !vm.ref<?>, %r2: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {
         ^bb0:
           CONSTANTS
           %i20:21 = vm.call @hal.buffer_view.dim(%r0, %i0)
           vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 2](%r0, %r9, %i10, %i11, %i20:21, %i12:13)
           vm.call @hal.device.queue.dealloca(%r9, %i12:13, %r9, %r2, %r9, %i12:13)
           %r4 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%r1, %i12:13, %i12:13, %i16, %i11, %i14:15)
           vm.return %r4, %r0
         }",
    );
    assert_eq!(
        text,
        "(input0: tensor<?x4xf32>, input1: i32, input2: !hal.buffer, input3: !hal.fence) -> (output0: tensor<2xi32>, \
         output1: tensor<?x4xf32>)"
    );
}

/// A declaration is older than the code where the compiler computes with f32 in the place of f16 or f64.
#[test]
fn replaced_floats_are_those_of_the_code() {
    let declared = |declaration: &str| {
        let function = format!(
            "vm.func @f(%r0: !vm.ref<?>, %i0: i32, %r1: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {{
             //! attribute \"iree.abi.declaration\" = \"{declaration}\"
             ^bb0:
               CONSTANTS
               vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 2](%r0, %r9, %i10, %i11, %i12:13, %i12:13)
               vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 1](%r1, %r9, %i16, %i11, %i14:15)
               %r4 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%r1, %i12:13, %i12:13, %i10, %i11, %i14:15)
               vm.return %r4, %r0
             }}"
        );
        signature(&function)
    };
    assert_eq!(
        declared(
            "sync func @f(%half: tensor<?x4xf16>, %n: i32, %k: tensor<2xi64>) -> (%wide: tensor<2xf64>, tensor<?x4xf16>)"
        ),
        "(half: tensor<?x4xf32>, n: i32, k: tensor<2xi64>) -> (wide: tensor<2xf32>, output1: tensor<?x4xf32>)"
    );
    // What is declared as the code has it, or as no float, stays as it is.
    assert_eq!(
        declared(
            "sync func @f(%x: tensor<4x?xf32>, %f64: i32, %k: tensor<2xi32>) -> (%y: tensor<2xi64>, %z: !hal.buffer_view)"
        ),
        "(x: tensor<4x?xf32>, f64: i32, k: tensor<2xi32>) -> (y: tensor<2xi64>, z: !hal.buffer_view)"
    );
}

#[test]
fn only_uses_that_every_call_reaches_show_extents() {
    let text = signature(
        "vm.func @f(%i0: i32, %r0: !vm.ref<?>, %r1: !vm.ref<?>, %r2: !vm.ref<?>) -> (!vm.ref<?>) {
         ^bb0:
           CONSTANTS
           vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 0](%r1, %r9, %i16, %i11)
           %r3 = vm.call @other.sink(%r2)
           vm.cond_br %i0, ^bb1(), ^bb2()
         ^bb1:
           vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 1](%r0, %r9, %i10, %i11, %i12:13)
           %r5 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 2](%r9, %i12:13, %i12:13, %i10, %i11, %i12:13, %i14:15)
           vm.br ^bb3()
         ^bb2:
           %r5 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 2](%r9, %i12:13, %i12:13, %i10, %i11, %i14:15, %i14:15)
           vm.br ^bb3()
         ^bb3:
           vm.return %r5
         }",
    );
    assert_eq!(
        text,
        "(input0: i32, input1: !hal.buffer_view, input2: tensor<i32>, input3: !vm.ref<?>) -> (output0: tensor<?x2xf32>)"
    );
}

#[test]
fn registers_that_loops_write_vary() {
    // The second iteration creates a view of other extents.
    let text = signature(
        "vm.func @f(%i0: i32) -> (!vm.ref<?>) {
         ^bb0:
           CONSTANTS
           vm.br ^bb1()
         ^bb1:
           %r5 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 2](%r9, %i12:13, %i12:13, %i10, %i11, %i12:13, %i14:15)
           %i12:13 = vm.add.i64 %i12:13, %i14:15
           vm.cond_br %i0, ^bb1(), ^bb2()
         ^bb2:
           vm.return %r5
         }",
    );
    assert_eq!(text, "(input0: i32) -> (output0: tensor<?x2xf32>)");
}

#[test]
fn calls_are_followed() {
    let text = signature(
        "vm.func @f(%r0: !vm.ref<?>, %r1: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {
         ^bb0:
           %r2, %r3 = vm.call @m.inner(%r1, %r0)
           vm.return %r2, %r3
         }
         vm.func @inner(%r0: !vm.ref<?>, %r1: !vm.ref<?>) -> (!vm.ref<?>, !vm.ref<?>) {
         ^bb0:
           CONSTANTS
           vm.call.variadic @hal.buffer_view.assert segments[65535, 65535, 65535, 65535, 1](%r0, %r9, %i10, %i11, %i12:13)
           %r5 = vm.call.variadic @hal.buffer_view.create segments[65535, 65535, 65535, 65535, 65535, 1](%r9, %i12:13, %i12:13, %i10, %i11, %i14:15)
           %r6, %r7 = vm.call @m.inner(%r0, %r1)
           vm.return %r5, %r0
         }",
    );
    assert_eq!(text, "(input0: !vm.ref<?>, input1: tensor<4xf32>) -> (output0: tensor<2xf32>, output1: tensor<4xf32>)");
}

#[test]
fn a_budget_ends_the_analysis() {
    let text = format!(
        "{IMPORTS}vm.export @f\nvm.func @f(%r0: !vm.ref<?>) -> (!vm.ref<?>) {{\n^bb0:\n{CONSTANTS}\nvm.return %r0\n}}"
    );
    let bytes = assemble(&text).unwrap_or_default();
    let Ok(module) = VerifiedModule::load(Arc::new(Contents::from_vec(bytes))) else { unreachable!() };
    let mut recovery =
        Recovery { module: &module, uses_tensors: true, types: Types::default(), summaries: IndexMap::default() };
    assert!(flow::summary(&mut recovery, 0, &mut Budget::of_entries(1)).is_err());
    assert!(flow::summary(&mut recovery, 0, &mut Budget::of_entries(1 << 20)).is_ok());
}
