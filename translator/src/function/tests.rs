//! Every function of the models parses as Rust.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::PathBuf;
use std::sync::Arc;

use incarnate_bytecode::{Contents, VerifiedModule};
use quote::format_ident;

use super::*;

fn modules() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut found = Vec::new();
    for model in std::fs::read_dir(folder).unwrap() {
        let Ok(files) = std::fs::read_dir(model.unwrap().path()) else { continue };
        found.extend(
            files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "vmfb")),
        );
    }
    found.sort();
    assert!(found.len() > 10);
    found
}

fn names(module: &VerifiedModule) -> Vec<FunctionName> {
    (0..module.function_count())
        .map(|ordinal| FunctionName {
            ident: format_ident!("function_{}", ordinal),
            docs: vec![format!("`@{}`", module.function_name(ordinal))],
        })
        .collect()
}

pub(super) fn emitted(module: &VerifiedModule) -> String {
    emitted_with(module, 0)
}

fn emitted_with(module: &VerifiedModule, target_features: u8) -> String {
    let mut analysis = Analysis::new(module, names(module), &crate::Options::default(), false).unwrap();
    analysis.target_features = target_features;
    let mut text = String::new();
    for ordinal in 0..module.function_count() {
        for item in emit(&analysis, ordinal).unwrap().items {
            let file = syn::parse2(item.clone()).unwrap_or_else(|error| panic!("{error}\n{item}"));
            text.push_str(&prettyplease::unparse(&file));
        }
    }
    text
}

#[test]
fn long_loops_are_multiversioned() {
    let count = |file: &str, target_features: u8| {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models").join(file);
        let contents = Arc::new(Contents::from_vec(std::fs::read(path).unwrap()));
        let text = emitted_with(&VerifiedModule::load(contents).unwrap(), target_features);
        ["Body", "Iterations"].map(|name| text.matches(&format!("impl support::Multiversion for {name}")).count())
    };
    assert_eq!([count("dynamic/inline-static.vmfb", 6), count("dynamic/inline-static.vmfb", 0)], [[2, 3], [0; 2]]);
    // Four iterations, and loops without buffers.
    assert_eq!([count("simple_mul/inline-static.vmfb", 6), count("collatz/inline-static.vmfb", 6)], [[0; 2]; 2]);
}

#[test]
fn functions_of_models_are_rust() {
    for path in modules() {
        let contents = Arc::new(Contents::from_vec(std::fs::read(&path).unwrap()));
        let module = VerifiedModule::load(contents).unwrap();
        let text = emitted(&module);
        assert!(text.contains("pub fn"), "{}", path.display());
        if let Ok(name) = std::env::var("SHOW")
            && path.to_string_lossy().contains(&name)
        {
            println!("// {}\n{text}", path.display());
        }
    }
}

pub(super) fn assembled(text: &str) -> Arc<VerifiedModule> {
    let bytes = incarnate_bytecode::assemble(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).unwrap()
}

/// What is emitted for the rows of a matrix that are filled, or copied from a matrix without gaps.
fn rows(count: usize, length: usize, stride: usize, is_copy: bool) -> String {
    let copied = format!(
        "%i16:17 = vm.const.i64 {length}\n  %i16:17 = vm.mul.i64 %i0:1, %i16:17\n  %i16:17 = vm.add.i64 %i16:17, %i6:7\n  \
         %i18 = vm.buffer.load.f32 %r1, %i16:17"
    );
    let element = if is_copy { copied } else { "%i18 = vm.const.f32 1.5".into() };
    let module = assembled(&format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%r0: !vm.buffer, %r1: !vm.buffer) -> () {{\n\
         ^bb0:\n  %i0:1 = vm.const.i64.zero\n  vm.br ^bb1()\n\
         ^bb1:\n  %i2:3 = vm.const.i64 {stride}\n  %i4:5 = vm.mul.i64 %i0:1, %i2:3\n  %i6:7 = vm.const.i64.zero\n  vm.br ^bb2()\n\
         ^bb2:\n  {element}\n  %i8:9 = vm.add.i64 %i4:5, %i6:7\n  vm.buffer.store.f32 %i18, %r0, %i8:9\n  \
         %i10:11 = vm.const.i64 1\n  %i6:7 = vm.add.i64 %i6:7, %i10:11\n  %i12:13 = vm.const.i64 {length}\n  \
         %i14 = vm.cmp.lt.i64.s %i6:7, %i12:13\n  vm.cond_br %i14, ^bb2(), ^bb3()\n\
         ^bb3:\n  %i0:1 = vm.add.i64 %i0:1, %i10:11\n  %i12:13 = vm.const.i64 {count}\n  \
         %i14 = vm.cmp.lt.i64.s %i0:1, %i12:13\n  vm.cond_br %i14, ^bb1(), ^bb4()\n\
         ^bb4:\n  vm.return\n}}\n"
    ));
    emitted(&module).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What an outer loop computes for addresses alone does not keep it from being merged. The bytecode runs its last iteration.
