//! Contractions, and the zeros that accumulators have before.

use super::*;

/// `r0[i] += left * right`, where the operands are computed from `a = r1[j]` in %i20 and `b = r2[i + j]` in %i21.
fn product(operands: &str, sum: &str) -> String {
    nested(
        &format!(
            "  %i22:23 = vm.add.i64 %i12:13, %i16:17\n  %i20 = vm.buffer.load.i8.s %r1, %i16:17\n  \
             %i21 = vm.buffer.load.i32 %r2, %i22:23\n  %i24 = vm.buffer.load.i32 %r0, %i12:13\n{operands}{sum}  \
             vm.buffer.store.i32 %i24, %r0, %i12:13\n"
        ),
        "",
    )
}

#[test]
fn operands_of_contractions_may_be_computed() {
    let fma = "  %i24 = vm.fma.i32 %i20, %i21, %i24\n";
    let Schedule::Contraction(found) = schedule(&product("", fma)) else { panic!() };
    assert_eq!((found.operation, &found.loops[..]), (Product::MulAddI32, &[0, 1][..]));
    let nest = one(&product("", fma));
    // The element of 8 bits is extended.
    let left = found.left.unwrap();
    assert!(!left.is_memory(&nest) && found.right.is_memory(&nest) && left.instructions.is_empty());
    for sum in ["%i24, %i25", "%i25, %i24"] {
        let sum = format!("  %i25 = vm.mul.i32 %i20, %i21\n  %i24 = vm.add.i32 {sum}\n");
        assert!(matches!(schedule(&product("", &sum)), Schedule::Contraction(_)), "{sum}");
    }
    let zero_point = "  %i20 = vm.sub.i32 %i20, %i4\n  %i20 = vm.mul.i32 %i20, %i20\n";
    let Schedule::Contraction(found) = schedule(&product(zero_point, fma)) else { panic!() };
    assert_eq!((found.left.unwrap().instructions.len(), found.right.instructions.len()), (2, 0));
    // Any order, unless a factor is computed with many values.
    let order = |operands: &str| match schedule_in(&product(operands, fma), Order::Any) {
        Schedule::Contraction(found) => found.order,
        other => panic!("{other:?}"),
    };
    assert_eq!((found.order, order(zero_point)), (Order::Bytecode, Order::Any));
    assert_eq!(order(&zero_point.repeat(4)), Order::Bytecode);
}

#[test]
fn sums_of_rows_are_contractions() {
    // `r0[i] += r1[index]`, with 16 iterations of each loop; %i28:29 is `16 * i + j`, %i30:31 `i + 16 * j`.
    let sum = |index: &str, ty: &str, sum: &str| {
        nested(
            &format!(
                "  %i28:29 = vm.fma.i64 %i12:13, %i10:11, %i16:17\n  %i30:31 = vm.fma.i64 %i16:17, %i10:11, %i12:13\n  \
                 %i20 = vm.buffer.load.{ty} %r1, {index}\n  %i24 = vm.buffer.load.{ty} %r0, %i12:13\n{sum}  \
                 vm.buffer.store.{ty} %i24, %r0, %i12:13\n"
            ),
            "",
        )
    };
    for add in ["%i24, %i20", "%i20, %i24"] {
        let rows = sum("%i28:29", "f32", &format!("  %i24 = vm.add.f32 {add}\n"));
        let Schedule::Contraction(found) = schedule(&rows) else { panic!("{add}") };
        assert_eq!((found.operation, found.left, &found.loops[..]), (Product::AddF32, None, &[0, 1][..]));
        assert!(found.right.is_memory(&one(&rows)));
        assert!(matches!(schedule_in(&rows, Order::Any), Schedule::Contraction(_)));
    }
    let add = "  %i24 = vm.add.f32 %i24, %i20\n";
    // Rows of one iteration, and one row.
    for loops in ["%i12:13", "%i16:17"] {
        let few = sum("%i28:29", "f32", add)
            .replace(&format!("vm.cmp.lt.i64.s {loops}, %i10:11"), &format!("vm.cmp.lt.i64.s {loops}, %i8:9"));
        assert!(matches!(schedule(&few), Schedule::Strips(_)), "{loops}");
    }
    // Adjacent along the loop that selects the element; computed; other operations.
    for (index, ty, operation) in [
        ("%i30:31", "f32", add),
        ("%i28:29", "f32", "  %i20 = vm.neg.f32 %i20\n  %i24 = vm.add.f32 %i24, %i20\n"),
        ("%i28:29", "f32", "  %i24 = vm.sub.f32 %i24, %i20\n"),
        ("%i28:29", "i32", "  %i24 = vm.add.i32 %i24, %i20\n"),
    ] {
        assert!(matches!(schedule(&sum(index, ty, operation)), Schedule::Strips(_)), "{index} {operation}");
    }
}

