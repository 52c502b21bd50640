//! What native functions take: learned by calling them.
//!
//! The import tables say where a function takes references, but not to objects of which type. A call with a probe in their
//! place fails with an error that names the type; calls that succeed show the types of the results, and operands that are
//! worth changing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use incarnate_differential::random::Random;
use incarnate_runtime::bytecode::imports::{self, MODULES};
use incarnate_runtime::bytecode::{Contents, ConventionItem, assemble};
use incarnate_runtime::session::Session;
use incarnate_runtime::vm::{
    Buffer, CallBuffer, Completion, Function, Linkage, List, Ref, RefObject, RefType, ValueType,
};
use incarnate_runtime::{Error, Result};

use crate::{executable, sessions};

/// Constants of every module, which strings and tables are taken from. Those behind them differ between cases.
#[must_use]
pub fn constants() -> Vec<Vec<u8>> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    vec![
        b"vmvx-bytecode-fb".to_vec(),
        executable::harmless(),
        b"kernel".to_vec(),
        b"hal.device.id".to_vec(),
        b"local*".to_vec(),
        b"hal.executable.format".to_vec(),
        sessions::PARAMETER.0.as_bytes().to_vec(),
        // Offset and length of the key, and offsets and lengths of the spans.
        [0u32, 1].iter().flat_map(|word| word.to_le_bytes()).collect(),
        sessions::PARAMETER.1.as_bytes().to_vec(),
        words(&[0, 0, 64]),
        vec![0; 64],
        vec![1; 4096],
        Vec::new(),
    ]
}

/// Integers that functions take: flags, types, sizes.
pub const INTEGERS: [i64; 25] = [
    0,
    0,
    0,
    1,
    1,
    2,
    3,
    4,
    8,
    13,
    16,
    28,
    32,
    48,
    63,
    64,
    128,
    3075,
    -1,
    -1,
    4096,
    0x1000_0020,
    0x2100_0020,
    0xFF03,
    256,
];

/// An argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A primitive, by its letter.
    Primitive(char),
    /// A reference, and the name of its type, where that is known.
    Ref(Option<&'static str>),
    /// Any number of the items.
    Span(Vec<Item>),
}

/// An operand of a call that succeeded.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A primitive.
    Word(i64),
    /// A null reference.
    Null,
    /// The constant of an index.
    Constant(usize),
    /// An object of a type.
    Object(&'static str),
    /// The elements of a span.
    Span(Vec<Vec<Operand>>),
}

/// A native function.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name, with the module's.
    pub name: String,
    /// Calling convention.
    pub convention: String,
    /// True if calls of it may be suspended.
    pub yields: bool,
    /// Arguments.
    pub arguments: Vec<Item>,
    /// Results.
    pub results: Vec<Item>,
    /// Operands of calls that succeeded.
    pub good: Vec<Vec<Operand>>,
}

impl Signature {
    /// Returns the types of references that it takes, those in spans as well.
    #[must_use]
    pub fn taken(&self) -> Vec<&'static str> {
        let mut types = Vec::new();
        visit(&self.arguments, &mut |ty| types.extend(ty));
        types
    }

    /// Returns the types of references that it returns.
    #[must_use]
    pub fn returned(&self) -> Vec<&'static str> {
        let mut types = Vec::new();
        visit(&self.results, &mut |ty| types.extend(ty));
        types
    }

    /// True if an argument is a span.
    #[must_use]
    pub fn is_variadic(&self) -> bool {
        self.arguments.iter().any(|item| matches!(item, Item::Span(_)))
    }
}

