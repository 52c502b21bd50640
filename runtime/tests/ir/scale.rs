//! Functions that are large along one axis: the analyses of each take time in proportion to it, or end in an error of the
//! budget. Their results are checked; quadratic ones would take minutes here.

use std::fmt::Write;

use incarnate_runtime::StatusCode;
use incarnate_runtime::bytecode::ir::{Function, Graph, Loops, Op, Structure, Terminator};
use incarnate_runtime::bytecode::{Disassembler, assemble, disassemble};
use incarnate_runtime::vm::{BytecodeModule, Context, Limits, Program, Value};

use super::assembled;

/// A module with a function `f` of an integer that returns it, with the given blocks; `%i0` is the integer.
fn function(body: &str) -> String {
    format!("vm.module @m version 0\nvm.type i32\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n{body}}}\n")
}

/// The texts of a number of items, in a row.
fn each(count: usize, mut item: impl FnMut(&mut String, usize) -> std::fmt::Result) -> String {
    let mut text = String::new();
    (0..count).for_each(|index| item(&mut text, index).unwrap());
    text
}

fn built(body: &str) -> Function {
    Function::new(&assembled(&function(body)), 0).unwrap()
}

#[test]
fn long_chains_of_blocks_become_one() {
    let blocks = each(40_000, |text, at| {
        let next = at + 1;
        writeln!(text, "  vm.br ^b{next}()\n^b{next}:\n  %i0 = vm.add.i32 %i0, %i0")
    });
    let function = built(&format!("^b0:\n{blocks}  vm.return %i0\n"));
    assert_eq!((function.blocks.len(), function.blocks[0].instructions.len()), (1, 40_000));
}

#[test]
fn chains_of_empty_blocks_with_two_entries_are_skipped() {
    // Each block is also a case of the table, so that none has a single entry.
    let count = 20_000;
    let cases = each(count, |text, at| write!(text, "{}{at}: ^b{at}()", if at == 0 { "" } else { ", " }));
    let blocks = each(count, |text, at| writeln!(text, "^b{at}:\n  vm.br ^b{}()", at + 1));
    let body = format!("^e:\n  vm.br_table %i0 {{ default: ^b0(), {cases} }}\n{blocks}^b{count}:\n  vm.return %i0\n");
    let function = built(&body);
    assert_eq!(function.blocks.len(), 2);
    assert_eq!(function.blocks[0].terminator.successors().len(), count + 1);
    assert_eq!(function.blocks[0].terminator.edge(count).map(|edge| edge.target.0), Some(1));
}

#[test]
fn many_early_exits_meet() {
    let count = 20_000;
    let blocks = each(count, |text, at| {
        let next = at + 1;
        writeln!(text, "^a{at}:\n  %i0 = vm.add.i32 %i0, %i0\n  vm.cond_br %i0, ^a{next}(), ^x()")
    });
    let body = format!("^e:\n  vm.br ^a0()\n{blocks}^a{count}:\n  vm.fail %i0, \"end\"\n^x:\n  vm.return %i0\n");
    let function = built(&body);
    let graph = Graph::of(&function);
    let exit = function.iter().find(|block| matches!(block.1.terminator, Terminator::Return(_))).unwrap().0;
    assert_eq!(graph.predecessors(exit.0).len(), count);
    assert_eq!(graph.dominators().immediate(exit.0), Some(0));
    assert_eq!(Structure::of(&function).selector_count(), 0);
}

#[test]
fn deeply_nested_loops_are_found() {
    let count = 1_500;
    let headers =
        each(count, |text, at| writeln!(text, "^h{at}:\n  %i0 = vm.add.i32 %i0, %i0\n  vm.br ^h{}()", at + 1));
    let latches = each(count, |text, at| {
        let (this, next) = (count - 1 - at, count - 2 - at.min(count - 2));
        let next = if this == 0 { "x".into() } else { format!("l{next}") };
        writeln!(text, "^l{this}:\n  %i0 = vm.mul.i32 %i0, %i0\n  vm.cond_br %i0, ^h{this}(), ^{next}()")
    });
    let inner = count - 1;
    let body = format!("^e:\n  vm.br ^h0()\n{headers}^h{count}:\n  vm.br ^l{inner}()\n{latches}^x:\n  vm.return %i0\n");
    let function = built(&body);
    let graph = Graph::of(&function);
    let loops = Loops::new(&graph, &graph.dominators());
    assert_eq!(loops.all().len(), count);
    for (at, found) in loops.all().iter().enumerate() {
        assert_eq!((found.depth as usize, found.exits), (at + 1, 1));
        assert!((0..=at).all(|outer| loops.contains(outer, found.header)));
    }
    // It nests deeper than statements may: a single dispatch.
    assert_eq!(Structure::of(&function).selector_count(), 1);
}

