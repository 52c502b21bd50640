//! Executables: modules of VMVX kernels, which host modules carry as constants.

use incarnate_differential::random::Random;

use crate::executable::ARGUMENTS;
use crate::generator::{HOSTILE, Operands};
use crate::signatures::Signature;
use crate::text::Body;

/// Registers of the arguments.
const ARGUMENT_REGISTERS: (usize, usize) = (9, 3);

/// Generates the text of an executable. `functions` are those that kernels can import.
#[must_use]
pub fn generate(random: &mut Random, functions: &[&Signature]) -> String {
    let mut text = String::from(
        "vm.module @kernels version 0\nvm.type !vm.buffer\nvm.type i32\nvm.type !vm.list<?>\nvm.type !vm.opaque\n",
    );
    let mut imported: Vec<&Signature> = (0..random.below(4)).map(|_| *random.pick(functions)).collect();
    imported.sort_by_key(|function| &function.name);
    imported.dedup_by_key(|function| &function.name);
    for function in &imported {
        text += &format!("vm.import @{} cconv \"{}\"\n", function.name, function.convention);
    }
    for index in 0..1 + random.below(2) {
        let name = if index == 0 { "kernel" } else { "other" };
        let mut body = Body::new(ARGUMENT_REGISTERS.0, ARGUMENT_REGISTERS.1);
        for _ in 0..1 + random.below(4) {
            action(random, &mut body, &imported);
        }
        text += &format!("vm.export @{name}\nvm.func @{name}({ARGUMENTS}) -> () {{\n");
        for (key, values) in [
            ("binding_count", ["1", "1", "1", "2", "0", "4294967295"]),
            ("constant_count", ["0", "0", "0", "1", "64", "4294967295"]),
            ("local_memory", ["0", "0", "64", "65536", "1073741824", "4294967295"]),
        ] {
            if !random.one_in(8) {
                // The last values are rare.
                let most = if random.one_in(6) { values.len() } else { 3 };
                text += &format!("  //! attribute \"{key}\" = \"{}\"\n", values[random.below(most)]);
            }
        }
        text += &body.finish("");
    }
    text
}

/// Adds something that a kernel does.
fn action(random: &mut Random, body: &mut Body, imported: &[&Signature]) {
    let binding = |random: &mut Random, body: &mut Body| {
        let index = body.i32(if random.one_in(8) { *random.pick(&HOSTILE) } else { 0 });
        let result = body.reference();
        body.line(&format!("{result} = vm.list.get.ref %r2, {index} : !vm.buffer"));
        result
    };
    let buffer = match random.below(4) {
        0 => (*random.pick(&["%r0", "%r1"])).to_owned(),
        _ => binding(random, body),
    };
    body.keep("vm.buffer", &buffer);
    match random.below(8) {
        0 => {
            // Loops, for ever or nearly.
            let count = body.i32(*random.pick(&[-1, 100, 100_000, 1 << 30]));
            body.repeat(&count, |body| {
                let (zero, at) = (body.i64(0), body.i32(7));
                body.line(&format!("vm.buffer.store.i8 {at}, {buffer}, {zero}"));
            });
        }
        1 => {
            let (at, value) = (body.i64(*random.pick(&HOSTILE)), body.i32(1));
            body.line(&format!("vm.buffer.store.i32 {value}, {buffer}, {at}"));
        }
        2 => {
            let (at, length) = (body.i64(*random.pick(&[0, 0, 1, -1])), body.i64(*random.pick(&HOSTILE)));
            let value = body.i32(255);
            body.line(&format!("vm.buffer.fill.i8 {buffer}, {at}, {length}, {value}"));
        }
        3 => {
            let (length, alignment) = (body.i64(*random.pick(&HOSTILE)), body.i32(16));
            let result = body.reference();
            body.line(&format!("{result} = vm.buffer.alloc {length}, {alignment}"));
            body.keep("vm.buffer", &result);
        }
        4 => nested_lists(random, body),
        5 if random.one_in(4) => {
            let next = body.block();
            body.line(&format!("vm.yield {next}()"));
            body.begin(&next);
        }
        _ => {
            if !imported.is_empty() {
                let function = *random.pick(imported);
                Operands::of(random, body, None).call(function);
            }
        }
    }
}

/// Adds a loop that wraps a list into a list.
pub fn nested_lists(random: &mut Random, body: &mut Body) {
    let (zero, one) = (body.i32(0), body.i32(1));
    let (list, inner) = (body.reference(), body.reference());
    body.line(&format!("{inner} = vm.const.ref.zero"));
    let count = body.i32(*random.pick(&[1, 10, 1000, 9000, 100_000]));
    body.repeat(&count, |body| {
        body.line(&format!("{list} = vm.list.alloc {one} : !vm.list<!vm.opaque>"));
        body.line(&format!("vm.list.resize {list}, {one}"));
        body.line(&format!("vm.list.set.ref {list}, {zero}, {inner}"));
        body.line(&format!("{inner} = vm.assign.ref {list}"));
    });
    body.keep("vm.list", &inner);
}
