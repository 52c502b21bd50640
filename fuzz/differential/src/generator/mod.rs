//! Random valid modules as assembly text with calls of them, deterministic for each seed.

mod control;
mod function;
mod instructions;
mod nests;
mod operands;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;

use incarnate_runtime::bytecode::{assemble, disassemble};
use incarnate_runtime::vm::Linkage;

use crate::harness::native;
use crate::harness::outcome::Log;
use crate::random::Random;
use crate::verified::verified;
use function::FunctionBuilder;

/// An argument of an external call.
#[derive(Clone, Debug)]
pub enum Argument {
    /// 32-bit integer.
    I32(i32),
    /// 64-bit integer.
    I64(i64),
    /// Bits of a 32-bit float.
    F32(u32),
    /// Bits of a 64-bit float.
    F64(u64),
    /// A null reference.
    Null,
    /// A new buffer.
    Buffer(Vec<u8>),
    /// A list of 32-bit integers.
    Numbers(Vec<i32>),
    /// A list of values of several types, including a probe of the number.
    Anything(i32),
    /// A probe of the number.
    Probe(i32),
    /// The previous reference once more.
    Same,
}

/// An external call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the export.
    pub export: String,
    /// Arguments in the order of its calling convention.
    pub arguments: Vec<Argument>,
    /// The suspension at which the call is dropped.
    pub cancel_at: Option<usize>,
}

/// A module and its calls.
#[derive(Clone, Debug)]
pub struct Program {
    /// The seed.
    pub seed: u64,
    /// Assembly text.
    pub text: String,
    /// The module file.
    pub module: Vec<u8>,
    /// Calls, in order.
    pub calls: Vec<Call>,
    /// True if the context is forked after the calls.
    pub forks: bool,
    /// Mnemonics of the instructions of each marked block.
    pub blocks: BTreeMap<String, Vec<&'static str>>,
}

/// Bytes of the module's primitive globals.
const GLOBAL_BYTES: usize = 48;
/// The module's reference globals; with an initialiser, the first holds a buffer and the second a list.
const GLOBAL_REFS: usize = 4;
/// Lengths of the read-only segments.
const RODATA: [usize; 3] = [16, 40, 3];
/// Types in instructions; the first is any reference.
const TYPES: [&str; 8] = [
    "!vm.ref<?>",
    "!vm.buffer",
    "!vm.list<i32>",
    "!vm.list<?>",
    "!harness.probe",
    "!vm.opaque",
    "!hal.buffer",
    "!vm.list<!vm.buffer>",
];
/// Element types of lists.
const ELEMENTS: [&str; 9] = ["i8", "i16", "i32", "i64", "f32", "f64", "!vm.ref<?>", "!vm.opaque", "!vm.buffer"];
/// Names of functions: ordinary ones, and ones that are not valid in Rust.
const ODD_NAMES: [&str; 12] =
    ["fn", "self", "Self", "type", "a.b", "a$b", "_", "0start", "crate", "union", "module", "async"];

/// The signature of a function.
#[derive(Clone, Debug)]
struct Signature {
    name: String,
    arguments: String,
    results: String,
    /// True if it, or a function that it calls, may suspend.
    yields: bool,
    /// The mask of its first argument, which limits the recursion.
    recursion: Option<u32>,
    /// Ordinals of the functions in its recursion: itself and its partner.
    cycle: Vec<usize>,
}

/// An imported function.
#[derive(Clone, Debug)]
struct Import {
    name: String,
    /// Type letters, with spans.
    arguments: String,
    results: String,
    yields: bool,
    optional: bool,
}

/// The common context of a program's functions.
#[derive(Debug)]
struct Shape {
    functions: Vec<Signature>,
    imports: Vec<Import>,
    initialized: bool,
    /// One in this many operands is chosen so that the instruction may fail.
    risk: usize,
    /// Marks every block with a trace.
    marks: bool,
}

