//! Recovery of signatures from the bodies of functions that no declaration describes.
//!
//! Compilers check each tensor argument where a function begins (`hal.buffer_view.assert`) and create each tensor result
//! where it ends (`hal.buffer_view.create`), with the element type and the static extents as constants. A data-flow analysis
//! ([`flow`]) follows constants, arguments and results through the registers of a function and through its calls.

mod flow;
mod imports;
mod registers;
mod types;

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use crate::declaration::{BUFFER_VIEW, Declaration, DeclaredValue, OUTPUT, has_replaceable_floats, write_tensor};
use crate::index_map::{IndexMap, IndexSet};
use crate::signature::{Signature, UNKNOWN, convention};
use crate::{Body, Budget, ConventionItem, ElementType, FunctionOrdinal, QuotedName, VerifiedModule};
use registers::Fact;
use types::{RefType, Types};

/// What a function does with an argument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentType {
    /// Nothing reads it, but it may be returned.
    #[default]
    Unused,
    /// It is read, as a reference of any type.
    Used,
    /// It is a reference of a type.
    Type(u32),
}

/// The types of a function's arguments and results, as far as its body shows them.
#[derive(Clone, Debug, Default)]
struct Summary {
    /// One for each reference argument.
    arguments: Vec<ArgumentType>,
    /// One for each reference result.
    results: Vec<Fact>,
}

/// Returns declarations for the exported functions that have none or one that contradicts their calling convention or their
/// code, by the ordinals of the functions. Each analysis has a [`Budget`]; a function that exceeds it has unknown types.
///
/// A declaration contradicts the code where it was written before the compiler replaced a type of floats, such as f16 by f32:
/// then it keeps its names and extents, and the element types are those of the code. Only replacements of f64, f16 and bf16 are
/// looked for, which the compiler's input passes make.
#[must_use]
pub fn recovered_declarations(module: &VerifiedModule) -> IndexMap<u32, String> {
    let uses_tensors = module.imports().any(|import| imports::function(import.full_name).is_some());
    let mut recovery = Recovery { module, uses_tensors, types: Types::default(), summaries: IndexMap::default() };
    let exports = module.exports().map(|export| export.function);
    let (mut declarations, mut seen) = (IndexMap::default(), IndexSet::default());
    for function in exports {
        if !seen.insert(function, ()) {
            continue;
        }
        let text = match Signature::declared(module, function) {
            None => recovery.declaration(function),
            Some(declared) if has_replaceable_floats(declared) => recovery.corrected(function, declared),
            Some(_) => None,
        };
        if let Some(text) = text {
            declarations.insert(function, text);
        }
    }
    declarations
}

struct Recovery<'m> {
    module: &'m VerifiedModule,
    /// The module imports functions of buffer views.
    uses_tensors: bool,
    types: Types,
    summaries: IndexMap<u32, Summary>,
}

