//! Coarsened kernels, which run several workgroups in a call, must compute what calls for single workgroups do.

use std::sync::Arc;

use incarnate_runtime::bytecode::ir::{Coarsened, Function, KernelArguments, ownership};
use incarnate_runtime::bytecode::{Budget, VerifiedModule};
use incarnate_runtime::vm::{
    Buffer, BytecodeModule, Context, Limits, List, Module, Program, Ref, Value as VmValue, ValueType, semantics,
};

use super::assembled;
use super::evaluator::IrModule;
use super::random::{Random, programs};

/// The arguments of the kernels here: constants, the list of bindings, and the position.
const ARGUMENTS: KernelArguments = KernelArguments { constants: 0, bindings: 1, position: 2 };
/// Bytes of each binding.
const LENGTH: usize = 16384;

/// A writer of kernels. `%i0` is the position, `%i4:5` its extension; `%r2` to `%r4` are bindings, `%r5` is a buffer of the workgroup.
struct Writer<'r> {
    random: &'r mut Random,
    text: String,
    blocks: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(&format!("  {line}\n"));
    }

    /// Writes loops of the given counts around a body; the counters are `%i20:21` and `%i22:23`. Rarely the outer loop takes the
    /// position as an argument.
    fn loops(&mut self, counts: [String; 2], body: &[String]) {
        let position = if self.random.next(10) == 0 { ", %i0->%i60" } else { "" };
        let first = self.blocks;
        self.blocks += 6;
        for (depth, count) in counts.iter().enumerate() {
            let (counter, bound) = (20 + depth * 2, 24 + depth * 2);
            let (head, next) = (first + depth * 2, first + depth * 2 + 1);
            self.line(&format!("%i{bound}:{} = {count}", bound + 1));
            let position = if depth == 0 { position } else { "" };
            self.line(&format!("vm.br ^bb{head}(%i6->%i{counter}, %i7->%i{}{position})", counter + 1));
            let test = format!("%i28 = vm.cmp.lt.i64.s %i{counter}:{}, %i{bound}:{}", counter + 1, bound + 1);
            self.text.push_str(&format!("^bb{head}:\n  {test}\n"));
            self.line(&format!("vm.cond_br %i28, ^bb{next}(), ^bb{}()", first + 4 + depth));
            self.text.push_str(&format!("^bb{next}:\n"));
        }
        body.iter().for_each(|line| self.line(line));
        if !position.is_empty() {
            self.line("%i62:63 = vm.ext.i32.i64.s %i60");
            self.line("%i50 = vm.buffer.load.f32 %r2, %i62:63");
            self.line("vm.buffer.store.f32 %i50, %r4, %i42:43");
        }
        for depth in [1, 0] {
            let counter = 20 + depth * 2;
            self.line(&format!("%i{counter}:{} = vm.add.i64 %i{counter}:{}, %i8:9", counter + 1, counter + 1));
            if depth == 0 && !position.is_empty() {
                self.line("%i60 = vm.add.i32 %i60, %i61");
            }
            self.line(&format!("vm.br ^bb{}()", first + depth * 2));
            self.text.push_str(&format!("^bb{}:\n", first + 4 + depth));
        }
    }
}

/// Returns lines that compute an index, in a register, from the counters: `row * stride + column`, and the first element of the
/// workgroup.
fn index(register: usize, stride: usize, of_workgroup: bool) -> Vec<String> {
    let pair = format!("%i{register}:{}", register + 1);
    let mut lines =
        vec![format!("{pair} = vm.const.i64 {stride}"), format!("{pair} = vm.fma.i64 %i20:21, {pair}, %i22:23")];
    if of_workgroup {
        lines.push(format!("{pair} = vm.add.i64 {pair}, %i10:11"));
    }
    lines
}

/// Returns an iteration of a nest, the first one's maybe to clear the workgroup's buffer; `%i40:41` is the index there, `%i42:43` in bindings.
fn steps(random: &mut Random, is_first: bool) -> &'static [&'static str] {
    match (is_first, random.next(4)) {
        // Zeros, or another number.
        (true, 0) => &["%i50 = vm.const.f32.zero", "vm.buffer.store.f32 %i50, %r5, %i40:41"],
        (true, 1) => &["vm.buffer.store.f32 %i31, %r5, %i40:41"],
        // Sums in the workgroup's own buffer.
        (_, 0 | 1) => &[
            "%i50 = vm.buffer.load.f32 %r2, %i42:43",
            "%i51 = vm.buffer.load.f32 %r3, %i40:41",
            "%i52 = vm.buffer.load.f32 %r5, %i40:41",
            "%i52 = vm.fma.f32 %i50, %i51, %i52",
            "vm.buffer.store.f32 %i52, %r5, %i40:41",
        ],
        // What follows is computed from it, or from a binding.
        (_, 2) => &[
            "%i50 = vm.buffer.load.f32 %r5, %i40:41",
            "%i50 = vm.add.f32 %i50, %i31",
            "vm.buffer.store.f32 %i50, %r4, %i42:43",
        ],
        _ => &[
            "%i50 = vm.buffer.load.f32 %r2, %i42:43",
            "%i51 = vm.buffer.load.f32 %r4, %i42:43",
            "%i50 = vm.sub.f32 %i51, %i50",
            "vm.buffer.store.f32 %i50, %r4, %i42:43",
        ],
    }
}