/// Importable functions: name and calling convention.
fn importable() -> &'static [(String, String)] {
    static ALL: OnceLock<Vec<(String, String)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let natives = native::module(Log::default(), Default::default());
        let mut all = Vec::new();
        for ordinal in 0.. {
            let Some(info) = natives.function(Linkage::Export, ordinal) else { break };
            all.push((format!("{}.{}", natives.name(), info.name), info.calling_convention.to_owned()));
        }
        // More rows for suspending functions, and for the other module.
        for (name, convention) in [
            ("harness.yielding", "0ir_ir"),
            ("harness.yielding_span", "0CiDI_I"),
            ("library.double", "0i_i"),
            ("library.factorial", "0iI_Ii"),
            ("library.count", "0r_rI"),
            ("library.divide", "0ii_i"),
            ("library.waits", "0irF_rFi"),
            ("library.waits", "0irF_rFi"),
        ] {
            all.push((name.to_owned(), convention.to_owned()));
        }
        all
    })
}

fn letters(random: &mut Random, most: usize) -> String {
    let count = random.below(most + 1);
    (0..count).map(|_| *random.pick(&['i', 'i', 'I', 'f', 'F', 'r', 'r'])).collect()
}

impl Program {
    /// Generates the program of a seed. `marks` adds a trace to every block, to record which ones run.
    pub fn new(seed: u64, marks: bool) -> Program {
        let mut random = Random::new(seed);
        if seed % 16 == 5 && !marks {
            let (text, calls) = nests::program(&mut random);
            let module = assemble(&text).unwrap_or_default();
            return Program { seed, text, module, calls, forks: false, blocks: BTreeMap::new() };
        }
        let shape = Shape::new(&mut random, marks);
        let mut text = String::from("vm.module @m version 2\n");
        let _ = writeln!(text, "//! globals {GLOBAL_BYTES} {GLOBAL_REFS}");
        TYPES.iter().for_each(|name| text += &format!("vm.type {name}\n"));
        for import in &shape.imports {
            let optional = if import.optional { "optional " } else { "" };
            let void = |letters: &str| if letters.is_empty() { "v".to_owned() } else { letters.to_owned() };
            let (arguments, results) = (void(&import.arguments), void(&import.results));
            let _ = writeln!(text, "vm.import {optional}@{} cconv \"0{arguments}_{results}\"", import.name);
        }
        for (index, size) in RODATA.iter().enumerate() {
            let bytes: String = (0..*size).map(|_| format!("{:02X}", random.below(256))).collect();
            let _ = writeln!(text, "vm.rodata[{index}] = {bytes}");
        }
        let mut blocks = BTreeMap::new();
        for ordinal in 0..shape.functions.len() {
            if random.one_in(2) || ordinal == 0 {
                let _ = writeln!(text, "vm.export @\"x{ordinal}\" = {}", symbol(&shape.functions[ordinal].name));
            }
            let mut builder = FunctionBuilder::new(&shape, ordinal, &mut random);
            builder.build();
            text += &builder.finish(&mut blocks);
        }
        if shape.initialized {
            text += &initializer(&mut random);
        }
        text += &observer();
        let calls = calls(&shape, &text, &mut random);
        let forks = random.one_in(6);
        // Invalid text is reported when the module is loaded.
        let module = assemble(&text).unwrap_or_default();
        let mut program = Program { seed, text, module, calls, forks, blocks };
        if seed % 8 == 7 && !marks {
            program.mutate(&mut random);
        }
        program
    }

    /// Changes some bits so that the module is still valid: instructions get operands that the assembler never emits.
    fn mutate(&mut self, random: &mut Random) {
        let Some(end) = functions_end(&self.module) else { return };
        for _ in 0..40 {
            let mut module = self.module.clone();
            for _ in 0..1 + random.below(2) {
                module[random.below(end)] ^= 1 << random.below(8);
            }
            if verified(&module).is_ok_and(|module| module.name() == "m") {
                self.module = module;
            }
        }
        if let Ok(module) = verified(&self.module) {
            self.text = disassemble(&module);
        }
    }
}

