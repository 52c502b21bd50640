//! Cases: modules, and plans of the calls of their exports.
//!
//! An export is a step: it loads objects from globals, calls native functions, and stores what they return. A call that fails
//! ends its step alone, so that the next one meets the objects as they are then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use incarnate_differential::random::Random;
use incarnate_runtime::bytecode::assemble;

use crate::kernel;
use crate::plan::{Call, Plan};
use crate::sessions::DEVICES;
use crate::signatures::{INTEGERS, Item, Operand, Signature, constants};
use crate::text::Body;

/// Integers at the edges of what functions accept.
pub const HOSTILE: [i64; 32] = [
    0,
    0,
    1,
    -1,
    -1,
    2,
    3,
    7,
    15,
    16,
    63,
    64,
    65,
    100,
    255,
    4095,
    4096,
    4097,
    65_535,
    65_536,
    1 << 20,
    1 << 26,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    1 << 61,
    (1 << 61) - 1,
    i64::MIN,
    i64::MAX,
    -64,
    -4096,
    i32::MIN as i64,
];
/// Globals for each type of reference.
const SLOTS: usize = 3;
/// The type of references to what is not known.
const ANY: &str = "?";

/// Orders of calls that can succeed. Each is a list of prefixes of names; one that ends with a dot stands for up to four
/// functions.
const ORDERS: &[&[&str]] = &[
    &[
        "hal.executable.create",
        "hal.executable.lookup.function",
        "hal.command_buffer.create",
        "hal.command_buffer.dispatch",
        "hal.command_buffer.execution_barrier",
        "hal.command_buffer.finalize",
        "hal.fence.create",
        "hal.device.queue.execute",
        "hal.fence.await",
    ],
    &[
        "hal.command_buffer.create",
        "hal.command_buffer.",
        "hal.command_buffer.",
        "hal.command_buffer.finalize",
        "hal.fence.create",
        "hal.device.queue.execute",
        "hal.fence.await",
    ],
    &["hal.allocator.allocate", "hal.buffer.", "hal.buffer_view.create", "hal.buffer_view."],
    &["hal.fence.create", "hal.fence.create", "hal.fence.join", "hal.device.queue.", "hal.fence.", "hal.fence.await"],
    &[
        "hal.fence.create",
        "hal.device.queue.alloca",
        "hal.device.queue.",
        "hal.device.queue.dealloca",
        "hal.fence.await",
    ],
    &["hal_inline.buffer.allocate", "hal_inline.buffer.storage", "hal_inline.buffer.wrap", "hal_inline.buffer."],
    &["hal.allocator.import", "hal.buffer.", "hal_inline.buffer.storage", "hal.allocator.import", "hal.device.queue."],
    &["hal_loader.executable.load", "hal_loader.executable.dispatch", "hal_loader."],
    &[
        "hal.ex.file.from_memory",
        "hal.fence.create",
        "hal.device.queue.read",
        "hal.device.queue.write",
        "hal.fence.await",
    ],
    &["hal.fence.create", "io_parameters.", "hal.fence.await"],
    &["hal.channel.", "hal.command_buffer.create", "hal.command_buffer.collective", "hal.command_buffer.finalize"],
];

/// A module with its plan.
#[derive(Clone, Debug)]
pub struct Case {
    /// The text: the plan, and the module.
    pub text: String,
    /// The texts of the executables in the module's constants.
    pub kernels: Vec<String>,
}

/// Generates the case of a seed.
#[must_use]
pub fn generate(seed: u64, functions: &[Signature], device: Option<&str>) -> Case {
    let mut random = Random::new(seed);
    let random = &mut random;
    let functions = &forms(random, functions);
    let importable: Vec<&Signature> = functions.iter().filter(|function| function.name.starts_with("vmvx.")).collect();
    let kernels: Vec<String> = (0..1 + random.below(2)).map(|_| kernel::generate(random, &importable)).collect();
    let mut constants = constants();
    // Executables take the place of the harmless one, where calls that succeeded had it.
    for kernel in &kernels {
        let module = assemble(kernel).unwrap_or_default();
        if random.one_in(2) { constants[1] = module } else { constants.push(module) }
    }
    let module = Module::new(random, functions, constants.len());
    let mut plan = Plan {
        device: device.map_or_else(|| (*random.pick(&DEVICES)).to_owned(), str::to_owned),
        timeout: Duration::from_millis(if random.one_in(64) { 5000 } else { 200 }),
        threads: Vec::new(),
    };
    let text = module.text(random, &mut plan, &constants);
    Case { text: plan.text() + &text, kernels }
}