/// Returns a random kernel, most of which can be coarsened.
fn kernel(random: &mut Random) -> String {
    let (rows, columns) = (1 + random.next(3), 1 + random.next(9));
    let length = (random.next(3) == 0).then(|| random.next(30));
    let sign = ["s", "u"][random.next(2)];
    // The first element of a workgroup: by rows or by columns, or overlapping with others'.
    let (step, stride) = match random.next(5) {
        0 | 1 => (columns, 64 * columns),
        2 | 3 => (rows * columns, columns),
        _ => (columns.div_ceil(2), 64 * columns),
    };
    let mut writer = Writer { random, text: String::new(), blocks: 1 };
    let unused = if writer.random.next(12) == 0 { "%i30 = vm.add.i32 %i0, %i0" } else { "%i30 = vm.const.i32 16" };
    // Computed with 32 bits again.
    let narrow = match writer.random.next(4) {
        0 => {
            "%i32 = vm.trunc.i64.i32 %i4:5\n  %i33 = vm.const.i32 2\n  %i32 = vm.mul.i32 %i32, %i33\n  \
             %i4:5 = vm.ext.i32.i64.s %i32"
        }
        _ => "%i32 = vm.const.i32.zero",
    };
    for line in [
        &format!("%i4:5 = vm.ext.i32.i64.{sign} %i0"),
        "%i6:7 = vm.const.i64.zero",
        "%i8:9 = vm.const.i64 1",
        "%i61 = vm.const.i32 1",
        &format!("%i10:11 = vm.const.i64 {step}"),
        narrow,
        "%i10:11 = vm.mul.i64 %i4:5, %i10:11",
        unused,
        "%i31 = vm.buffer.load.f32 %r0, %i6:7",
        &format!("%i12:13 = vm.const.i64 {}", rows * columns * 4),
        "%r5 = vm.buffer.alloc %i12:13, %i30",
    ] {
        writer.line(line);
    }
    // In any order.
    let first = writer.random.next(3);
    for binding in (0..3).map(|at| (first + at) % 3) {
        writer.line(&format!("%i30 = vm.const.i32 {binding}"));
        writer.line(&format!("%r{} = vm.list.get.ref %r1, %i30 : !vm.buffer", binding + 2));
    }
    let count = |number: usize| format!("vm.const.i64 {number}");
    if let Some(length) = length {
        // The last tiles have fewer rows, most often one.
        let step = if writer.random.next(4) == 0 { 1 + writer.random.next(4) } else { rows };
        writer.line(&format!("%i36:37 = vm.const.i64 {length}"));
        writer.line(&format!("%i34:35 = vm.const.i64 {}", -(step as i64)));
        let product = ["%i4:5, %i34:35", "%i34:35, %i4:5"][writer.random.next(2)];
        writer.line(&format!("%i36:37 = vm.fma.i64 {product}, %i36:37"));
        writer.line(&format!("%i34:35 = vm.const.i64 {rows}"));
    }
    for nest in 0..1 + writer.random.next(4) {
        // Computed between nests, and only used behind.
        if writer.random.next(8) == 0 {
            writer.line("%i64:65 = vm.const.i64 7");
            writer.line("%i66:67 = vm.ext.i32.i64.s %i0");
            writer.line("%i66:67 = vm.div.i64.s %i66:67, %i64:65");
        }
        let rows = match (length, writer.random.next(40)) {
            (_, 0) => String::from("vm.add.i64 %i4:5, %i8:9"),
            (Some(_), at) => format!("vm.min.i64.s {}", ["%i34:35, %i36:37", "%i36:37, %i34:35"][at % 2]),
            _ => count(rows),
        };
        let is_of_workgroup = writer.random.next(24) != 0;
        let mut body = index(40, columns, false);
        body.extend(index(42, stride, is_of_workgroup));
        let columns = count(columns + usize::from(writer.random.next(40) == 0));
        let steps = steps(writer.random, nest == 0);
        body.extend(steps.iter().map(|step| String::from(*step)));
        writer.loops([rows, columns], &body);
    }
    format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.type !vm.list<!vm.buffer>\nvm.export @f\n\
         vm.func @f(%r0: !vm.buffer, %r1: !vm.list<!vm.buffer>, %i0: i32) -> () {{\n^bb0:\n{}  vm.return\n}}\n",
        writer.text
    )
}

