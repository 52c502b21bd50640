//! Modules that are large along one axis: translation takes time in proportion to them, or ends in an error of the budget.
//! The emitted code is checked; quadratic translation would take minutes here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use incarnate_bytecode::{Contents, Result, StatusCode, VerifiedModule, assemble};
use incarnate_translator::{Options, generate};

/// The text of a translated module: all of its files.
fn translated(text: &str) -> Result<String> {
    translated_with(text, &Options::default())
}

fn translated_with(text: &str, options: &Options) -> Result<String> {
    let contents = Contents::from_vec(assemble(text).unwrap());
    let module = VerifiedModule::load(Arc::new(contents)).unwrap();
    let files = generate(&module, options)?.files("scale")?;
    let texts = files.into_iter().map(|file| String::from_utf8_lossy(&file.contents).into_owned());
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// The texts of a number of items, in a row.
fn each(count: usize, mut item: impl FnMut(&mut String, usize) -> std::fmt::Result) -> String {
    let mut text = String::new();
    (0..count).for_each(|index| item(&mut text, index).unwrap());
    text
}

/// A module with a function `f` of an integer that returns it, with the given blocks; `%i0` is the integer.
fn function(body: &str) -> String {
    format!("vm.module @m version 0\nvm.type i32\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {{\n{body}}}\n")
}

#[test]
fn clashing_names_become_distinct() {
    let count = 1_500;
    let functions = each(count, |text, at| {
        let name: String = (0..11).map(|bit| if at >> bit & 1 == 0 { '-' } else { '.' }).collect();
        writeln!(text, "vm.export @\"a{name}z\"\nvm.func @\"a{name}z\"() -> () {{\n^b:\n  vm.return\n}}")
    });
    let text = translated(&format!("vm.module @m version 0\nvm.type i32\n{functions}")).unwrap();
    let names = |start: &'static str| {
        let names = text.lines().filter_map(move |line| line.trim_start().strip_prefix(start)?.split('(').next());
        names.filter(|name| name.starts_with("a_z")).map(str::to_owned).collect::<Vec<_>>()
    };
    // The functions, and the methods of the typed interface.
    let names = names("pub fn ");
    assert_eq!(names.len(), 2 * count);
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), count);
    assert!(names.contains(&"a_z".into()) && names.contains(&format!("a_z_{count}")));
}

#[test]
fn long_code_of_untrusted_modules_takes_steps_by_its_length() {
    let adds = |count| each(count, |text, _| writeln!(text, "  %i0 = vm.mul.i32 %i0, %i0"));
    let text = function(&format!(
        "^b0:\n{}  vm.br ^b1()\n^b1:\n{}  vm.cond_br %i0, ^b1(), ^b2()\n^b2:\n  vm.return %i0\n",
        adds(512),
        adds(1024)
    ));
    let text = translated_with(&text, &Options { untrusted: true, ..Options::default() }).unwrap();
    assert!(text.contains("stack.charge(3)") && text.contains("fuel.charge(5)"), "{text}");
}

#[test]
fn ownership_follows_chains_of_calls() {
    // Only the last function stores its argument; each of the others passes it on.
    let count = 2_000;
    let functions = each(count, |text, at| {
        let next = at + 1;
        writeln!(text, "vm.func @f{at}(%r0: !vm.ref<?>) -> () {{\n^b:\n  vm.call @m.f{next}(%r0)\n  vm.return\n}}")
    });
    let last = |body| {
        format!(
            "vm.module @m version 0\nvm.type i32\nvm.type !vm.ref<?>\nvm.type !vm.list<?>\n{functions}vm.func @f{count}(%r0: !vm.ref<?>) \
             -> () {{\n^b:\n{body}  vm.return\n}}\n"
        )
    };
    let stores = "  %r1 = vm.list.alloc %i0 : !vm.list<!vm.ref<?>>\n  vm.list.set.ref %r1, %i0, %R0\n";
    assert_eq!(translated(&last(stores)).unwrap().matches("input0: Ref)").count(), count + 1);
    assert_eq!(translated(&last("")).unwrap().matches("input0: &Ref)").count(), count + 1);
}