/// Returns the functions in one form for each name, as the assembler identifies functions by their names.
fn forms(random: &mut Random, functions: &[Signature]) -> Vec<Signature> {
    let mut chosen: BTreeMap<&str, &Signature> = BTreeMap::new();
    for function in functions {
        // The newest form is the first, and mostly the one.
        if !chosen.contains_key(&*function.name) || random.one_in(4) {
            chosen.insert(&function.name, function);
        }
    }
    chosen.into_values().cloned().collect()
}

/// The common part of a module's steps.
#[derive(Debug)]
pub(crate) struct Module<'a> {
    functions: &'a [Signature],
    /// Functions that most calls are of.
    focus: Vec<&'a Signature>,
    /// The first global of each type of reference.
    slots: BTreeMap<&'static str, usize>,
    constants: usize,
}

impl<'a> Module<'a> {
    fn new(random: &mut Random, functions: &'a [Signature], constants: usize) -> Module<'a> {
        let types: BTreeSet<&'static str> = functions.iter().flat_map(|f| [f.taken(), f.returned()].concat()).collect();
        let types: BTreeSet<&'static str> = types.into_iter().chain(["vm.buffer", "vm.list", ANY]).collect();
        let names: Vec<&'static str> = types.iter().copied().collect();
        let chosen: Vec<&'static str> = (0..1 + random.below(2)).map(|_| *random.pick(&names)).collect();
        let is_focus = |function: &&Signature| function.taken().iter().any(|ty| chosen.contains(ty));
        let focus: Vec<&Signature> = functions.iter().filter(is_focus).collect();
        let focus = if focus.is_empty() { functions.iter().collect() } else { focus };
        let slots = types.into_iter().enumerate().map(|(index, ty)| (ty, index * SLOTS)).collect();
        Module { functions, focus, slots, constants }
    }

    /// Writes the module's text, and the calls of its plan.
    fn text(&self, random: &mut Random, plan: &mut Plan, constants: &[Vec<u8>]) -> String {
        let mut steps = Steps::default();
        for (index, function) in self.creators(random).into_iter().enumerate() {
            let mut body = Body::new(0, 0);
            Operands::faithful(random, &mut body, Some(self)).call(function);
            steps.calls.push((format!("create{index}"), body, vec![function]));
        }
        let created: Vec<String> = steps.calls.iter().map(|(name, ..)| name.clone()).collect();
        for index in 0..2 + random.below(8) {
            let (body, called) = self.step(random);
            steps.calls.push((format!("step{index}"), body, called));
        }
        for thread in 0..if random.one_in(3) { 2 } else { 1 } {
            let mut calls: Vec<Call> = Vec::new();
            if thread == 0 {
                calls.extend(created.iter().map(|export| Call { export: export.clone(), is_cancelled: false }));
            }
            for _ in 0..4 + random.below(24) {
                let export = random.pick(&steps.calls).0.clone();
                calls.push(Call { export, is_cancelled: random.one_in(24) });
            }
            plan.threads.push(calls);
        }
        let mut text = String::from("vm.module @m version 0\n");
        let _ = writeln!(text, "//! globals 16 {}", self.slots.len() * SLOTS);
        for ty in ["!vm.ref<?>", "!vm.buffer", "!vm.list<?>", "!vm.opaque", "i32", "i64"] {
            let _ = writeln!(text, "vm.type {ty}");
        }
        let imports: BTreeSet<(&str, &str)> =
            steps.calls.iter().flat_map(|(_, _, called)| called).map(|f| (&*f.name, &*f.convention)).collect();
        for (name, convention) in imports {
            let _ = writeln!(text, "vm.import @{name} cconv \"{convention}\"");
        }
        for (index, bytes) in constants.iter().enumerate() {
            let bytes: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            let _ = writeln!(text, "vm.rodata[{index}] = {bytes}");
        }
        for (name, body, _) in steps.calls {
            let (ty, register) = body.last().unwrap_or(("", String::new()));
            let _ = write!(text, "vm.export @{name}\nvm.func @{name}() -> ({ty}) {{\n{}", body.finish(&register));
        }
        text
    }

    /// Returns functions that create an object of each type, in an order in which all that they take exists.
    fn creators(&self, random: &mut Random) -> Vec<&'a Signature> {
        let mut available: BTreeSet<&'static str> = ["vm.buffer", "vm.list"].into();
        let mut creators = Vec::new();
        loop {
            let is_next = |function: &&Signature| {
                !function.good.is_empty()
                    && function.taken().iter().all(|ty| available.contains(ty))
                    && function.returned().iter().any(|ty| !available.contains(ty))
            };
            let next: Vec<&Signature> = self.functions.iter().filter(is_next).collect();
            if next.is_empty() {
                return creators;
            }
            let function = *random.pick(&next);
            available.extend(function.returned());
            creators.push(function);
        }
    }

