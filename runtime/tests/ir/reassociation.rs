//! Sums in any order are the same partial sums in each back end, whatever blocks stand beside those of their loops.

use std::sync::Arc;

use incarnate_runtime::vm::{Buffer, BytecodeModule, Context, Limits, Module, Program, Ref, Value};

use super::assembled;

/// A module whose function adds `length` floats of the first buffer to the first float of the second one, with the blocks of the loop.
fn row_sum(length: usize, blocks: &str) -> String {
    format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer) -> () {{\n\
         ^bb0:\n  %i0:1 = vm.const.i64.zero\n  %i2:3 = vm.const.i64 1\n  %i4:5 = vm.const.i64 {length}\n  \
         vm.br ^bb1(%i0->%i6, %i1->%i7)\n{}}}\nvm.func @g() -> () {{\n^bb0:\n  vm.return\n}}\n",
        blocks.replace("LENGTH", &length.to_string())
    )
}

const TEST: &str = "  %i8 = vm.cmp.lt.i64.s %i6:7, %i4:5\n  vm.cond_br %i8, ^bb2(), ^bb3()\n";
const SUM: &str = "  %i9 = vm.buffer.load.f32 %r0, %i6:7\n  %i10 = vm.buffer.load.f32 %r1, %i0:1\n  \
    %i10 = vm.add.f32 %i10, %i9\n  vm.buffer.store.f32 %i10, %r1, %i0:1\n  \
    %i6:7 = vm.add.i64 %i6:7, %i2:3\n  vm.br ^bb1()\n";

/// The blocks of loops.
fn loops() -> [String; 3] {
    let call = "  vm.call @m:1()\n";
    [
        format!("^bb1:\n{TEST}^bb2:\n{SUM}^bb3:\n  vm.return\n"),
        // A call behind the loop, in a block that stands between the test and the branch back.
        format!("^bb1:\n  %i4:5 = vm.const.i64 LENGTH\n{TEST}^bb3:\n{call}  vm.return\n^bb2:\n{SUM}"),
        // A call in an iteration, where a constant never leads.
        format!(
            "^bb1:\n{TEST}^bb2:\n  %i11 = vm.const.i32.zero\n  vm.cond_br %i11, ^bb4(), ^bb5()\n\
             ^bb4:\n{call}  vm.br ^bb5()\n^bb5:\n{SUM}^bb3:\n  vm.return\n"
        ),
    ]
}

#[test]
fn reassociated_sums_are_partial_sums() {
    for (length, blocks) in [100, 256, 700].iter().flat_map(|length| loops().map(|blocks| (*length, blocks))) {
        let numbers: Vec<f32> = (0..length).map(|at| 1.0 / (at as f32 + 3.0)).collect();
        let module = assembled(&row_sum(length, &blocks));
        let sum = |module: Arc<dyn Module>| {
            let floats = |of: &[f32]| of.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
            let [source, target] = [&numbers[..], &[0.5]].map(|of| Buffer::copy_of(&floats(of)).unwrap());
            let context = Context::new(Program::link(vec![module]).unwrap(), Limits::default()).unwrap();
            let arguments = [source, target.clone()].map(|buffer| Value::Ref(Ref::Buffer(buffer)));
            context.function("f").unwrap().call(&arguments).unwrap();
            f32::from_le_bytes(target.to_vec().unwrap().try_into().unwrap())
        };
        assert_eq!(
            sum(BytecodeModule::new(module.clone()).unwrap()),
            numbers.iter().fold(0.5, |sum, number| sum + number)
        );
        let mut partial = [0f32; 16];
        numbers.iter().enumerate().for_each(|(at, number)| partial[at % 16] += number);
        for half in [8, 4, 2, 1] {
            (0..half).for_each(|at| partial[at] += partial[at + half]);
        }
        assert_eq!(sum(BytecodeModule::reassociating(module).unwrap()), 0.5 + partial[0], "{length}\n{blocks}");
    }
}