#[test]
fn many_loops_and_branches_are_emitted() {
    let count = 2_000;
    let loops = each(count, |text, at| {
        let next = at + 1;
        writeln!(text, "^h{at}:\n  %i0 = vm.add.i32 %i0, %i0\n  vm.cond_br %i0, ^h{at}(), ^h{next}()")
    });
    let text = translated(&function(&format!("^b:\n  vm.br ^h0()\n{loops}^h{count}:\n  vm.return %i0\n"))).unwrap();
    assert_eq!(text.matches("loop {").count(), count);
    let cases = each(count, |text, at| write!(text, "{}{at}: ^a{at}()", if at == 0 { "" } else { ", " }));
    let arms = each(count, |text, at| writeln!(text, "^a{at}:\n  %i0 = vm.not.i32 %i0\n  vm.br ^x()"));
    let body = format!("^b:\n  vm.br_table %i0 {{ default: ^a0(), {cases} }}\n{arms}^x:\n  vm.return %i0\n");
    assert_eq!(translated(&function(&body)).unwrap().matches("semantics::not_i32").count(), count);
}

#[test]
fn chains_of_divisions_are_emitted() {
    // Two equal chains of quotients of quotients, whose sum is the index of a gather.
    let chain = "  %i8:9 = vm.div.i64.s %i0:1, %i6:7\n".to_owned()
        + &"  %i8:9 = vm.div.i64.s %i8:9, %i6:7\n  %i10:11 = vm.add.i64 %i10:11, %i8:9\n".repeat(100);
    let text = translated(&format!(
        "vm.module @m version 0\nvm.type !vm.buffer\nvm.export @f\n\
         vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer) -> () {{\n^b:\n  %i0:1 = vm.const.i64.zero\n  \
         %i2:3 = vm.const.i64 1\n  %i4:5 = vm.const.i64 16\n  %i6:7 = vm.const.i64 2\n  vm.br ^h()\n^h:\n  \
         %i10:11 = vm.const.i64.zero\n{chain}{chain}  %i12 = vm.buffer.load.i32 %r0, %i10:11\n  \
         vm.buffer.store.i32 %i12, %r1, %i0:1\n  %i0:1 = vm.add.i64 %i0:1, %i2:3\n  \
         %i12 = vm.cmp.lt.i64.s %i0:1, %i4:5\n  vm.cond_br %i12, ^h(), ^x()\n^x:\n  vm.return\n}}\n"
    ))
    .unwrap();
    assert_eq!(text.matches("support::gather_of!").count(), 1, "{text}");
    assert!(text.contains("support::Division::<2, 14>"), "{text}");
}

#[test]
fn values_that_suspensions_save_are_limited() {
    let registers = 1..4_000;
    let values: String = registers.clone().map(|at| format!("  %i{at} = vm.add.i32 %i0, %i0\n")).collect();
    let sums: String = registers.map(|at| format!("  %i0 = vm.add.i32 %i0, %i{at}\n")).collect();
    let text = |calls: usize| {
        let calls = "  %i0 = vm.call @m.y(%i0)\n".repeat(calls);
        format!(
            "{}vm.func @y(%i0: i32) -> (i32) {{\n^b:\n  vm.yield ^c()\n^c:\n  vm.return %i0\n}}\n",
            function(&format!("^b:\n{values}{calls}{sums}  vm.return %i0\n"))
        )
    };
    let error = translated(&text(10_000)).unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.to_string().contains("@f"), "{error}");
}

#[test]
fn long_modules_are_refused() {
    // 600 calls of 2,000 operands each pass the limit together with the copies of their results.
    let count = 2_000;
    let registers = each(count, |text, at| write!(text, "{}%i{at}", if at == 0 { "" } else { ", " }));
    let arguments = each(count, |text, at| write!(text, "{}%i{at}: i32", if at == 0 { "" } else { ", " }));
    let types = vec!["i32"; count].join(", ");
    let calls = format!("  {registers} = vm.call @m.f({registers})\n").repeat(600);
    let error = translated(&format!(
        "vm.module @m version 0\nvm.type i32\nvm.func @f({arguments}) -> ({types}) {{\n^b:\n{calls}  \
         vm.return {registers}\n}}\n"
    ));
    let error = error.unwrap_err();
    assert_eq!(error.code(), StatusCode::ResourceExhausted);
    assert!(error.to_string().contains("the limit of a translation is 2097152"), "{error}");
}