    /// Writes a step; returns the functions that it calls.
    fn step(&self, random: &mut Random) -> (Body, Vec<&'a Signature>) {
        let mut body = Body::new(0, 0);
        let mut called = Vec::new();
        let actions = if random.one_in(2) { self.order(random) } else { self.any(random) };
        let mut rest = actions.into_iter().peekable();
        while rest.peek().is_some() {
            let length = 1 + random.below(4);
            let chunk: Vec<&Signature> = rest.by_ref().take(length).collect();
            called.extend(&chunk);
            let count = *random.pick(&[1, 1, 1, 3, 40, 5000]);
            let write = |body: &mut Body| {
                for function in chunk {
                    if random.one_in(6) {
                        self.objects(random, body);
                    }
                    Operands::of(random, body, Some(self)).call(function);
                }
            };
            if count == 1 {
                write(&mut body);
            } else {
                let counter = body.i32(count);
                body.repeat(&counter, write);
            }
        }
        (body, called)
    }

    /// Returns the functions of an order that can succeed, or of one that differs from it.
    fn order(&self, random: &mut Random) -> Vec<&'a Signature> {
        let mut prefixes = random.pick(ORDERS).to_vec();
        for _ in 0..random.below(3) {
            let (a, b) = (random.below(prefixes.len()), random.below(prefixes.len()));
            match random.below(3) {
                0 => prefixes.swap(a, b),
                1 => prefixes.insert(a, prefixes[b]),
                _ if prefixes.len() > 1 => drop(prefixes.remove(a)),
                _ => {}
            }
        }
        let mut functions = Vec::new();
        for prefix in prefixes {
            let matching: Vec<&Signature> = self.functions.iter().filter(|f| f.name.starts_with(prefix)).collect();
            let count = if prefix.ends_with('.') { 1 + random.below(4) } else { 1 };
            functions.extend((0..count).filter_map(|_| Some(*matching.get(random.below(matching.len()))?)));
        }
        functions
    }

    fn any(&self, random: &mut Random) -> Vec<&'a Signature> {
        (0..1 + random.below(6))
            .map(|_| match random.one_in(4) {
                true => &self.functions[random.below(self.functions.len())],
                false => *random.pick(&self.focus),
            })
            .collect()
    }

    /// Adds what a module does with objects of the VM.
    fn objects(&self, random: &mut Random, body: &mut Body) {
        match random.below(6) {
            0 => kernel::nested_lists(random, body),
            1 => {
                let (length, alignment) = (body.i64(*random.pick(&HOSTILE)), body.i32(*random.pick(&HOSTILE)));
                let result = body.reference();
                body.line(&format!("{result} = vm.buffer.alloc {length}, {alignment}"));
                body.keep("vm.buffer", &result);
                self.store(body, "vm.buffer", random.below(SLOTS), &result);
            }
            2 => {
                let buffer = Operands::of(random, body, Some(self)).object("vm.buffer");
                let (at, length, value) = (body.i64(0), body.i64(*random.pick(&HOSTILE)), body.i32(65));
                body.line(&format!("vm.buffer.fill.i8 {buffer}, {at}, {length}, {value}"));
            }
            3 => {
                let next = body.block();
                body.line(&format!("vm.yield {next}()"));
                body.begin(&next);
            }
            4 => {
                let list = Operands::of(random, body, Some(self)).object("vm.list");
                let length = body.i32(*random.pick(&[0, 1, 5, 1000, 100_000, 1 << 30]));
                body.line(&format!("vm.list.resize {list}, {length}"));
            }
            _ => {
                let list = Operands::of(random, body, Some(self)).object("vm.list");
                let types: Vec<&'static str> = self.slots.keys().copied().collect();
                let ty = *random.pick(&types);
                let value = Operands::of(random, body, Some(self)).object(ty);
                let index = body.i32(*random.pick(&[0, 0, 1, 2, -1]));
                body.line(&format!("vm.list.set.ref {list}, {index}, {value}"));
            }
        }
    }

    /// Stores an object in a global.
    fn store(&self, body: &mut Body, ty: &str, slot: usize, register: &str) {
        if let Some(first) = self.slots.get(ty).or(self.slots.get(ANY)) {
            body.line(&format!("vm.global.store.ref {register}, .refs[{}] : !vm.ref<?>", first + slot));
        }
    }
}