fn visit(items: &[Item], see: &mut dyn FnMut(Option<&'static str>)) {
    for item in items {
        match item {
            Item::Primitive(_) => {}
            Item::Ref(ty) => see(*ty),
            Item::Span(items) => visit(items, see),
        }
    }
}

/// An object of no function's type. Its own type names an argument.
#[derive(Debug)]
struct Probe(RefType);

impl RefObject for Probe {
    fn ref_type(&self) -> RefType {
        self.0
    }
}

const PROBE: &str = "fuzz.probe";
/// Objects of a type that are kept for calls.
const SAMPLES: usize = 6;
/// Sessions, and calls in each. Most are of functions of which few have succeeded.
const ROUNDS: usize = 120;
const CALLS: usize = 10_000;
/// Successful calls that are kept of a function.
const GOOD: usize = 24;

/// Returns all functions of the import tables.
///
/// # Errors
/// Errors of building the session that has them.
pub fn learn() -> Result<Vec<Signature>> {
    let mut text = String::from("vm.module @m version 0\n");
    for module in MODULES {
        let row = module.functions.first().map(|row| (row.name, row.convention)).unwrap_or_default();
        text += &format!("vm.import @{}.{} cconv \"{}\"\n", module.name, row.0, row.1);
    }
    text += "vm.export @f\nvm.func @f() -> () {\n^bb0:\n  vm.return\n}\n";
    let module = sessions::interpreted(&assemble(&text)?)?;
    let mut random = Random::new(1);
    let mut signatures = Vec::new();
    for _ in 0..ROUNDS {
        // Another session, so that what is pending does not add up.
        let session = sessions::build(module.clone(), "local-sync", sessions::limits(Duration::from_secs(5)))?;
        let functions = functions(&session, &mut signatures)?;
        let mut learner = Learner { random, samples: BTreeMap::new(), constants: constants().len(), palette: [0; 4] };
        learner.seed()?;
        for _ in 0..CALLS {
            let place = learner.random.below(functions.len());
            let (Some(function), Some(signature)) = (functions.get(place), signatures.get_mut(place)) else { break };
            if signature.good.len() < GOOD || learner.random.one_in(8) {
                learner.call(function, signature);
            }
        }
        random = learner.random;
    }
    Ok(signatures)
}

/// Finds the functions of the tables, in their newest and their older forms; adds their signatures if there are none.
fn functions(session: &Session, signatures: &mut Vec<Signature>) -> Result<Vec<Function>> {
    let context = session.context();
    let is_first = signatures.is_empty();
    let mut functions = Vec::new();
    for (index, module) in context.program().modules().iter().enumerate() {
        let exports = (0..).map_while(|export| Some((export, module.function(Linkage::Export, export)?)));
        for (export, info) in exports {
            let name = format!("{}.{}", module.name(), info.name);
            let Some((row, _)) = imports::find(&name, info.calling_convention) else { continue };
            functions.push(context.export(index, export)?);
            if is_first {
                signatures.push(Signature {
                    name,
                    convention: info.calling_convention.to_owned(),
                    yields: row.resume.is_some(),
                    arguments: items(&mut info.convention()?.arguments()),
                    results: items(&mut info.convention()?.results()),
                    good: Vec::new(),
                });
            }
        }
    }
    Ok(functions)
}

struct Learner {
    random: Random,
    /// Objects by the names of their types.
    samples: BTreeMap<&'static str, Vec<Ref>>,
    constants: usize,
    /// The integers of a call.
    palette: [i64; 4],
}

impl Learner {
    /// Creates the objects that the VM has without native functions.
    fn seed(&mut self) -> Result<()> {
        let list = List::new(ValueType::Any, 0, None)?;
        self.samples.insert("vm.list", vec![list.into()]);
        let mut buffers: Vec<Ref> = Vec::new();
        for bytes in constants() {
            let length = bytes.len();
            buffers.push(Buffer::of_contents(Arc::new(Contents::from_vec(bytes)), 0..length)?.into());
        }
        // Behind the constants, which cannot be written.
        for length in [64, 4096, 4096] {
            buffers.push(Buffer::zeroed(length, 64, None)?.into());
        }
        self.samples.insert("vm.buffer", buffers);
        Ok(())
    }

    /// Calls a function once, and learns from what it returns.
    fn call(&mut self, function: &Function, signature: &mut Signature) {
        let mut buffer = CallBuffer::new();
        let mut probes = 0;
        // Few values, since many functions want most of them to be the same.
        self.palette = std::array::from_fn(|_| *self.random.pick(&INTEGERS));
        let operands = match signature.good.get(self.random.below(signature.good.len() * 2)) {
            // What succeeded before creates objects of each type in each session.
            Some(good) => {
                let good = good.clone();
                self.repeat(&good, &signature.arguments, &mut buffer);
                good
            }
            None => self.operands(&signature.arguments, &mut buffer, &mut probes),
        };
        let mut invocation = function.context().take_invocation();
        let completion = invocation.begin(function.bound(), &mut buffer);
        if invocation.is_suspended() {
            invocation.cancel();
        }
        function.context().give_invocation(invocation);
        match completion {
            Ok(Completion::Yielded) => {}
            // Null where an object was asked for, as for a device that there is not.
            Ok(_) if buffer.refs().iter().any(Ref::is_null) => {}
            Ok(_) => {
                let mut refs = buffer.refs().iter();
                for item in &mut signature.results {
                    let Item::Ref(ty) = item else { continue };
                    let Some(object) = refs.next() else { break };
                    *ty = ty.or(object.ref_type().map(RefType::name));
                    self.keep(object);
                }
                let place = signature.good.len().min(self.random.below(GOOD));
                match signature.good.get_mut(place) {
                    Some(good) => *good = operands,
                    None => signature.good.push(operands),
                }
            }
            Err(error) => {
                if let Some((number, ty)) = named(&error)
                    && let Some(item) = nth_ref(&mut signature.arguments, &mut { number })
                {
                    *item = Some(ty.name());
                }
            }
        }
    }

    fn keep(&mut self, object: &Ref) {
        let Some(ty) = object.ref_type() else { return };
        if ty.name() == "vm.buffer" {
            // The constants stay.
            return;
        }
        let place = self.random.below(SAMPLES);
        let samples = self.samples.entry(ty.name()).or_default();
        match samples.get_mut(place) {
            Some(sample) => *sample = object.clone(),
            None => samples.push(object.clone()),
        }
    }

    /// Passes operands that succeeded, with other objects.
    fn repeat(&mut self, operands: &[Operand], items: &[Item], buffer: &mut CallBuffer) {
        for (operand, item) in operands.iter().zip(items) {
            match (operand, item) {
                (Operand::Word(value), Item::Primitive('I')) => buffer.push_word(*value as u64),
                (Operand::Word(value), _) => buffer.push_word(u64::from(*value as u32)),
                (Operand::Null, _) => buffer.push_ref(Ref::Null),
                (Operand::Constant(index), _) => buffer.push_ref(self.samples["vm.buffer"][*index].clone()),
                (Operand::Object(ty), _) => {
                    let samples = self.samples.get(ty).map_or(&[][..], Vec::as_slice);
                    let sample = samples.get(self.random.below(samples.len()));
                    buffer.push_ref(sample.cloned().unwrap_or_default());
                }
                (Operand::Span(elements), Item::Span(items)) => {
                    buffer.push_word(elements.len() as u64);
                    elements.iter().for_each(|element| self.repeat(element, items, buffer));
                }
                (Operand::Span(_), _) => {}
            }
        }
    }

    /// Chooses operands. Each reference has a number, in the order of the call.
    fn operands(&mut self, items: &[Item], buffer: &mut CallBuffer, probes: &mut usize) -> Vec<Operand> {
        let mut operands = Vec::new();
        for item in items {
            operands.push(match item {
                Item::Primitive(letter) => {
                    let value = *self.random.pick(&self.palette);
                    buffer.push_word(if *letter == 'I' { value as u64 } else { u64::from(value as u32) });
                    Operand::Word(value)
                }
                Item::Ref(ty) => {
                    let number = *probes;
                    *probes += 1;
                    self.reference(*ty, number, buffer)
                }
                Item::Span(items) => {
                    // Once, so that all its references have a number, and later also not at all or twice.
                    let is_known = !has_unknown(items);
                    let count = if is_known { *self.random.pick(&[0, 1, 1, 2]) } else { 1 };
                    buffer.push_word(count);
                    let before = *probes;
                    let elements = (0..count)
                        .map(|_| {
                            *probes = before;
                            self.operands(items, buffer, probes)
                        })
                        .collect();
                    visit(items, &mut |_| *probes += usize::from(count == 0));
                    Operand::Span(elements)
                }
            });
        }
        operands
    }

    fn reference(&mut self, ty: Option<&'static str>, number: usize, buffer: &mut CallBuffer) -> Operand {
        if self.random.one_in(6) {
            buffer.push_ref(Ref::Null);
            return Operand::Null;
        }
        let types: Vec<&'static str> = self.samples.keys().copied().collect();
        let guess = if self.random.one_in(2) { Some(*self.random.pick(&types)) } else { None };
        let Some((ty, samples)) = ty.or(guess).and_then(|ty| Some((ty, self.samples.get(ty)?))) else {
            let probe = RefType::intern(&format!("{PROBE}{number}"));
            buffer.push_ref(probe.map_or(Ref::Null, |ty| Ref::Object(Arc::new(Probe(ty)))));
            return Operand::Null;
        };
        let place = self.random.below(samples.len());
        buffer.push_ref(samples[place].clone());
        if ty == "vm.buffer" && place < self.constants { Operand::Constant(place) } else { Operand::Object(ty) }
    }
}

/// Returns the arguments or results of a convention, up to the end of the span.
fn items(convention: &mut dyn Iterator<Item = ConventionItem>) -> Vec<Item> {
    let mut all = Vec::new();
    while let Some(item) = convention.next() {
        all.push(match item {
            ConventionItem::I32 => Item::Primitive('i'),
            ConventionItem::I64 => Item::Primitive('I'),
            ConventionItem::F32 => Item::Primitive('f'),
            ConventionItem::F64 => Item::Primitive('F'),
            ConventionItem::Ref => Item::Ref(None),
            ConventionItem::SpanStart => Item::Span(items(convention)),
            ConventionItem::SpanEnd => return all,
        });
    }
    all
}

fn has_unknown(items: &[Item]) -> bool {
    let mut unknown = false;
    visit(items, &mut |ty| unknown |= ty.is_none());
    unknown
}

/// Returns the type of the reference with a number.
fn nth_ref<'a>(items: &'a mut [Item], number: &mut usize) -> Option<&'a mut Option<&'static str>> {
    for item in items {
        match item {
            Item::Primitive(_) => {}
            Item::Ref(ty) if *number == 0 => return Some(ty),
            Item::Ref(_) => *number -= 1,
            Item::Span(items) => {
                if let Some(found) = nth_ref(items, number) {
                    return Some(found);
                }
            }
        }
    }
    None
}

/// Returns what an error says of a probe: its number, and the type that was expected.
fn named(error: &Error) -> Option<(usize, RefType)> {
    let (expected, found) = error.message().split_once("reference to !")?.1.split_once(" holds a !")?;
    let number = found.strip_prefix(PROBE)?;
    let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    Some((number[..digits].parse().ok()?, RefType::intern(expected).ok()?))
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {:?} -> {:?}, {} good",
            self.name,
            self.convention,
            self.arguments,
            self.results,
            self.good.len()
        )
    }
}
