//! The signature of an exported function's method, from its declaration or body and its calling convention.
//!
//! The calling convention is authoritative: a declaration that contradicts it only appears in the documentation.

use incarnate_bytecode::index_map::IndexMap;
use incarnate_bytecode::{
    ConventionItem, Export, Signature as Types, ValueInfo, ValueType, VerifiedModule, declaration_of, has_coarse_fences,
};
use proc_macro2::{Ident, TokenStream};

use super::element::{Element, element};
use super::object::Object;
use crate::names::{Case, Scope};
use crate::options::Options;

/// An exported function as a method.
#[derive(Debug)]
pub(super) struct Signature<'m> {
    /// The ordinal of the export.
    pub(super) export: u32,
    /// The ordinal of the function.
    pub(super) function: u32,
    /// The name of the export.
    pub(super) name: &'m str,
    /// The name of the method.
    pub(super) method: Ident,
    pub(super) declaration: Option<&'m str>,
    /// It takes a wait fence and a signal fence, which the method provides.
    pub(super) fences: bool,
    pub(super) parameters: Vec<Value>,
    pub(super) results: Vec<Value>,
    /// The struct of the results, if the declaration names them.
    pub(super) results_type: Option<Ident>,
}

/// An argument or a result.
#[derive(Debug)]
pub(super) struct Value {
    /// The name in Rust.
    pub(super) ident: Ident,
    pub(super) kind: Kind,
    /// The name and the type in the model.
    pub(super) info: ValueInfo,
}

/// The Rust form of a VM value.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A primitive as it is.
    Number(ConventionItem),
    /// A `bool`, which is an `i32` in the VM.
    Bool,
    /// A tensor whose element type exists in Rust.
    Tensor(Element, Vec<Option<u64>>),
    /// The memory that a result is stored in, passed as a tensor of the result's element type.
    Storage(Element),
    /// A tensor of an unknown type, or of an element type that does not exist in Rust, as a buffer view.
    View,
    /// Another object, and its Rust type.
    Object(Object, TokenStream),
    /// A reference to an object of another type.
    Reference,
}

impl<'m> Signature<'m> {
    /// The signatures of a module's public functions. Names that begin with `__` or contain `$` are internal; functions with
    /// spans have no method.
    pub(super) fn all(
        module: &'m VerifiedModule,
        recovered: &IndexMap<u32, String>,
        options: &Options,
        methods: &mut Scope,
        types: &mut Scope,
    ) -> Vec<Signature<'m>> {
        let exports = module.exports().zip(0..);
        let public =
            exports.filter(|(export, _)| !export.local_name.starts_with("__") && !export.local_name.contains('$'));
        let callable = public.filter(|(export, _)| {
            module.function(export.function).is_some_and(|function| !function.convention.is_variadic())
        });
        let rows: Vec<(Export<'m>, u32)> = callable.collect();
        let names: Vec<&str> = rows.iter().map(|(export, _)| export.local_name).collect();
        let idents = methods.claim_all(&names, Case::Snake, "function");
        let rows = rows.into_iter().zip(idents);
        let signature = |((export, ordinal), method): ((Export<'m>, u32), Ident)| {
            let recovered = recovered.get(export.function).map(String::as_str);
            Signature::new(module, (export, ordinal, method), recovered, options, types)
        };
        rows.filter_map(signature).collect()
    }

    fn new(
        module: &'m VerifiedModule,
        (row, export, method): (Export<'m>, u32, Ident),
        recovered: Option<&str>,
        options: &Options,
        types: &mut Scope,
    ) -> Option<Signature<'m>> {
        let (name, function) = (row.local_name, row.function);
        let convention = module.function(function)?.convention;
        let mut arguments: Vec<ConventionItem> = convention.arguments().collect();
        let results: Vec<ConventionItem> = convention.results().collect();
        let fences =
            arguments.ends_with(&[ConventionItem::Ref; 2]) && has_coarse_fences(module.function_attributes(function));
        if fences {
            arguments.truncate(arguments.len() - 2);
        }
        let declaration = declaration_of(module.function_attributes(function), &convention);
        let types_of = Types::new(recovered.or(declaration), &arguments, &results);
        let stored: Vec<Option<Element>> =
            types_of.outputs.iter().map(|value| element(value.element_type()?)).collect();
        // Names in the scope of methods.
        let mut variables = Scope::with(["self", "instance", "state", "stack", "results", "error"]);
        let parameters = values(types_of.inputs, &mut variables, "input", |info| {
            let storage = info.stored_output().and_then(|output| stored.get(output).cloned().flatten());
            storage.map_or_else(|| kind(info, options), Kind::Storage)
        });
        let default = |(index, value): (usize, &ValueInfo)| value.name() == format!("output{index}");
        let named = results.len() > 1 && !types_of.outputs.iter().enumerate().all(default);
        let results = values(types_of.outputs, &mut Scope::default(), "output", |info| kind(info, options));
        let results_type = named.then(|| types.claim(&format!("{name}_results"), Case::Camel, "Function"));
        Some(Signature { export, function, name, method, declaration, fences, parameters, results, results_type })
    }
}

/// Claims an identifier for each input or output: a name that is one keeps it, whatever other names become.
fn values(infos: Vec<ValueInfo>, scope: &mut Scope, generic: &str, kind: impl Fn(&ValueInfo) -> Kind) -> Vec<Value> {
    let names: Vec<&str> = infos.iter().map(ValueInfo::name).collect();
    let idents = scope.claim_each(&names, Case::Snake, |index| format!("{generic}{index}"));
    let values = infos.into_iter().zip(idents);
    values.map(|(info, ident)| Value { ident, kind: kind(&info), info }).collect()
}

fn kind(info: &ValueInfo, options: &Options) -> Kind {
    match info.value_type() {
        ValueType::Bool => Kind::Bool,
        ValueType::I32 => Kind::Number(ConventionItem::I32),
        ValueType::I64 => Kind::Number(ConventionItem::I64),
        ValueType::F32 => Kind::Number(ConventionItem::F32),
        ValueType::F64 => Kind::Number(ConventionItem::F64),
        ValueType::Tensor { element: found, shape } => {
            element(*found).map_or(Kind::View, |element| Kind::Tensor(element, shape.clone()))
        }
        ValueType::BufferView => Kind::View,
        ValueType::Reference(text) => {
            Object::of(text, options).map_or(Kind::Reference, |object| Kind::Object(object, object.rust(options)))
        }
        _ => Kind::Reference,
    }
}