#[derive(Debug, Default)]
struct Steps<'a> {
    calls: Vec<(String, Body, Vec<&'a Signature>)>,
}

/// The operands of a call while they are written.
pub(crate) struct Operands<'a, 'b> {
    random: &'a mut Random,
    body: &'a mut Body,
    /// None in kernels.
    module: Option<&'a Module<'b>>,
    /// One in this many integers is another than in a call that succeeded.
    risk: usize,
    is_faithful: bool,
}

impl<'a, 'b> Operands<'a, 'b> {
    /// Begins the operands of a call in a body.
    pub(crate) fn of(random: &'a mut Random, body: &'a mut Body, module: Option<&'a Module<'b>>) -> Operands<'a, 'b> {
        let risk = *random.pick(&[usize::MAX, usize::MAX, usize::MAX, 12, 4, 1]);
        Operands { random, body, module, risk, is_faithful: false }
    }

    /// Begins the operands of a call that is to succeed, and whose results go to all globals of their types.
    fn faithful(random: &'a mut Random, body: &'a mut Body, module: Option<&'a Module<'b>>) -> Operands<'a, 'b> {
        Operands { random, body, module, risk: usize::MAX, is_faithful: true }
    }

    /// Writes a call with its operands.
    pub(crate) fn call(mut self, function: &Signature) {
        let good = match function.good.is_empty() {
            true => Vec::new(),
            false => self.random.pick(&function.good).clone(),
        };
        let (mut operands, mut segments) = (Vec::new(), Vec::new());
        for (index, item) in function.arguments.iter().enumerate() {
            segments.push(match (item, good.get(index)) {
                (Item::Span(items), good) => self.span(items, good, &mut operands).to_string(),
                (item, good) => {
                    let operand = self.operand(item, good);
                    operands.push(operand);
                    u16::MAX.to_string()
                }
            });
        }
        let results: Vec<(String, &Item)> = function
            .results
            .iter()
            .map(|item| match item {
                Item::Primitive('I' | 'F') => (self.body.pair(), item),
                Item::Ref(_) => (self.body.reference(), item),
                _ => (self.body.word(), item),
            })
            .collect();
        let registers: Vec<&str> = results.iter().map(|(register, _)| register.as_str()).collect();
        let registers = registers.join(", ");
        let variadic = if function.is_variadic() { ".variadic" } else { "" };
        let segments =
            if function.is_variadic() { format!(" segments[{}]", segments.join(", ")) } else { String::new() };
        let (name, operands) = (&function.name, operands.join(", "));
        if function.yields && !self.random.one_in(8) {
            let next = self.body.block();
            self.body
                .line(&format!("vm.call{variadic}.yieldable @{name}{segments}({operands}) -> {next}({registers})"));
            self.body.begin(&next);
        } else {
            let equals = if registers.is_empty() { "" } else { " = " };
            self.body.line(&format!("{registers}{equals}vm.call{variadic} @{name}{segments}({operands})"));
        }
        for (register, item) in &results {
            match item {
                Item::Primitive('i') => self.body.returned("i32", register),
                Item::Primitive('I') => self.body.returned("i64", register),
                Item::Ref(ty) => {
                    let ty = ty.unwrap_or(ANY);
                    self.body.keep(ty, register);
                    if let Some(module) = self.module {
                        let slots = if self.is_faithful { 0..SLOTS } else { self.random.below(SLOTS)..SLOTS };
                        let slots = slots.take(if self.is_faithful { SLOTS } else { 1 });
                        slots.for_each(|slot| module.store(self.body, ty, slot, register));
                    }
                }
                _ => {}
            }
        }
    }