impl Recovery<'_> {
    /// Returns the text of a declaration in the form of the compiler's; `None` for a function with spans.
    fn declaration(&mut self, function: u32) -> Option<String> {
        let (arguments, results, fences) = convention(self.module, function)?;
        if arguments.iter().chain(&results).any(|item| matches!(item, ConventionItem::SpanStart)) {
            return None;
        }
        let summary = self.summary(function);
        let mut text = String::from(if fences { "async func @" } else { "sync func @" });
        // What ends a name in a declaration is not part of it.
        let name = self.module.export_of(function).map_or("", |export| export.local_name);
        text.extend(name.chars().filter(|c| !matches!(c, '(' | ')')));
        text.push('(');
        let mut refs = summary.arguments.iter();
        for (index, item) in arguments.iter().enumerate() {
            begin(&mut text, "input", index);
            self.write_type(&mut text, *item, || refs.next().copied().unwrap_or_default());
        }
        text.push_str(") -> (");
        let mut refs = summary.results.iter();
        for (index, item) in results.iter().enumerate() {
            begin(&mut text, "output", index);
            let of = |fact: &Fact| match fact {
                Fact::Argument(index) => summary.arguments.get(*index as usize).copied().unwrap_or_default(),
                Fact::Type(ty) => ArgumentType::Type(*ty),
                Fact::Varies | Fact::Null | Fact::Word(_) => ArgumentType::Used,
            };
            self.write_type(&mut text, *item, || refs.next().map(of).unwrap_or_default());
        }
        text.push(')');
        Some(text)
    }

    /// Returns a declaration with the floats of the code; `None` if they are those that it names.
    fn corrected(&mut self, function: u32, declared: &str) -> Option<String> {
        let parsed = Declaration::parse(declared)?;
        let (arguments, results, _) = convention(self.module, function)?;
        let summary = self.summary(function);
        let of_argument = |argument: &ArgumentType| match argument {
            ArgumentType::Type(ty) => Some(*ty),
            ArgumentType::Unused | ArgumentType::Used => None,
        };
        let of_result = |fact: &Fact| match fact {
            Fact::Type(ty) => Some(*ty),
            Fact::Argument(index) => summary.arguments.get(*index as usize).and_then(of_argument),
            Fact::Varies | Fact::Null | Fact::Word(_) => None,
        };
        let inputs: Vec<Option<u32>> = summary.arguments.iter().map(of_argument).collect();
        let outputs: Vec<Option<u32>> = summary.results.iter().map(of_result).collect();
        let mut text = String::from(declared.split_once('(')?.0);
        text.push('(');
        let is_changed = self.write_values(&mut text, &parsed.arguments, &arguments, &inputs);
        text.push_str(") -> (");
        let is_changed = self.write_values(&mut text, &parsed.results, &results, &outputs) || is_changed;
        text.push(')');
        is_changed.then_some(text)
    }

    /// Writes declared values with the floats of the code; returns true if they differ from the declared ones.
    fn write_values(
        &self,
        text: &mut String,
        values: &[DeclaredValue<'_>],
        items: &[ConventionItem],
        types: &[Option<u32>],
    ) -> bool {
        let mut is_changed = false;
        let mut types = types.iter();
        for (index, (value, item)) in values.iter().zip(items).enumerate() {
            text.push_str(if index == 0 { "" } else { ", " });
            if !value.name.is_empty() {
                // Writing to a string does not fail.
                let _ = write!(text, "%{}: ", QuotedName(&value.name));
            }
            let found = if *item == ConventionItem::Ref { types.next().copied().flatten() } else { None };
            match found.and_then(|ty| self.replaced_float(value, ty)) {
                Some(element) => {
                    let shape = value.tensor.iter().flat_map(|tensor| tensor.shape.iter().copied());
                    let _ = write_tensor(text, element, shape);
                    is_changed = true;
                }
                None => text.push_str(value.ty),
            }
            if let Some(output) = value.output {
                let _ = write!(text, " {{{OUTPUT} = {output} : index}}");
            }
        }
        is_changed
    }

    /// Returns the floats of the code where a tensor is declared with others.
    fn replaced_float(&self, value: &DeclaredValue<'_>, ty: u32) -> Option<ElementType> {
        let declared: ElementType = value.tensor.as_ref()?.element.parse().ok()?;
        let RefType::Tensor(found, _) = self.types.get(ty) else { return None };
        let found = ElementType::from_raw(*found);
        (declared.is_float() && found.is_float() && declared != found).then_some(found)
    }

    fn write_type(&self, text: &mut String, item: ConventionItem, reference: impl FnOnce() -> ArgumentType) {
        let number = match item {
            ConventionItem::I32 => "i32",
            ConventionItem::I64 => "i64",
            ConventionItem::F32 => "f32",
            ConventionItem::F64 => "f64",
            ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => {
                return match reference() {
                    // The compiler passes tensors as buffer views, and does not check those that nothing reads.
                    ArgumentType::Unused if self.uses_tensors => text.push_str(BUFFER_VIEW),
                    ArgumentType::Unused | ArgumentType::Used => text.push_str(UNKNOWN),
                    ArgumentType::Type(ty) => text.push_str(&self.types.get(ty).to_string()),
                };
            }
        };
        text.push_str(number);
    }

    /// Returns the summary of a function. Its callees are analysed before it; a function that calls itself sees itself as
    /// unknown.
    fn summary(&mut self, function: u32) -> Summary {
        if let Some(known) = self.summaries.get(function) {
            return known.clone();
        }
        let mut open = vec![(function, self.callees(function))];
        while let Some((current, callees)) = open.last_mut() {
            let current = *current;
            // Marks the function as begun.
            if !self.summaries.contains(current) {
                self.summaries.insert(current, Summary::default());
            }
            match callees.pop() {
                Some(callee) if !self.summaries.contains(callee) => {
                    let next = (callee, self.callees(callee));
                    open.push(next);
                }
                Some(_) => {}
                None => {
                    open.pop();
                    let mut budget = Budget::of_function(self.module, current);
                    let summary = flow::summary(self, current, &mut budget).unwrap_or_default();
                    self.summaries.insert(current, summary);
                }
            }
        }
        self.summaries.get(function).cloned().unwrap_or_default()
    }

    /// Returns the functions of the module that a function calls.
    fn callees(&self, function: u32) -> Vec<u32> {
        let callee = |body: Body<'_>| match body {
            Body::Call { callee, .. }
            | Body::CallVariadic { callee, .. }
            | Body::CallYieldable { callee, .. }
            | Body::CallVariadicYieldable { callee, .. } => Some(callee),
            _ => None,
        };
        let calls = self.module.instructions(function).filter_map(|instruction| callee(instruction.body));
        let mut callees: Vec<u32> = calls.filter_map(FunctionOrdinal::internal).collect();
        callees.sort_unstable();
        callees.dedup();
        callees
    }

    /// Joins what is known of an argument with what a use of it shows. `is_certain` says that every call reaches the use.
    fn constrain(&mut self, argument: &mut ArgumentType, used_as: ArgumentType, is_certain: bool) {
        *argument = match (*argument, used_as) {
            (known, ArgumentType::Unused) => known,
            (ArgumentType::Type(known), ArgumentType::Used) => ArgumentType::Type(known),
            (_, ArgumentType::Used) => ArgumentType::Used,
            (known, ArgumentType::Type(other)) => {
                let other = if is_certain { other } else { self.types.kind_of(other) };
                match known {
                    ArgumentType::Type(known) => ArgumentType::Type(self.types.both(known, other)),
                    ArgumentType::Unused | ArgumentType::Used => ArgumentType::Type(other),
                }
            }
        };
    }
}

fn begin(text: &mut String, generic: &str, index: usize) {
    let comma = if index == 0 { "" } else { ", " };
    // Writing to a string does not fail.
    let _ = write!(text, "{comma}%{generic}{index}: ");
}

#[cfg(all(test, feature = "text"))]
mod tests;