#[test]
fn cycles_with_many_entries_are_dispatched() {
    // A line of blocks that branch to both neighbours, entered at both ends.
    let count = 6_000;
    let last = count - 1;
    let blocks = each(count, |text, at| {
        let next = if at == last { "x".into() } else { format!("a{}", at + 1) };
        let before = if at == 0 { "x".into() } else { format!("a{}", at - 1) };
        writeln!(text, "^a{at}:\n  %i0 = vm.add.i32 %i0, %i0\n  vm.cond_br %i0, ^{next}(), ^{before}()")
    });
    let function = built(&format!("^e:\n  vm.cond_br %i0, ^a0(), ^a{last}()\n{blocks}^x:\n  vm.return %i0\n"));
    assert_eq!(function.blocks.len(), count + 2);
    assert_eq!(Structure::of(&function).selector_count(), 1);
}

#[test]
fn long_lists_are_read_once() {
    let count = 8_000;
    let registers = each(count, |text, at| write!(text, "{}%i{at}", if at == 0 { "" } else { ", " }));
    let arguments = each(count, |text, at| write!(text, "{}%i{at}: i32", if at == 0 { "" } else { ", " }));
    let types = vec!["i32"; count].join(", ");
    let copies = each(count - 1, |text, at| write!(text, "{}%i{at}->%i{}", if at == 0 { "" } else { ", " }, at + 1));
    let text = format!(
        "vm.module @m version 0\nvm.type i32\nvm.export @f\nvm.func @f({arguments}) -> ({types}) {{\n^e:\n  \
         {registers} = vm.call @m.f({registers})\n  vm.cond_br %i0, ^a({copies}), ^a()\n^a:\n  \
         vm.return {registers}\n}}\n"
    );
    let function = Function::new(&assembled(&text), 0).unwrap();
    assert_eq!(function.results.len(), count);
    // Copies are made one after the other: the first register ends up in all of them.
    assert!(function.blocks.iter().any(|block| block.parameters.len() == count - 1));
}

#[test]
fn products_of_blocks_and_registers_end_in_an_error() {
    let registers = 1..4_000;
    let constants: String = registers.clone().map(|at| format!("  %i{at} = vm.add.i32 %i0, %i0\n")).collect();
    let sums: String = registers.map(|at| format!("  %i0 = vm.add.i32 %i0, %i{at}\n")).collect();
    let blocks = each(20_000, |text, at| writeln!(text, "  vm.br ^b{at}()\n^b{at}:"));
    let module = assembled(&function(&format!("^e:\n{constants}{blocks}{sums}  vm.return %i0\n")));
    let error = Function::new(&module, 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    let text = error.to_string();
    assert!(text.contains("@f") && text.contains("live registers") && !text.contains('\n'), "{text}");
    // The same with fewer blocks is within the budget.
    let blocks = each(100, |text, at| writeln!(text, "  vm.br ^b{at}()\n^b{at}:"));
    assert_eq!(built(&format!("^e:\n{constants}{blocks}{sums}  vm.return %i0\n")).blocks.len(), 1);
}

#[test]
fn products_of_edges_and_arguments_end_in_an_error() {
    // Every case of the table passes all registers.
    let cases = each(20_000, |text, at| write!(text, "{}{at}: ^a()", if at == 0 { "" } else { ", " }));
    let registers = 1..2_000;
    let writes: String = registers.clone().map(|at| format!("  %i{at} = vm.add.i32 %i0, %i0\n")).collect();
    let sums: String = registers.map(|at| format!("  %i0 = vm.add.i32 %i0, %i{at}\n")).collect();
    let body = format!(
        "^e:\n  vm.cond_br %i0, ^t(), ^a()\n^t:\n{writes}  vm.br_table %i0 {{ default: ^a(), {cases} }}\n^a:\n\
         {sums}  vm.return %i0\n"
    );
    let error = Function::new(&assembled(&function(&body)), 0).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted, "{error}");
}