#[test]
fn rows_without_gaps_are_one_loop() {
    let merged = rows(20, 15, 15, false);
    assert!(merged.contains("let count1: usize = 285;") && !merged.contains("for i0 in"), "{merged}");
    assert!(rows(20, 15, 16, false).contains("for i0 in 0..count0"));
    let copied = rows(20, 15, 15, true);
    assert!(copied.contains("let count1: usize = 285;") && !copied.contains("for i0 in"), "{copied}");
}

/// Copies and fills of rows run on strips, but for the shortest: LLVM would unroll some of them and move single elements.
#[test]
fn rows_are_copied_by_strips() {
    for is_copy in [false, true] {
        let widths = |length: usize| {
            let text = rows(20, length, 100, is_copy);
            let (_, call) = text.split_once("support::strips!(")?;
            let end = call.find(';').unwrap_or(call.len());
            Some(call[..end].split_once("i0), ").unwrap_or_default().1.trim_end_matches([')', ' ']).to_owned())
        };
        assert_eq!(widths(31).as_deref(), Some("[1 x LANES, 1 x 16] over 16"));
        assert_eq!(widths(8).as_deref(), Some("[1 x 8] over 8"));
        assert_eq!(widths(64).as_deref(), Some("[2 x LANES, 1 x LANES, 1 x 16] over 16"));
        assert_eq!(widths(7).as_deref(), Some("[1 x 4] over 4"));
        // Rows of three are loops.
        assert_eq!(widths(3), None);
    }
}

/// A value that an inner loop only carries has a name, even if the loop computes nothing else that is used.
#[test]
fn inner_loops_without_work_name_carried_values() {
    // %i1 goes through both loops. The sum is that of the last iteration, which the original loop runs.
    let module = assembled(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%i0: i32, %r0: !vm.buffer) -> (i32, f32) {\n\
         ^bb0:\n  %i8 = vm.const.i32 4\n  vm.br ^bb1(%i0->%i1)\n\
         ^bb1:\n  %i9 = vm.const.i32 3\n  vm.br ^bb2(%i1->%i2)\n\
         ^bb2:\n  %i4:5 = vm.const.i64.zero\n  %i10 = vm.const.i32.zero\n  vm.br ^bb3(%i2->%i3)\n\
         ^bb3:\n  %i11 = vm.buffer.load.f32 %r0, %i4:5\n  %i10 = vm.add.f32 %i10, %i11\n\
         %i12:13 = vm.const.i64 1\n  %i4:5 = vm.add.i64 %i4:5, %i12:13\n  %i12:13 = vm.const.i64 4\n\
         %i11 = vm.cmp.lt.i64.s %i4:5, %i12:13\n  vm.cond_br %i11, ^bb3(), ^bb4()\n\
         ^bb4:\n  %i12 = vm.const.i32 1\n  %i9 = vm.sub.i32 %i9, %i12\n  vm.cond_br %i9, ^bb2(%i3->%i2), ^bb5()\n\
         ^bb5:\n  %i8 = vm.sub.i32 %i8, %i12\n  %i1 = vm.const.i32 7\n  vm.cond_br %i8, ^bb1(), ^bb6()\n\
         ^bb6:\n  vm.return %i3, %i10\n}\n",
    );
    let text = emitted(&module).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("for _ in 0..count0 { let v8: i32 = v5; v5 = v8; }"), "{text}");
}

/// Functions that yield read segments from the state at each use, in nests as well.
#[test]
fn nests_of_functions_that_yield_rematerialize_segments() {
    let module = assembled(
        "vm.module @m\nvm.type !vm.buffer\nvm.rodata[0] = 0000803F00000040\nvm.export @f\n\
         vm.func @f(%i0: i32, %i2:3: i64) -> (i32) {\n\
         ^bb0:\n  vm.yield ^bb1()\n\
         ^bb1:\n  %r0 = vm.const.ref.rodata 0\n  %i4 = vm.buffer.load.f32 %r0, %i2:3\n\
         %i5 = vm.const.i32 1\n  %i0 = vm.sub.i32 %i0, %i5\n  vm.cond_br %i0, ^bb1(), ^bb2()\n\
         ^bb2:\n  vm.return %i4\n}\n",
    );
    let text = emitted(&module);
    assert!(text.contains("'nest") && text.contains("state.rodata(0)"), "{text}");
}

