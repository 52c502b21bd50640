//! Loops that compilers emit, and loops that are no nests.

mod contractions;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::schedule::{InOrder, Order, Schedule};
use super::{Affine, BailOut, Element, Item, Needed, Nest, Nests, Product, Relation, Strips, Term};
use crate::ir::{Function, Value};
use crate::{Contents, VerifiedModule, assemble};

pub(super) fn function(body: &str) -> Function {
    let text = format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.rodata[0] = 0000803F00000040\nvm.export @f\n\
         vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4: i32) -> (i64) {{\n\
         ^bb0:\n  %i6:7 = vm.const.i64.zero\n  %i8:9 = vm.const.i64 1\n  %i10:11 = vm.const.i64 16\n{body}}}\n"
    );
    let bytes = assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let module = VerifiedModule::load(Arc::new(Contents::copy_from(&bytes))).unwrap();
    Function::new(&module, 0).unwrap()
}

fn nests(body: &str) -> Nests {
    Nests::of(&function(body))
}

pub(super) fn one(body: &str) -> Nest {
    let function = function(body);
    let mut nests = Nests::of(&function);
    assert_eq!((nests.found.len(), nests.rejected.len()), (1, 0), "{nests:#?}\n{function}");
    nests.found.remove(0)
}

pub(super) fn rejected(body: &str) -> BailOut {
    let function = function(body);
    let nests = Nests::of(&function);
    assert!(nests.found.is_empty() && nests.rejected.len() == 1, "{nests:#?}\n{function}");
    assert!(!nests.rejected[0].1.to_string().is_empty());
    nests.rejected[0].1
}

/// A form as text: `k1` is the iteration index of loop 1.
fn text(form: &Affine) -> String {
    let term = |term: &Term| {
        let mut text = term.coefficient.to_string();
        term.factors.iter().for_each(|Value(value)| text.push_str(&format!(" v{value}")));
        term.iteration.iter().for_each(|iteration| text.push_str(&format!(" k{iteration}")));
        text
    };
    form.terms().iter().map(term).collect::<Vec<_>>().join(" + ")
}

const RETURN: &str = "  vm.return %i6:7\n";