impl Shape {
    fn new(random: &mut Random, marks: bool) -> Shape {
        let mut imports = Vec::new();
        for _ in 0..random.below(9) {
            let (name, convention) = random.pick(importable()).clone();
            let (arguments, results) = convention[1..].split_once('_').unwrap_or_default();
            let no_void = |letters: &str| if letters == "v" { String::new() } else { letters.to_owned() };
            let (arguments, results) = (no_void(arguments), no_void(results));
            let yields = name.contains("yielding") || name.contains("waits");
            imports.push(Import { name, arguments, results, yields, optional: random.one_in(8) });
        }
        if random.one_in(4) {
            imports.push(Import {
                name: random.pick(&["harness.absent", "nowhere.f"]).to_string(),
                arguments: letters(random, 3),
                results: letters(random, 2),
                yields: random.one_in(3),
                optional: true,
            });
        }
        let count = if random.one_in(2) { 1 } else { 1 + random.below(4) };
        let may_yield = random.one_in(2);
        let mut functions: Vec<Signature> = (0..count)
            .map(|ordinal| {
                let name = match random.one_in(6) {
                    true => format!("{}{}", random.pick(&ODD_NAMES), if random.one_in(2) { "" } else { "!" }),
                    false => format!("f{ordinal}"),
                };
                let (mut arguments, results) = (letters(random, 6), letters(random, 5));
                let recursion = random.one_in(6).then(|| *random.pick(&[3, 3, 7, 31]));
                if recursion.is_some() {
                    arguments.insert(0, 'i');
                }
                let yields = may_yield && random.one_in(2);
                Signature { name, arguments, results, yields, recursion, cycle: Vec::new() }
            })
            .collect();
        // The assembler identifies functions by name.
        for ordinal in 1..count {
            if functions[..ordinal].iter().any(|other| other.name == functions[ordinal].name) {
                functions[ordinal].name = format!("g{ordinal}");
            }
        }
        for ordinal in 0..count {
            if functions[ordinal].recursion.is_none() || !functions[ordinal].cycle.is_empty() {
                continue;
            }
            functions[ordinal].cycle = vec![ordinal];
            // Two functions may be mutually recursive.
            if functions.get(ordinal + 1).is_some_and(|next| next.recursion.is_some()) {
                functions[ordinal].cycle.push(ordinal + 1);
                functions[ordinal + 1].cycle = vec![ordinal, ordinal + 1];
                let yields = functions[ordinal].yields || functions[ordinal + 1].yields;
                functions[ordinal].yields = yields;
                functions[ordinal + 1].yields = yields;
            }
        }
        let risk = *random.pick(&[usize::MAX, 150, 40, 12]);
        Shape { functions, imports, initialized: !random.one_in(6), risk, marks }
    }
}

/// Returns the offset in a module file where tables and functions end and constants begin.
fn functions_end(module: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*module.first_chunk()?) as usize;
    Some((4 + length).min(module.len())).filter(|end| *end > 0)
}

/// Returns a symbol, quoted if necessary.
fn symbol(name: &str) -> String {
    match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => format!("@{name}"),
        false => format!("@\"{name}\""),
    }
}

/// Returns the initialiser that sets the globals.
fn initializer(random: &mut Random) -> String {
    let element = random.pick(&ELEMENTS);
    let rodata = random.below(RODATA.len());
    let last = match random.below(4) {
        0 => "vm.global.store.ref %R0, .refs[3] : !vm.buffer".to_owned(),
        1 => "vm.global.store.ref %r1, .refs[2] : !vm.ref<?>".to_owned(),
        2 => "vm.list.set.ref %r1, %i4, %R0".to_owned(),
        _ => "vm.print \"initialized\", %R0, %i0".to_owned(),
    };
    // Only lists of references can contain one.
    let last = if last.contains("list.set") && !element.starts_with('!') { String::new() } else { last };
    format!(
        "vm.export @__init\nvm.func @__init() -> () {{\n^bb0:\n  %i0:1 = vm.const.i64 48\n  %i2 = vm.const.i32 16\n  \
        %r0 = vm.buffer.alloc %i0:1, %i2\n  vm.global.store.ref %r0, .refs[0] : !vm.ref<?>\n  \
        %i4 = vm.const.i32 3\n  %r1 = vm.list.alloc %i4 : !vm.list<{element}>\n  vm.list.resize %r1, %i4\n  \
        vm.global.store.ref %r1, .refs[1] : !vm.ref<?>\n  vm.global.store.i64 %i0:1, .rwdata[8]\n  \
        %r2 = vm.const.ref.rodata {rodata}\n  vm.global.store.ref %R2, .refs[2] : !vm.buffer\n  {last}\n  \
        vm.return\n}}\n"
    )
}