/// A module with a function of the signature that a coarsened kernel has which takes so many bindings.
fn frame(bindings: usize) -> Arc<VerifiedModule> {
    let buffers: Vec<String> = (0..=bindings).map(|index| format!("%r{index}: !vm.buffer")).collect();
    assembled(&format!(
        "vm.module @m\nvm.type !vm.buffer\nvm.type !vm.list<!vm.buffer>\nvm.export @f\n\
         vm.func @f({}, %i0: i32, %i2:3: i64) -> () {{\n^bb0:\n  vm.return\n}}\n",
        buffers.join(", ")
    ))
}

/// The constants and the bindings of a dispatch.
struct Operands {
    constants: Ref,
    bindings: Vec<Arc<Buffer>>,
}

impl Operands {
    fn new() -> Operands {
        let bytes = |seed: u8| -> Vec<u8> {
            (0..LENGTH / 4).flat_map(|at| ((at as u8 ^ seed) as f32 / 8.0 - 9.0).to_le_bytes()).collect()
        };
        let constants = Ref::Buffer(Buffer::copy_of(&0.5f32.to_le_bytes()).unwrap());
        Operands { constants, bindings: (0..3).map(|seed| Buffer::copy_of(&bytes(seed * 37)).unwrap()).collect() }
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        self.bindings.iter().map(|binding| binding.to_vec().unwrap()).collect()
    }
}

fn context(module: Arc<dyn Module>) -> Arc<Context> {
    Context::new(Program::link(vec![module]).unwrap(), Limits::default()).unwrap()
}

/// Runs workgroups one by one, interpreted; None if one fails.
fn one_by_one(module: &Arc<VerifiedModule>, workgroups: usize) -> Option<Vec<Vec<u8>>> {
    let operands = Operands::new();
    let list = List::new(ValueType::Ref(Buffer::TYPE), 0, None).unwrap();
    operands.bindings.iter().for_each(|binding| list.push(VmValue::Ref(Ref::Buffer(binding.clone()))).unwrap());
    let context = context(BytecodeModule::new(module.clone()).unwrap());
    for workgroup in 0..workgroups as i32 {
        let arguments = [operands.constants.clone(), Ref::from(list.clone())].map(VmValue::Ref);
        let arguments: Vec<VmValue> = arguments.into_iter().chain([VmValue::I32(workgroup)]).collect();
        context.function("f").unwrap().call(&arguments).ok()?;
    }
    Some(operands.contents())
}

/// Runs workgroups in calls of some.
fn together(function: Function, bindings: &[u32], calls: &[(i32, i64)]) -> Vec<Vec<u8>> {
    let operands = Operands::new();
    let context = context(Arc::new(IrModule::of_function(frame(bindings.len()), function)));
    for (first, count) in calls {
        let own = bindings.iter().map(|binding| Ref::Buffer(operands.bindings[*binding as usize].clone()));
        let references = [operands.constants.clone()].into_iter().chain(own).map(VmValue::Ref);
        let arguments: Vec<VmValue> = references.chain([VmValue::I32(*first), VmValue::I64(*count)]).collect();
        context.function("f").unwrap().call(&arguments).unwrap();
    }
    operands.contents()
}

#[test]
fn random_kernels_run_several_workgroups_as_they_run_single_ones() {
    let mut random = Random(0x6A09_E667_F3BC_C908);
    let (mut coarse, mut fine, mut shorter) = (0, 0, 0);
    for _ in 0..programs(400) {
        let text = kernel(&mut random);
        let module = assembled(&text);
        let mut budget = Budget::of_function(&module, 0);
        let mut function = Function::unsimplified(&module, 0, &mut budget).unwrap();
        function.simplify(Some(semantics::fold));
        let Some(Coarsened { mut function, coarsening, alike }) = function.coarsened(&ARGUMENTS) else {
            fine += 1;
            continue;
        };
        let bindings = function.pass_bindings(ARGUMENTS.bindings, 3, |_| true).unwrap();
        ownership(&mut function, &mut budget).unwrap();
        function.validate().unwrap_or_else(|error| panic!("{error}\n{text}\n{function}"));
        let workgroups = 1 + random.next(12);
        let Some(expected) = one_by_one(&module, workgroups) else { continue };
        let (mut calls, mut first) = (Vec::new(), 0);
        while first < workgroups {
            let sharing = (alike as usize).saturating_sub(first).min(coarsening as usize).max(1);
            let count = (1 + random.next(workgroups - first)).min(sharing);
            calls.push((first as i32, count as i64));
            first += count;
        }
        assert_eq!(together(function.clone(), &bindings, &calls), expected, "{calls:?}\n{text}\n{function}");
        coarse += 1;
        shorter += usize::from(alike < workgroups as u32);
    }
    // Of few programs, by chance, fewer can be coarsened.
    let least = if programs(150) == 150 { 150 } else { programs(120) };
    assert!(coarse > least && fine > programs(40) && shorter >= programs(10), "{coarse} {fine} {shorter}");
}