    /// Writes the elements of a span; returns their number.
    fn span(&mut self, items: &[Item], good: Option<&Operand>, operands: &mut Vec<String>) -> usize {
        let elements: &[Vec<Operand>] = if let Some(Operand::Span(elements)) = good { elements } else { &[] };
        let count = match self.random.below(if self.is_faithful { 0 } else { 40 } + 1) {
            _ if self.is_faithful => elements.len(),
            0 => 0,
            1 => 2,
            2 => 7,
            3 if self.random.one_in(4) => 600,
            _ => elements.len(),
        };
        for index in 0..count {
            let element = elements.get(index.min(elements.len().saturating_sub(1)));
            for (position, item) in items.iter().enumerate() {
                let good = element.and_then(|element| element.get(position));
                match item {
                    // Spans in spans have no segments.
                    Item::Span(_) => {}
                    item => {
                        let operand = self.operand(item, good);
                        operands.push(operand);
                    }
                }
            }
        }
        count
    }

    fn operand(&mut self, item: &Item, good: Option<&Operand>) -> String {
        match item {
            Item::Primitive(letter) => {
                let value = match good {
                    Some(Operand::Word(value)) if self.risk == usize::MAX || !self.random.one_in(self.risk) => *value,
                    _ if self.random.one_in(2) => *self.random.pick(&HOSTILE),
                    _ => *self.random.pick(&INTEGERS),
                };
                match letter {
                    'I' | 'F' => self.body.i64(value),
                    _ => self.body.i32(value),
                }
            }
            Item::Ref(ty) => self.chosen(ty.unwrap_or(ANY), good),
            // Spans are written by their elements.
            Item::Span(_) => String::new(),
        }
    }

    fn chosen(&mut self, ty: &'static str, good: Option<&Operand>) -> String {
        let differs = !self.is_faithful && self.random.one_in(12);
        match good {
            _ if !self.is_faithful && self.random.one_in(60) => {
                // An object of another type, as all registers are of any.
                let others: Vec<String> = self.body.all_objects().map(|(_, register)| register.clone()).collect();
                others.get(self.random.below(others.len())).cloned().unwrap_or_else(|| self.object(ANY))
            }
            Some(Operand::Null) if !differs => {
                let register = self.body.reference();
                self.body.line(&format!("{register} = vm.const.ref.zero"));
                register
            }
            Some(Operand::Constant(index)) if !differs && self.module.is_some() => self.constant(*index),
            Some(Operand::Object(known)) => self.object(known),
            _ => self.object(ty),
        }
    }

    fn constant(&mut self, index: usize) -> String {
        let register = self.body.reference();
        self.body.line(&format!("{register} = vm.const.ref.rodata {index}"));
        register
    }

    /// Returns a register with an object of a type, if the program has one.
    pub(crate) fn object(&mut self, ty: &'static str) -> String {
        let objects = self.body.objects(ty);
        if !objects.is_empty() && !self.random.one_in(3) {
            // The last one, mostly.
            let place = if self.random.one_in(4) { self.random.below(objects.len()) } else { objects.len() - 1 };
            return objects[place].clone();
        }
        let Some(module) = self.module else {
            let register = self.body.reference();
            self.body.line(&format!("{register} = vm.const.ref.zero"));
            return register;
        };
        if ty == "vm.buffer" && self.random.one_in(3) {
            let index = self.random.below(module.constants);
            return self.constant(index);
        }
        let register = self.body.reference();
        let slot = module.slots.get(ty).or(module.slots.get(ANY)).copied().unwrap_or(0) + self.random.below(SLOTS);
        self.body.line(&format!("{register} = vm.global.load.ref .refs[{slot}] : !vm.ref<?>"));
        self.body.keep(ty, &register);
        register
    }
}