#[test]
fn products_of_what_iterations_change_are_no_contractions() {
    let fma = "  %i24 = vm.fma.i32 %i20, %i21, %i24\n";
    let index = "  %i25 = vm.trunc.i64.i32 %i16:17\n  %i20 = vm.add.i32 %i20, %i25\n";
    for (operands, sum) in [
        (index, fma),
        ("  %i20 = vm.add.i32 %i20, %i21\n", fma),
        ("  %i20 = vm.add.i32 %i20, %i24\n", fma),
        ("", "  %i24 = vm.fma.i32 %i20, %i24, %i24\n"),
        ("", "  %i24 = vm.fma.i32 %i20, %i4, %i24\n"),
        ("", "  %i24 = vm.fma.i32 %i24, %i20, %i21\n"),
        ("", "  %i25 = vm.mul.i32 %i20, %i21\n  %i24 = vm.sub.i32 %i24, %i25\n"),
    ] {
        assert!(matches!(schedule(&product(operands, sum)), Schedule::Strips(_)), "{operands}{sum}");
    }
    // Nothing is summed.
    let elements = product("", fma).replace("%r0, %i12:13", "%r0, %i22:23").replace("%r2, %i22:23", "%r2, %i16:17");
    assert!(matches!(schedule(&elements), Schedule::Strips(_)));
}

#[test]
fn zeros_in_new_buffers_need_no_work() {
    let fill = |before: &str, number: u32, buffer: &str| {
        format!(
            "  %r3 = vm.buffer.alloc %i0:1, %i4\n  %i20 = vm.const.i32 {number}\n{before}  vm.br ^bb1(%i6->%i12, %i7->%i13)\n\
             ^bb1:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i2:3\n  vm.cond_br %i5, ^bb2(), ^bb3()\n\
             ^bb2:\n  vm.buffer.store.i32 %i20, {buffer}, %i12:13\n  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb1()\n\
             ^bb3:\n  %i14:15 = vm.buffer.load.i64 %r3, %i6:7\n  vm.return %i14:15\n"
        )
    };
    let store = "  vm.buffer.store.i32 %i4, %r3, %i6:7\n";
    assert_eq!(schedule(&fill("", 0, "%r3")), Schedule::Zeros);
    for (before, number, buffer) in [("", 1, "%r3"), (store, 0, "%r3"), ("", 0, "%r0")] {
        assert!(matches!(schedule(&fill(before, number, buffer)), Schedule::Strips(_)), "{before}{number}{buffer}");
    }
    // The loops around it store other numbers before it runs again.
    let again = fill("", 0, "%r3").replace(
        "  %i14:15 = vm.buffer.load.i64 %r3, %i6:7\n",
        "  vm.buffer.store.i32 %i4, %r3, %i6:7\n  %i14:15 = vm.buffer.load.i64 %r3, %i6:7\n  \
         vm.cond_br %i4, ^bb4(), ^bb5()\n^bb4:\n  vm.br ^bb1(%i6->%i12, %i7->%i13)\n^bb5:\n",
    );
    let function = function(&again);
    for nest in Nests::of(&function).found {
        let schedule = Schedule::of(&function, &nest, &Needed::of(&function, &nest), Order::Bytecode);
        assert_ne!(schedule, Schedule::Zeros, "{function}");
    }
}

