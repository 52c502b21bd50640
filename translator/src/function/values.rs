//! Names and literals of values.

use std::collections::HashSet;

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::ir::{Block, Call, Callee, Definition, Function, Op, Terminator, Type, Value};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

use crate::kernels::Kernel;

/// The names of a function's values: a word for their origin and a unique number.
pub(super) fn names(
    module: &VerifiedModule,
    function: &Function,
    kernel: Option<&Kernel>,
    taken: &HashSet<String>,
) -> Vec<Ident> {
    let mut stems: Vec<String> = vec![String::from("v"); function.value_count()];
    for (_, data) in function.iter() {
        for inst in &data.instructions {
            if let Some(stem) = stem(module, &inst.op) {
                inst.results.iter().for_each(|value| stems[value.index()] = format!("{stem}_"));
            }
            if let (Op::Call(Call { deferred: Some(_), .. }), Some(fence)) = (&inst.op, inst.results.last()) {
                stems[fence.index()] = "fence_".into();
            }
        }
        if let Terminator::CallYieldable { call, results, .. } = &data.terminator
            && let Some(stem) = callee_stem(module, call.callee)
        {
            results.iter().for_each(|value| stems[value.index()] = format!("{stem}_"));
        }
    }
    let arguments = kernel.map(Kernel::argument_names).unwrap_or_default();
    let name = |index: usize| {
        let value = Value(index as u32);
        let position = match function.definition(value) {
            Definition::Parameter(Block::ENTRY, position) => Some(position as usize),
            _ => None,
        };
        let mut name = match position {
            Some(position) => arguments.get(position).cloned().unwrap_or_else(|| format!("input{position}")),
            None => format!("{}{index}", stems[index]),
        };
        while taken.contains(&name) {
            name.push('_');
        }
        Ident::new(&name, Span::call_site())
    };
    (0..function.value_count()).map(name).collect()
}

/// The word for the result of an operation.
fn stem(module: &VerifiedModule, op: &Op) -> Option<String> {
    let stem = match op {
        Op::Call(call) => return callee_stem(module, call.callee),
        Op::GlobalLoad { .. } | Op::GlobalLoadRef { .. } => "global",
        Op::Rodata { .. } => "constant",
        Op::ListAlloc { .. } => "list",
        Op::ListSize { .. } => "size",
        Op::ListGet { .. } | Op::ListGetRef { .. } => "element",
        Op::BufferAlloc { .. } | Op::BufferClone { .. } => "buffer",
        Op::BufferLength { .. } => "length",
        Op::BufferHash { .. } => "hash",
        _ => return None,
    };
    Some(stem.into())
}

/// The most bytes of an import's name that is searched for a word: any number of calls may name it.
const IMPORT_LENGTH: usize = 256;

/// The word for the result of a callee: the last descriptive word of the import's name.
fn callee_stem(module: &VerifiedModule, callee: Callee) -> Option<String> {
    let Callee::Import(ordinal) = callee else { return None };
    let import = module.import(ordinal).filter(|import| import.full_name.len() <= IMPORT_LENGTH)?;
    let mut words = import.full_name.split(['.', '_']).rev();
    let word = words.find(|word| !matches!(*word, "create" | "get" | "join" | "i64" | "i32" | "lookup"))?;
    let word = match word {
        "allocate" | "alloca" | "import" => "buffer",
        "devices" => "device",
        word => word,
    };
    let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()) && word.len() <= 16;
    plain.then(|| word.into())
}

/// A type of values in Rust.
pub(crate) fn type_of(ty: Type) -> TokenStream {
    match ty {
        Type::i32 => quote!(i32),
        Type::i64 => quote!(i64),
        Type::f32 => quote!(f32),
        Type::f64 => quote!(f64),
        Type::Ref => quote!(Ref),
    }
}

/// The return type for result types: the only one, or a tuple.
pub(super) fn types_of(types: &[Type]) -> TokenStream {
    let all = types.iter().map(|ty| type_of(*ty));
    match types {
        [one] => type_of(*one),
        _ => quote!((#(#all),*)),
    }
}

/// A constant as a literal, with a type suffix on request.
pub(super) fn literal(ty: Type, bits: u64, suffixed: bool) -> TokenStream {
    match ty {
        Type::i32 => integer(i64::from(bits as u32 as i32), if suffixed { "i32" } else { "" }),
        Type::i64 => integer(bits as i64, if suffixed { "i64" } else { "" }),
        Type::f32 => {
            let value = f32::from_bits(bits as u32);
            float(
                value.is_finite(),
                value.is_sign_negative(),
                format!("{:?}", value.abs()),
                if suffixed { "f32" } else { "" },
            )
            .unwrap_or_else(|| {
                let bits = hexadecimal(bits & 0xFFFF_FFFF);
                quote!(f32::from_bits(#bits))
            })
        }
        Type::f64 => {
            let value = f64::from_bits(bits);
            float(
                value.is_finite(),
                value.is_sign_negative(),
                format!("{:?}", value.abs()),
                if suffixed { "f64" } else { "" },
            )
            .unwrap_or_else(|| {
                let bits = hexadecimal(bits);
                quote!(f64::from_bits(#bits))
            })
        }
        Type::Ref => quote!(Ref::Null),
    }
}

fn integer(value: i64, suffix: &str) -> TokenStream {
    let digits = parsed(&format!("{}{suffix}", value.unsigned_abs()));
    if value < 0 { quote!(-#digits) } else { quote!(#digits) }
}

fn float(is_finite: bool, negative: bool, digits: String, suffix: &str) -> Option<TokenStream> {
    let digits = parsed(&format!("{digits}{suffix}"));
    is_finite.then(|| if negative { quote!(-#digits) } else { quote!(#digits) })
}

/// A number in hexadecimal.
pub(super) fn hexadecimal(value: u64) -> Literal {
    parsed(&format!("{value:#x}"))
}

/// Parses a literal.
fn parsed(text: &str) -> Literal {
    // Digits always parse.
    text.parse().unwrap_or_else(|_| Literal::string(text))
}