/// Returns a function that returns all globals.
fn observer() -> String {
    let mut text = String::from("vm.export @observe\nvm.func @observe() -> (");
    text += &["i64"; GLOBAL_BYTES / 8].join(", ");
    text += &", !vm.ref<?>".repeat(GLOBAL_REFS);
    text += ") {\n^bb0:\n";
    let mut results = Vec::new();
    for index in 0..GLOBAL_BYTES / 8 {
        let register = format!("%i{}:{}", index * 2, index * 2 + 1);
        let _ = writeln!(text, "  {register} = vm.global.load.i64 .rwdata[{}]", index * 8);
        results.push(register);
    }
    for index in 0..GLOBAL_REFS {
        let _ = writeln!(text, "  %r{index} = vm.global.load.ref .refs[{index}] : !vm.ref<?>");
        results.push(format!("%R{index}"));
    }
    let _ = writeln!(text, "  vm.return {}\n}}", results.join(", "));
    text
}

fn calls(shape: &Shape, text: &str, random: &mut Random) -> Vec<Call> {
    let observe = || Call { export: "observe".into(), arguments: Vec::new(), cancel_at: None };
    let mut calls = vec![observe()];
    for (ordinal, function) in shape.functions.iter().enumerate() {
        let export = format!("x{ordinal}");
        if !text.contains(&format!("vm.export @\"{export}\" ")) {
            continue;
        }
        for _ in 0..2 + random.below(2) {
            let arguments = function.arguments.chars().map(|letter| argument(letter, random)).collect();
            let cancel_at = (function.yields && random.one_in(6)).then(|| 1 + random.below(3));
            calls.push(Call { export: export.clone(), arguments, cancel_at });
        }
        calls.push(observe());
    }
    calls
}

fn argument(letter: char, random: &mut Random) -> Argument {
    const INTEGERS: [i64; 12] = [0, 1, 2, 3, 5, 8, 16, -1, -7, 1 << 31, i64::MAX, i64::MIN];
    const FLOATS: [f64; 12] =
        [0.0, -0.0, 1.0, 0.5, -2.5, 1e10, -1e300, 3.25, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 100.75];
    match letter {
        'i' if random.one_in(4) => Argument::I32(random.bits() as i32),
        'i' => Argument::I32(*random.pick(&INTEGERS) as i32),
        'I' if random.one_in(4) => Argument::I64(random.bits() as i64),
        'I' => Argument::I64(*random.pick(&INTEGERS)),
        'f' if random.one_in(4) => Argument::F32(random.bits() as u32),
        'f' => Argument::F32((*random.pick(&FLOATS) as f32).to_bits()),
        'F' if random.one_in(4) => Argument::F64(random.bits()),
        'F' => Argument::F64(random.pick(&FLOATS).to_bits()),
        _ => match random.below(8) {
            0 => Argument::Null,
            1 | 2 => Argument::Buffer((0..random.below(48)).map(|_| random.bits() as u8).collect()),
            3 => Argument::Numbers((0..random.below(5)).map(|_| random.bits() as i32).collect()),
            4 | 5 => Argument::Anything(random.below(100) as i32),
            6 => Argument::Probe(random.below(100) as i32),
            _ => Argument::Same,
        },
    }
}