/// Calls of functions of older versions are calls of the newest ones.
#[test]
fn calls_of_older_forms_call_the_newest_function() {
    let module = assembled(
        "vm.module @m\nvm.type !hal.fence\nvm.import @hal.fence.create cconv \"0ri_r\"\n\
         vm.import @hal.fence.join cconv \"0CrD_r\"\nvm.export @f\n\
         vm.func @f(%r0: !hal.fence, %i0: i32) -> (!hal.fence, !hal.fence) {\n\
         ^bb0:\n  %r1 = vm.call @hal.fence.create(%r0, %i0)\n\
         %r2 = vm.call.variadic @hal.fence.join segments[1](%r1)\n\
         vm.return %r1, %r2\n}\n",
    );
    let text = emitted(&module).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("semantics::ext_i32_i64_u(input1)"), "{text}");
    assert!(text.contains("support::HalState::fence_create, stack, (input0, v5)"), "{text}");
    assert!(text.contains("support::HalState::fence_join, stack, (0i64, [&fence_3])"), "{text}");
}

/// The elements of a span have one type: all are borrowed if the call passes one of them elsewhere, too.
#[test]
fn elements_of_a_span_are_borrowed_together() {
    let call = |operands: &str| {
        let text = emitted(&assembled(&format!(
            "vm.module @m\nvm.type !hal.fence\nvm.import @hal.fence.create cconv \"0rI_r\"\n\
             vm.import @user.pass cconv \"0rCrD_v\"\nvm.export @f\nvm.func @f(%r0: !hal.fence) -> () {{\n\
             ^bb0:\n  %i0:1 = vm.const.i64.zero\n  %r1 = vm.call @hal.fence.create(%r0, %i0:1)\n\
             %r2 = vm.call @hal.fence.create(%r0, %i0:1)\n\
             vm.call.variadic @user.pass segments[65535, 2]({operands})\n  vm.return\n}}\n"
        )));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (twice, once) = (call("%r1, %r1, %r2"), call("%r0, %r1, %r2"));
    assert!(twice.contains("(&fence_3, [&fence_3, &fence_4])"), "{twice}");
    assert!(twice.contains("drop(fence_3)") && twice.contains("drop(fence_4)"), "{twice}");
    assert!(once.contains("(input0, [fence_3, fence_4])") && !once.contains("drop("), "{once}");
}

/// A module whose calls create references; `kept` of them are live across each call.
fn references(count: usize, kept: usize) -> String {
    let mut text = String::from(
        "vm.module @m\nvm.type !vm.buffer\nvm.import @user.make cconv \"0i_r\"\nvm.import @user.use cconv \"0r_i\"\n\
         vm.export @f\nvm.func @f() -> (i32) {\n^bb0:\n  %i0 = vm.const.i32 1\n",
    );
    for index in 0..count {
        let register = 1 + index % kept;
        if index >= kept {
            text += &format!("  %i0 = vm.call @user.use(%r{register})\n");
        }
        text += &format!("  %r{register} = vm.call @user.make(%i0)\n");
    }
    text + "  vm.return %i0\n}\n"
}

/// References that live across many calls have spill slots instead of being passed; disjoint spans share a slot.
#[test]
fn many_references_have_spill_slots() {
    let text = emitted(&assembled(&references(2000, 300)));
    assert!(text.contains("spills: &mut Spills0"));
    assert!(!text.contains("Result<(Ref"), "outlined functions return references");
    let slots = text.matches("pub slot_").count();
    assert!((300..600).contains(&slots), "{slots} slots");
    let text = emitted(&assembled(&references(600, 20)));
    assert!(text.contains("function_0_outlined_1"), "nothing is outlined");
    assert!(!text.contains("Spills0"), "few references need no slots");
}

/// A function whose body ends in a loop without an end has no other end, which rustc sees where the loop is.
#[test]
fn endless_loops_stay_in_their_function() {
    let loads = |count: usize| "  %i1 = vm.buffer.load.i32 %r0, %i2:3\n  %i0 = vm.add.i32 %i0, %i1\n".repeat(count);
    let (before, within) = (loads(200), loads(20));
    let text = emitted(&assembled(&format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.export @f\nvm.func @f(%i0: i32, %r0: !vm.buffer) -> (i32) {{\n^bb0:\n  \
         %i2:3 = vm.const.i64.zero\n{before}  vm.br ^bb1()\n^bb1:\n{within}  vm.buffer.store.i32 %i0, %r0, %i2:3\n  vm.br ^bb1()\n}}\n"
    )));
    assert!(text.contains("function_0_outlined_1"), "nothing is outlined");
    let function = text.split("#[inline(never)]").next().unwrap();
    assert!(function.trim_end().trim_end_matches("/// Outlined from [`function_0`].").contains("loop {"), "{function}");
}