#[test]
fn many_functions_and_names_are_printed_and_read_back() {
    let count = 8_000;
    let globals = each(count, |text, at| writeln!(text, "vm.global.i32 mutable @g{at}"));
    let functions = each(count, |text, at| {
        writeln!(
            text,
            "vm.export @e{at}\nvm.func @e{at}(%i0: i32) -> (i32) {{\n^b:\n  vm.global.store.i32 %i0, @g{at}\n  \
             %i0 = vm.call @m.e{}(%i0)\n  vm.return %i0\n}}",
            (at + 1) % count
        )
    });
    let module = assembled(&format!("vm.module @m version 0\nvm.type i32\n{globals}{functions}"));
    let text = disassemble(&module);
    assert_eq!(disassemble(&assembled(&text)), text);
    let mut disassembler = Disassembler::new(&module);
    for ordinal in 0..count as u32 {
        assert!(disassembler.function(ordinal).is_some_and(|text| text.contains(&format!("vm.func @e{ordinal}("))));
        assert_eq!(module.function_name(ordinal), format!("e{ordinal}"));
    }
    assert_eq!(disassembler.function(count as u32), None);
}

#[test]
fn long_names_of_callees_are_not_repeated() {
    let name = "n".repeat(100_000);
    let calls = "  %i0 = vm.call @x.N(%i0)\n".replace('N', &name) + &"  %i0 = vm.call @import:0(%i0)\n".repeat(2_000);
    let text = function(&format!("^b:\n{calls}  vm.return %i0\n"))
        .replace("vm.export", &format!("vm.import @x.{name} cconv \"0i_i\"\nvm.export"));
    let module = assembled(&text);
    let text = disassemble(&module);
    assert_eq!(text.matches(&name).count(), 1);
    assert!(text.contains("vm.call @import:0(") && assemble(&text).is_ok());
    let function = Function::new(&module, 0).unwrap();
    let calls = function.blocks[0].instructions.iter().filter(|inst| matches!(inst.op, Op::Call(_)));
    assert_eq!(calls.count(), 2_001);
}

/// Calls the function of a text, which the interpreter lowers first.
fn interpreted(text: &str) -> i32 {
    let module = BytecodeModule::new(assembled(text)).unwrap();
    let context = Context::new(Program::link(vec![module]).unwrap(), Limits::default()).unwrap();
    let results = context.function("f").unwrap().call(&[Value::I32(0)]).unwrap();
    let [Value::I32(result)] = results[..] else { panic!("{results:?}") };
    result
}

#[test]
fn branches_back_over_a_call_are_not_searched_one_by_one() {
    let count = 40_000;
    let adds = "  %i1 = vm.add.i32 %i1, %i0\n".repeat(count);
    let blocks = each(count, |text, at| writeln!(text, "  vm.cond_br %i0, ^b(), ^n{at}()\n^n{at}:"));
    let text = function(&format!("^e:\n  vm.br ^b()\n^b:\n{adds}  %i1 = vm.call @m:1(%i0)\n{blocks}  vm.return %i1\n"));
    let callee = "vm.func @g(%i0: i32) -> (i32) {\n^b:\n  vm.return %i0\n}\n";
    assert_eq!(interpreted(&(text + callee)), 0);
}

#[test]
fn many_carried_numbers_are_not_searched_one_by_one() {
    let count = 1_900;
    let pairs = |text: &mut String, at| {
        let (sum, number) = (10 + 2 * at, 11 + 2 * at);
        writeln!(text, "  %i{number} = vm.buffer.load.i32 %r0, %i2:3\n  %i{sum} = vm.add.i32 %i{sum}, %i{number}")
    };
    let sums = each(count, |text, at| writeln!(text, "  %i0 = vm.xor.i32 %i0, %i{}", 10 + 2 * at));
    let body = format!(
        "^e:\n  %i4:5 = vm.const.i64 800\n  %i1 = vm.const.i32 16\n  %r0 = vm.buffer.alloc %i4:5, %i1\n  \
         %i2:3 = vm.const.i64.zero\n  %i6:7 = vm.const.i64 1\n  %i4:5 = vm.const.i64 200\n  vm.br ^h()\n\
         ^h:\n  %i8 = vm.cmp.lt.i64.s %i2:3, %i4:5\n  vm.cond_br %i8, ^b(), ^x()\n\
         ^b:\n{}  %i2:3 = vm.add.i64 %i2:3, %i6:7\n  vm.br ^h()\n^x:\n{sums}  vm.return %i0\n",
        each(count, pairs)
    );
    let text = function(&body).replace("vm.type i32\n", "vm.type i32\nvm.type !vm.buffer\n");
    assert_eq!(interpreted(&text), 0);
}