/// A matrix product as compilers emit it: the accumulator in memory, the reduction innermost.
#[test]
fn matrix_products_are_nests_of_three() {
    let body = "  vm.br ^bb1(%i6->%i20, %i7->%i21)\n\
        ^bb1:\n  %i5 = vm.cmp.lt.i64.s %i20:21, %i10:11\n  vm.cond_br %i5, ^bb2(), ^bb8()\n\
        ^bb2:\n  %i26:27 = vm.mul.i64 %i20:21, %i10:11\n  vm.br ^bb3(%i6->%i22, %i7->%i23)\n\
        ^bb3:\n  %i5 = vm.cmp.lt.i64.s %i22:23, %i2:3\n  vm.cond_br %i5, ^bb4(), ^bb7()\n\
        ^bb4:\n  %i28:29 = vm.add.i64 %i26:27, %i22:23\n  vm.br ^bb5(%i6->%i24, %i7->%i25)\n\
        ^bb5:\n  %i5 = vm.cmp.lt.i64.s %i24:25, %i10:11\n  vm.cond_br %i5, ^bb6(), ^bb9()\n\
        ^bb6:\n  %i30:31 = vm.add.i64 %i26:27, %i24:25\n  %i32 = vm.buffer.load.f32 %r0, %i30:31\n  \
        %i30:31 = vm.fma.i64 %i24:25, %i2:3, %i22:23\n  %i30:31 = vm.add.i64 %i30:31, %i0:1\n  \
        %i33 = vm.buffer.load.f32 %r1, %i30:31\n  %i34 = vm.buffer.load.f32 %r2, %i28:29\n  \
        %i34 = vm.fma.f32 %i32, %i33, %i34\n  vm.buffer.store.f32 %i34, %r2, %i28:29\n  \
        %i24:25 = vm.add.i64 %i24:25, %i8:9\n  vm.br ^bb5()\n\
        ^bb7:\n  %i20:21 = vm.add.i64 %i20:21, %i8:9\n  vm.br ^bb1()\n\
        ^bb8:\n  vm.return %i6:7\n\
        ^bb9:\n  %i22:23 = vm.add.i64 %i22:23, %i8:9\n  vm.br ^bb3()\n";
    let nest = one(body);
    assert_eq!(nest.loops.iter().map(|counted| counted.parent).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
    let views: Vec<(String, bool)> = nest.views.iter().map(|view| (text(&view.index), view.written)).collect();
    let argument = |index: usize| function(body).arguments()[index].0;
    let (offset, columns) = (argument(3), argument(4));
    assert_eq!(
        views,
        [
            ("16 k0 + 1 k2".into(), false),
            (format!("1 v{offset} + 1 k1 + 1 v{columns} k2"), false),
            ("16 k0 + 1 k1".into(), true),
        ]
    );
    assert_eq!((nest.accesses.len(), nest.conditions.len(), nest.hoisted.len()), (4, 0, 0));
    assert!(nest.accesses.iter().all(|access| access.within == 2));
    assert_eq!(nest.loops[0].test.bound.as_constant(), Some(16));
    assert_eq!(text(&nest.loops[1].test.bound), format!("1 v{columns}"));
    assert!(nest.loops[1].items.contains(&Item::Loop(2)));
    assert_eq!(nest.path(2), [0, 1, 2]);
    // Indices are not computed: grids are indexed by iterations.
    let function = function(body);
    let needed = Needed::of(&function, &nest);
    let computed = nest.instructions().filter(|(block, position)| {
        let inst = nest.instruction(&function, *block, *position);
        inst.results.iter().any(|value| needed.has(*value))
    });
    assert_eq!(computed.count(), 4);
    assert_eq!(nest.operations(&function, &needed), [0, 0, 2]);
    let Schedule::Contraction(contraction) = Schedule::of(&function, &nest, &needed, Order::Bytecode) else { panic!() };
    let (Some(left), right) = (&contraction.left, &contraction.right) else { panic!() };
    assert_eq!((contraction.operation, contraction.output, left.view, right.view), (Product::FmaF32, 2, 0, 1));
    assert!(left.is_memory(&nest) && right.is_memory(&nest) && contraction.loops == [0, 1, 2]);
}

fn schedule(body: &str) -> Schedule {
    schedule_in(body, Order::Bytecode)
}

fn schedule_in(body: &str, order: Order) -> Schedule {
    let (function, nest) = (function(body), one(body));
    Schedule::of(&function, &nest, &Needed::of(&function, &nest), order)
}

fn strips(body: &str) -> Strips {
    match schedule(body) {
        Schedule::Strips(strips) => strips,
        other => panic!("{other:?}"),
    }
}

fn in_order(body: &str) -> InOrder {
    match schedule(body) {
        Schedule::InOrder(reason) => reason,
        other => panic!("{other:?}"),
    }
}

const TEST: &str = "vm.cmp.lt.i64.s %i12:13, %i10:11";

/// A store and a loop within a loop: `r0[i] = i`, then `r1[j] = i + j` for all `j`.
#[test]
fn loops_within_a_sequential_loop_are_nests() {
    let store = "  %i5 = vm.trunc.i64.i32 %i16:17\n  vm.buffer.store.i32 %i5, %r1, %i16:17\n";
    let around = "  %i5 = vm.trunc.i64.i32 %i12:13\n  vm.buffer.store.i32 %i5, %r0, %i12:13\n";
    let body = nested(store, around);
    let (function, nests) = (function(&body), nests(&body));
    assert_eq!(nests.rejected.iter().map(|(_, reason)| *reason).collect::<Vec<_>>(), [BailOut::Sequential]);
    let [nest] = &nests.found[..] else { panic!("{nests:#?}") };
    let schedule = Schedule::of(&function, nest, &Needed::of(&function, nest), Order::Bytecode);
    assert!(matches!(schedule, Schedule::Strips(_)) && nest.loops.len() == 1, "{schedule:?}");
    // Without a schedule for the inner loop, all is one nest.
    let strided = store
        .replace("%i16:17\n  vm.buffer.store", "%i16:17\n  %i18:19 = vm.mul.i64 %i16:17, %i14:15\n  vm.buffer.store");
    let strided = strided.replace("%r1, %i16:17", "%r1, %i18:19");
    assert_eq!(in_order(&nested(&strided, around)), InOrder::Imperfect);
}

/// Two loops of 16 iterations, %i12:13 and in it %i16:17; %i18:19 is twice the outer one's. `behind` follows the inner loop.
pub(super) fn nested(inner: &str, behind: &str) -> String {
    format!(
        "  %i14:15 = vm.const.i64 2\n  vm.br ^bb1(%i6->%i12, %i7->%i13)\n\
         ^bb1:\n  %i5 = {TEST}\n  vm.cond_br %i5, ^bb2(), ^bb3()\n\
         ^bb2:\n  %i18:19 = vm.mul.i64 %i12:13, %i14:15\n  vm.br ^bb4(%i6->%i16, %i7->%i17)\n\
         ^bb3:\n{RETURN}^bb4:\n  %i5 = vm.cmp.lt.i64.s %i16:17, %i10:11\n  vm.cond_br %i5, ^bb5(), ^bb6()\n\
         ^bb5:\n{inner}  %i16:17 = vm.add.i64 %i16:17, %i8:9\n  vm.br ^bb4()\n\
         ^bb6:\n{behind}  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb1()\n"
    )
}

#[test]
fn reductions_run_on_strips() {
    let strided = "  vm.buffer.store.i32 %i4, %r0, %i18:19\n";
    assert_eq!(in_order(&nested(strided, "")), InOrder::Strides);
    assert_eq!(in_order(&nested(STORE, strided)), InOrder::Imperfect);
    let found = strips(&nested(STORE, ""));
    assert_eq!((found.lanes, &found.reductions[..], found.non_aliasing.len()), (0, &[1][..], 0));
    // Several elements, which the same loop chooses; but not one of them twice.
    assert_eq!(in_order(&nested(&format!("{STORE}{STORE}"), "")), InOrder::Stores);
    let several = strips(&nested(&format!("{STORE}  vm.buffer.store.i32 %i4, %r1, %i18:19\n"), ""));
    assert_eq!((&several.stores[..], several.lanes, &several.reductions[..]), (&[0, 1][..], 0, &[1][..]));
    // A maximum is no contraction.
    let maximum = "  %i20 = vm.buffer.load.i32 %r1, %i16:17\n  %i21 = vm.buffer.load.i32 %r0, %i12:13\n  \
        %i20 = vm.max.i32.s %i20, %i21\n  vm.buffer.store.i32 %i20, %r0, %i12:13\n";
    let found = strips(&nested(maximum, ""));
    assert_eq!((found.lanes, &found.reductions[..], &found.non_aliasing[..]), (0, &[1][..], &[0][..]));
}

/// `r0[i] = operation(r0[i], r1[16 i + j])`.
fn rows(operation: &str) -> String {
    nested(
        &format!(
            "  %i22:23 = vm.fma.i64 %i12:13, %i10:11, %i16:17\n  %i20 = vm.buffer.load.f32 %r1, %i22:23\n  \
             %i21 = vm.buffer.load.f32 %r0, %i12:13\n{operation}  vm.buffer.store.f32 %i21, %r0, %i12:13\n"
        ),
        "",
    )
}

/// In any order, too: only contractions have partial sums.
#[test]
fn each_row_is_an_element_of_a_strip() {
    for order in [Order::Bytecode, Order::Any] {
        let Schedule::Strips(found) = schedule_in(&rows("  %i21 = vm.max.f32 %i20, %i21\n"), order) else { panic!() };
        assert_eq!((&found.outer[..], found.lanes, &found.reductions[..]), (&[][..], 0, &[1][..]));
    }
}

#[test]
fn nests_without_reductions_run_on_strips() {
    let fill = strips(&single(0, 1, TEST, STORE));
    assert_eq!((&fill.stores[..], fill.lanes, &fill.outer[..], &fill.reductions[..]), (&[0][..], 0, &[][..], &[][..]));
    // Transpositions: along the store, or else along the load.
    let copy = |from: &str, to: &str| {
        nested(&format!("  %i20 = vm.buffer.load.i32 %r1, {from}\n  vm.buffer.store.i32 %i20, %r0, {to}\n"), "")
            .replace(
                "^bb5:\n",
                "^bb5:\n  %i22:23 = vm.fma.i64 %i12:13, %i10:11, %i16:17\n  \
                      %i24:25 = vm.fma.i64 %i16:17, %i10:11, %i12:13\n  %i26:27 = vm.mul.i64 %i24:25, %i14:15\n",
            )
    };
    let lanes = |from: &str, to: &str| strips(&copy(from, to)).lanes;
    assert_eq!((lanes("%i22:23", "%i24:25"), lanes("%i24:25", "%i22:23")), (0, 1));
    assert_eq!((lanes("%i22:23", "%i22:23"), lanes("%i22:23", "%i26:27")), (1, 1));
    assert_eq!(in_order(&copy("%i26:27", "%i26:27")), InOrder::Strides);
    let one_place = "  vm.buffer.store.i32 %i4, %r0, %i0:1\n";
    assert_eq!(in_order(&single(0, 1, TEST, one_place)), InOrder::OneElement);
    assert_eq!(in_order(&single(0, 1, TEST, &format!("{STORE}{one_place}"))), InOrder::Stores);
    let sum = "  %i20:21 = vm.buffer.load.i64 %r0, %i12:13\n  %i6:7 = vm.add.i64 %i6:7, %i20:21\n";
    assert_eq!(in_order(&single(0, 1, TEST, sum)), InOrder::Carried);
}

#[test]
fn sums_are_carried_and_tests_may_be_last() {
    let nest = one("  %i12:13 = vm.const.i64.zero\n  vm.br ^bb1()\n\
        ^bb1:\n  %i14:15 = vm.buffer.load.i64 %r0, %i6:7\n  %i12:13 = vm.add.i64 %i12:13, %i14:15\n  \
        %i6:7 = vm.add.i64 %i6:7, %i8:9\n  %i5 = vm.cmp.lt.i64.s %i6:7, %i0:1\n  vm.cond_br %i5, ^bb1(), ^bb2()\n\
        ^bb2:\n  vm.return %i12:13\n");
    let [counted] = &nest.loops[..] else { panic!() };
    assert_eq!((counted.inductions.len(), counted.carried.len(), counted.tested_last), (1, 1, false));
    // The tested number is that of the next iteration.
    assert_eq!(
        (counted.test.first.as_constant(), counted.test.step, counted.test.relation),
        (Some(1), 1, Relation::Less)
    );
    assert_eq!((text(&nest.views[0].index), nest.views[0].element), ("1 k0".into(), Element::i64));
}

#[test]
fn loaded_numbers_may_divide_or_select() {
    let decides = |body: &str| {
        let function = function(body);
        let nests = Nests::of(&function);
        assert_eq!(nests.rejected, [], "{function}");
        nests.found[0].decides_by_loaded_numbers(&function)
    };
    let test = "vm.cmp.lt.i64.s %i12:13, %i10:11";
    let load = "  %i16 = vm.buffer.load.i32 %r1, %i12:13\n";
    let store = "  vm.buffer.store.i32 %i16, %r0, %i12:13\n";
    let added = format!("{load}  %i17 = vm.add.i32 %i4, %i16\n  %i16 = vm.mul.i32 %i17, %i16\n{store}");
    assert!(!decides(&single(0, 1, test, &added)));
    let carried = format!("{load}  %i16 = vm.ext.i32.i64.u %i16\n  %i6:7 = vm.add.i64 %i6:7, %i16:17\n");
    let carried = carried.replace("%i16 = vm.ext", "%i16:17 = vm.ext");
    assert!(!decides(&single(0, 1, test, &carried)));
    let nonzero = "  %i18 = vm.const.i32.zero\n  %i19 = vm.const.i32 1\n  %i20 = vm.cmp.eq.i32 %i16, %i18\n  \
        %i16 = vm.select.i32 %i20 ? %i19 : %i16\n  %i16 = vm.div.i32.s %i4, %i16\n";
    assert!(decides(&single(0, 1, test, &format!("{load}{nonzero}{store}"))));
    let by_argument = nonzero.replace("%i4, %i16", "%i16, %i19");
    assert!(!decides(&single(0, 1, test, &format!("{load}{by_argument}{store}"))));
    let switch = "  %i17 = vm.const.i32 7\n  %i16 = vm.switch.i32 %i16[%i4, %i17] else %i4\n";
    assert!(decides(&single(0, 1, test, &format!("{load}{switch}{store}"))));
}

/// A loop around `body`, which goes from `first` on by `step` as `test` says of %i12:13.
pub(super) fn single(first: i64, step: i64, test: &str, body: &str) -> String {
    format!(
        "  %i12:13 = vm.const.i64 {first}\n  %i14:15 = vm.const.i64 {step}\n  vm.br ^bb1()\n\
         ^bb1:\n  %i5 = {test}\n  vm.cond_br %i5, ^bb2(), ^bb3()\n\
         ^bb2:\n{body}  %i12:13 = vm.add.i64 %i12:13, %i14:15\n  vm.br ^bb1()\n^bb3:\n{RETURN}"
    )
}

const STORE: &str = "  vm.buffer.store.i32 %i4, %r0, %i12:13\n";

#[test]
fn tests_of_all_kinds_count() {
    let kinds = [
        ("vm.cmp.lt.i64.s %i12:13, %i0:1", 2, Relation::Less, true),
        ("vm.cmp.lt.i64.u %i12:13, %i0:1", 1, Relation::Less, false),
        ("vm.cmp.lt.i64.s %i0:1, %i12:13", -1, Relation::Greater, true),
        ("vm.cmp.ne.i64 %i12:13, %i0:1", -3, Relation::NotEqual, true),
        ("vm.cmp.nz.i64 %i12:13", -1, Relation::NotEqual, true),
    ];
    for (test, step, relation, signed) in kinds {
        let nest = one(&single(7, step, test, STORE));
        let found = &nest.loops[0].test;
        assert_eq!((found.step, found.relation, found.signed), (step, relation, signed), "{test}");
        assert_eq!(text(&nest.views[0].index), if step == 1 { "7 + 1 k0".into() } else { format!("7 + {step} k0") });
    }
    // Left where the comparison holds.
    let left = single(0, 1, "vm.cmp.lt.i64.s %i0:1, %i12:13", STORE).replace("^bb2(), ^bb3()", "^bb3(), ^bb2()");
    assert_eq!(one(&left).loops[0].test.relation, Relation::LessOrEqual);
    let left = single(0, 1, "vm.cmp.eq.i64 %i0:1, %i12:13", STORE).replace("^bb2(), ^bb3()", "^bb3(), ^bb2()");
    assert_eq!(one(&left).loops[0].test.relation, Relation::NotEqual);
}

#[test]
fn tests_that_do_not_count_are_refused() {
    for (test, step) in [
        // Away from the bound, or not at all.
        ("vm.cmp.lt.i64.s %i12:13, %i0:1", -1),
        ("vm.cmp.lt.i64.s %i12:13, %i0:1", 0),
        ("vm.cmp.lt.i64.s %i0:1, %i12:13", 1),
        // While equal; nothing that changes; something else.
        ("vm.cmp.eq.i64 %i12:13, %i0:1", 1),
        ("vm.cmp.lt.i64.s %i2:3, %i0:1", 1),
        ("vm.cmp.nz.i32 %i4", 1),
    ] {
        assert!(matches!(rejected(&single(0, step, test, STORE)), BailOut::Uncounted(_)), "{test} {step}");
    }
    // The bound is loaded in the loop: neither bound nor condition may come of what a nest loads.
    let loaded = "vm.buffer.load.i64 %r1, %i6:7\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i16:17";
    let loaded = single(0, 1, loaded, STORE).replace("%i5 = vm.buffer", "%i16:17 = vm.buffer");
    assert!(matches!(rejected(&loaded), BailOut::Uncounted(_)));
}

#[test]
fn indices_are_sums_of_products() {
    let indices = [
        ("  %i16:17 = vm.fma.i64 %i12:13, %i2:3, %i0:1\n", "1 vX + 1 vY k0"),
        ("  %i16 = vm.const.i32 67\n  %i16:17 = vm.shl.i64 %i12:13, %i16\n", "8 k0"),
        ("  %i16:17 = vm.sub.i64 %i0:1, %i12:13\n", "1 vX + -1 k0"),
        ("  %i16:17 = vm.sub.i64 %i12:13, %i12:13\n", ""),
    ];
    for (index, expected) in indices {
        let store = "  vm.buffer.store.i32 %i4, %r0, %i16:17\n";
        let body = single(0, 1, "vm.cmp.lt.i64.s %i12:13, %i10:11", &format!("{index}{store}"));
        let arguments: Vec<u32> = function(&body).arguments().iter().map(|value| value.0).collect();
        let expected =
            expected.replace("vX", &format!("v{}", arguments[3])).replace("vY", &format!("v{}", arguments[4]));
        assert_eq!(text(&one(&body).views[0].index), expected, "{index}");
    }
    let others = [
        "  %i16:17 = vm.mul.i64 %i12:13, %i12:13\n",
        "  %i16:17 = vm.and.i64 %i12:13, %i0:1\n",
        // A load is no index of a nest.
        "  %i16:17 = vm.buffer.load.i64 %r1, %i12:13\n",
    ];
    for index in others {
        let store = "  vm.buffer.store.i32 %i4, %r0, %i16:17\n";
        let body = single(0, 1, "vm.cmp.lt.i64.s %i12:13, %i10:11", &format!("{index}{store}"));
        assert!(matches!(rejected(&body), BailOut::Index(_)), "{index}");
    }
}

/// A loop whose integer is divided by %i2:3: the quotient goes to %i22:23, the rest to %i24:25.
fn collapsed(fixed: &str, index: &str, stored: &str) -> String {
    let body = format!(
        "  %i22:23 = vm.div.i64.s %i12:13, %i2:3\n  %i24:25 = vm.rem.i64.s %i12:13, %i2:3\n{fixed}{index}  \
         vm.buffer.store.i64 {stored}, %r0, %i26:27\n"
    );
    single(0, 1, "vm.cmp.lt.i64.s %i12:13, %i0:1", &body)
}

#[test]
fn one_integer_may_count_several_loops() {
    let index = "  %i26:27 = vm.fma.i64 %i22:23, %i10:11, %i24:25\n";
    // Rests towards minus infinity.
    let fixed = "  %i5 = vm.cmp.lt.i64.s %i24:25, %i6:7\n  %i20:21 = vm.add.i64 %i24:25, %i2:3\n  \
        %i24:25 = vm.select.i64 %i5 ? %i20:21 : %i24:25\n";
    for fixed in ["", fixed] {
        let body = collapsed(fixed, index, "%i0:1");
        let (nest, divisor) = (one(&body), function(&body).arguments()[4].0);
        let [outer, inner] = &nest.loops[..] else { panic!("{nest:#?}") };
        assert_eq!((inner.parent, &outer.items[..]), (Some(0), &[Item::Loop(1)][..]));
        assert_eq!(outer.divisor.as_ref().map(text), Some(format!("1 v{divisor}")));
        assert_eq!((text(&inner.test.bound), &inner.divisor), (format!("1 v{divisor}"), &None));
        assert_eq!(text(&nest.views[0].index), "16 k0 + 1 k1");
        assert_eq!(text(&outer.inductions[0].form), format!("1 v{divisor} k0 + 1 k1"));
    }
    // What is stored is no index.
    let stored = collapsed("", index, "%i22:23");
    assert!(matches!(rejected(&stored), BailOut::Effect(_)));
    // Division by a number that is not positive, or of one that does not start at zero, does not count iterations.
    let other = collapsed("", index, "%i0:1").replace("%i12:13 = vm.const.i64 0", "%i12:13 = vm.const.i64 1");
    assert!(matches!(rejected(&other), BailOut::Index(_)));
}

#[test]
fn narrow_indices_must_not_wrap() {
    for (sign, least, greatest) in [("s", i64::from(i32::MIN), i64::from(i32::MAX)), ("u", 0, i64::from(u32::MAX))] {
        let body = format!(
            "  %i12 = vm.const.i32 3\n  %i13 = vm.const.i32 1\n  vm.br ^bb1()\n\
             ^bb1:\n  %i5 = vm.cmp.lt.i32.s %i12, %i4\n  vm.cond_br %i5, ^bb2(), ^bb3()\n\
             ^bb2:\n  %i14 = vm.add.i32 %i12, %i12\n  %i16:17 = vm.ext.i32.i64.{sign} %i14\n  \
             vm.buffer.store.i32 %i14, %r0, %i16:17\n  %i12 = vm.add.i32 %i12, %i13\n  vm.br ^bb1()\n^bb3:\n{RETURN}"
        );
        let nest = one(&body);
        let [condition] = &nest.conditions[..] else { panic!() };
        assert_eq!((text(&condition.form), condition.least, condition.greatest), ("6 + 2 k0".into(), least, greatest));
        assert_eq!(text(&nest.views[0].index), "6 + 2 k0");
    }
}

#[test]
fn what_is_the_same_in_all_turns_is_taken_out() {
    let nest = one(&single(
        0,
        1,
        "vm.cmp.lt.i64.s %i12:13, %i10:11",
        "  %r3 = vm.const.ref.rodata 0\n  %i16:17 = vm.and.i64 %i0:1, %i2:3\n  %i18:19 = vm.add.i64 %i16:17, %i12:13\n  \
         %i20 = vm.buffer.load.i32 %r3, %i18:19\n  vm.buffer.store.i32 %i20, %r0, %i12:13\n",
    ));
    assert_eq!(nest.hoisted.len(), 2);
    assert!(text(&nest.views[0].index).ends_with(" + 1 k0"));
}

#[test]
fn effects_and_branches_are_no_nests() {
    let test = "vm.cmp.lt.i64.s %i12:13, %i10:11";
    let divides = single(
        0,
        1,
        test,
        &format!("  %i16:17 = vm.div.i64.s %i10:11, %i12:13\n  %i6:7 = vm.add.i64 %i6:7, %i16:17\n{STORE}"),
    );
    assert!(matches!(rejected(&divides), BailOut::Effect(_)));
    let fills = single(0, 1, test, "  vm.buffer.fill.i32 %r0, %i12:13, %i12:13, %i4\n");
    assert!(matches!(rejected(&fills), BailOut::Effect(_)));
    let nothing = single(0, 1, test, "  %i6:7 = vm.xor.i64 %i6:7, %i12:13\n");
    assert_eq!(one(&nothing).accesses, []);
    let allocating = single(0, 1, test, &format!("  %r0 = vm.buffer.alloc %i10:11, %i4\n{STORE}"));
    assert!(matches!(rejected(&allocating), BailOut::Effect(_) | BailOut::References(_)));
    // A second exit, and a diamond.
    let leaves = single(0, 1, test, &format!("  vm.cond_br %i4, ^bb4(), ^bb3()\n^bb4:\n{STORE}"));
    assert_eq!(rejected(&leaves), BailOut::Exits);
    let diamond =
        single(0, 1, test, &format!("  vm.cond_br %i4, ^bb4(), ^bb5()\n^bb4:\n{STORE}  vm.br ^bb5()\n^bb5:\n"));
    assert!(matches!(rejected(&diamond), BailOut::Branches(_)));
}

#[test]
fn the_inner_loop_is_a_nest_where_the_outer_is_none() {
    let body = "  vm.br ^bb1()\n\
        ^bb1:\n  %i5 = vm.cmp.lt.i64.s %i6:7, %i10:11\n  vm.cond_br %i5, ^bb2(), ^bb5()\n\
        ^bb2:\n  vm.buffer.fill.i32 %r1, %i6:7, %i8:9, %i4\n  vm.br ^bb3(%i6->%i20, %i7->%i21)\n\
        ^bb3:\n  %i5 = vm.cmp.lt.i64.s %i20:21, %i10:11\n  vm.cond_br %i5, ^bb4(), ^bb6()\n\
        ^bb4:\n  vm.buffer.store.i32 %i4, %r0, %i20:21\n  %i20:21 = vm.add.i64 %i20:21, %i8:9\n  vm.br ^bb3()\n\
        ^bb5:\n  vm.return %i6:7\n\
        ^bb6:\n  %i6:7 = vm.add.i64 %i6:7, %i8:9\n  vm.br ^bb1()\n";
    let nests = nests(body);
    assert_eq!((nests.found.len(), nests.rejected.len()), (1, 1), "{nests:#?}");
    assert!(matches!(nests.rejected[0].1, BailOut::Uncounted(_)));
    // What the inner loop begins with is not the same every time: it is what the header gets.
    let nest = &nests.found[0];
    assert!(nests.at(nest.loops[0].header).is_some() && nests.at(nests.rejected[0].0).is_none());
    let Some(parameter) = nest.loops[0].inductions.first() else { panic!() };
    assert_eq!(text(&parameter.form), format!("1 v{} + 1 k0", parameter.parameter.0));
}