/// rustc reads the tables once for each constant that refers to them, so modules with long tables have static locations.
#[test]
fn locations_of_modules_with_long_tables_are_statics() {
    let module = |count: usize| {
        let mut text = String::from("vm.module @m\nvm.import @user.use cconv \"0i_i\"\n");
        for index in 0..count {
            text += &format!(
                "vm.func @f{index}(%i0: i32) -> (i32) {{\n^bb0:\n  %i0 = vm.call @user.use(%i0)\n  vm.return %i0\n}}\n"
            );
        }
        emitted(&assembled(&text))
    };
    let (few, many) = (module(STATIC_LOCATION_ROWS - 1), module(STATIC_LOCATION_ROWS));
    assert!(few.contains("const HERE: Here") && !few.contains("static HERE: Here"));
    assert!(many.contains("static HERE: Here") && !many.contains("const HERE: Here"));
}

/// A program that creates a fence and passes it to an operation to signal, with instructions before and after.
fn with_fence(before: &str, after: &str) -> String {
    emitted(&assembled(&format!(
        "vm.module @m\nvm.type !hal.fence\nvm.import @hal.fence.create cconv \"0rI_r\"\n\
         vm.import @hal.device.queue.barrier cconv \"0rIrrI_v\"\nvm.import @hal.device.queue.alloca cconv \"0rIrrIiiII_r\"\n\
         vm.import @hal.fence.await cconv \"0iICrD_i\"\nvm.import @hal.fence.query cconv \"0r_i\"\n\
         vm.import @hal.fence.signal cconv \"0r_v\"\nvm.import @user.keep cconv \"0r_v\"\nvm.export @f\n\
         vm.func @f(%r0: !hal.fence, %r1: !hal.fence) -> (i32, !hal.fence) {{\n\
         ^bb0:\n  %i0:1 = vm.const.i64.zero\n  %i4 = vm.const.i32.zero\n  %r2 = vm.call @hal.fence.create(%r0, %i0:1)\n{before}\
         vm.call @hal.device.queue.barrier(%r0, %i0:1, %r1, %r2, %i0:1)\n{after}  vm.return %i4, %r1\n}}\n"
    )))
}

/// A fence is deferred if null serves as well as a signalled fence.
#[test]
fn fences_that_are_only_waited_for_are_deferred() {
    let is_deferred = |before: &str, after: &str| {
        let text = with_fence(before, after);
        let (created, deferred) =
            (text.contains("fence_create"), text.contains("let fence_") && text.contains("signalled"));
        assert_ne!(created, deferred, "{text}");
        deferred
    };
    let await_it = "  %i4 = vm.call.variadic @hal.fence.await segments[65535, 65535, 1](%i4, %i0:1, %r2)\n";
    assert!(is_deferred("", await_it));
    assert!(is_deferred("", "  %i4 = vm.call @hal.fence.query(%r2)\n"));
    assert!(is_deferred("", "  vm.call @hal.device.queue.barrier(%r0, %i0:1, %r2, %r1, %i0:1)\n"));
    // A loop waits for it and for the other fence.
    let in_loop = "  vm.br ^bb1(%r2->%r3)\n^bb1:\n  %i4 = vm.call @hal.fence.query(%r3)\n  vm.cond_br %i4, ^bb1(%r1->%r3), ^bb2()\n^bb2:\n";
    assert!(is_deferred("", in_loop));
    for (before, after) in [
        // Compared, passed to a creation, passed to an unknown import, signalled elsewhere, or queried before the operation.
        ("", "  %i4 = vm.cmp.nz.ref %r2\n"),
        ("", "  %i4 = vm.cmp.eq.ref %r1, %r2\n"),
        ("", "  %r1 = vm.call @hal.fence.create(%r2, %i0:1)\n"),
        ("", "  vm.call @user.keep(%r2)\n"),
        ("", "  vm.call @hal.fence.signal(%r2)\n"),
        ("", "  vm.call @hal.device.queue.barrier(%r0, %i0:1, %r1, %r2, %i0:1)\n"),
        ("  %i4 = vm.call @hal.fence.query(%r2)\n", ""),
        ("", "  vm.br ^bb1(%r2->%r3)\n^bb1:\n  vm.call @user.keep(%r3)\n  vm.br ^bb2()\n^bb2:\n"),
        ("", "  vm.br ^bb1(%r2->%r3)\n^bb1:\n  vm.call @hal.device.queue.barrier(%r0, %i0:1, %r1, %r3, %i0:1)\n"),
        ("", "  vm.br ^bb1(%r2->%r1)\n^bb1:\n"),
        // The operation is in another block.
        ("  %i4 = vm.cmp.nz.ref %r1\n  vm.cond_br %i4, ^bb2(), ^bb1()\n^bb1:\n  vm.return %i4, %r1\n^bb2:\n", ""),
    ] {
        assert!(!is_deferred(before, after), "{before}{after}");
    }
}