#[test]
fn accumulators_have_zeros_before() {
    let allocation = "  %r3 = vm.buffer.alloc %i0:1, %i4\n";
    let loop_with = |first: u32, body: &str, after: &str| {
        let [head, within, done] = [first, first + 1, first + 2];
        format!(
            "  vm.br ^bb{head}(%i6->%i12, %i7->%i13)\n\
             ^bb{head}:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i2:3\n  vm.cond_br %i5, ^bb{within}(), ^bb{done}()\n\
             ^bb{within}:\n{body}  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb{head}()\n^bb{done}:\n{after}"
        )
    };
    let load = "  %i14 = vm.buffer.load.i32 %r3, %i12:13\n";
    let add = format!("{load}  %i14 = vm.add.i32 %i14, %i4\n  vm.buffer.store.i32 %i14, %r3, %i12:13\n");
    let clear = "  %i20 = vm.const.i32.zero\n  vm.buffer.store.i32 %i20, %r3, %i12:13\n";
    let store = "  vm.buffer.store.i32 %i4, %r3, %i6:7\n";
    let returned = "  %i14:15 = vm.buffer.load.i64 %r3, %i6:7\n  vm.return %i14:15\n";
    // Whether the last nest's buffer has only zeros before.
    let zeros = |before: &str, between: &str, after: &str| {
        let sum = loop_with(4, &add, after);
        let body = format!("{before}{}", loop_with(1, clear, &format!("{between}{sum}")));
        let function = function(&body);
        let nests = Nests::of(&function);
        assert_eq!(nests.found.len(), 2, "{function}");
        nests.found[1].views.iter().all(|view| view.zeros)
    };
    assert!(zeros(allocation, "", returned) && zeros(allocation, "", &format!("{store}{returned}")));
    assert!(!zeros(&format!("{allocation}{store}"), "", returned) && !zeros(allocation, store, returned));
    // In a loop around it, which does not allocate the buffer again, or does.
    let around = |before: &str, first: &str| {
        zeros(
            &format!("{before}  vm.br ^bb7()\n^bb7:\n{first}"),
            "",
            &format!("  vm.cond_br %i4, ^bb7(), ^bb8()\n^bb8:\n{returned}"),
        )
    };
    let clear_first = "  %i20 = vm.const.i32.zero\n  vm.buffer.store.i32 %i20, %r3, %i6:7\n";
    assert!(!around(allocation, clear_first));
    assert!(around("", &format!("{allocation}{clear_first}")));
}

#[test]
fn dot_products_are_contractions_in_any_order() {
    // `r0[0] += r1[index] * r1[j]`, with 16 iterations of each loop.
    let dot = |index: &str| {
        nested(
            &format!(
                "  %i28:29 = vm.const.i64.zero\n  %i20 = vm.buffer.load.f32 %r1, {index}\n  %i21 = vm.buffer.load.f32 %r1, %i16:17\n  \
                 %i24 = vm.buffer.load.f32 %r0, %i28:29\n  %i24 = vm.fma.f32 %i20, %i21, %i24\n  \
                 vm.buffer.store.f32 %i24, %r0, %i28:29\n"
            ),
            "",
        )
    };
    let is_contraction = |index, order| matches!(schedule_in(&dot(index), order), Schedule::Contraction(_));
    assert!(is_contraction("%i16:17", Order::Any));
    assert!(!is_contraction("%i16:17", Order::Bytecode));
    assert!(!is_contraction("%i12:13", Order::Any));
    let sum = |index, order| {
        matches!(
            schedule_in(&dot(index).replace("vm.fma.f32 %i20, %i21, %i24", "vm.add.f32 %i24, %i20"), order),
            Schedule::Contraction(_)
        )
    };
    assert!(sum("%i16:17", Order::Any) && !sum("%i16:17", Order::Bytecode));
}
