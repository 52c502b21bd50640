//! The signature of an exported function's method, from its declaration and its calling convention.
//!
//! The calling convention is authoritative: a declaration that contradicts it only appears in the documentation.

use incarnate_bytecode::{
    COARSE_FENCES, ConventionItem, DECLARATION, Declaration, DeclaredTensor, DeclaredValue, Export, INVOCATION_MODEL,
    VerifiedModule,
};
use proc_macro2::Ident;

use super::element::{Element, element};
use crate::names::{Case, Scope};

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
    pub(super) parameters: Vec<Value<'m>>,
    pub(super) results: Vec<Value<'m>>,
    /// The struct of the results, if the declaration names them.
    pub(super) results_type: Option<Ident>,
}

/// An argument or a result.
#[derive(Debug)]
pub(super) struct Value<'m> {
    /// The name in Rust.
    pub(super) ident: Ident,
    pub(super) kind: Kind,
    /// The declared type in MLIR's syntax.
    pub(super) declared: Option<&'m str>,
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
    /// A tensor of another element type, as a buffer view.
    View,
    /// Any reference.
    Reference,
}

impl<'m> Signature<'m> {
    /// The signatures of a module's public functions. Names that begin with `__` or contain `$` are internal; functions with
    /// spans have no method.
    pub(super) fn all(module: &'m VerifiedModule, methods: &mut Scope, types: &mut Scope) -> Vec<Signature<'m>> {
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
        rows.filter_map(|((export, ordinal), method)| Signature::new(module, export, ordinal, method, types)).collect()
    }

    fn new(
        module: &'m VerifiedModule,
        row: Export<'m>,
        export: u32,
        method: Ident,
        types: &mut Scope,
    ) -> Option<Signature<'m>> {
        let (name, function) = (row.local_name, row.function);
        let convention = module.function(function)?.convention;
        let attribute = |key| module.function_attributes(function).find(|row| row.0 == key).map(|row| row.1);
        let mut arguments: Vec<ConventionItem> = convention.arguments().collect();
        let results: Vec<ConventionItem> = convention.results().collect();
        let fences =
            attribute(INVOCATION_MODEL) == Some(COARSE_FENCES) && arguments.ends_with(&[ConventionItem::Ref; 2]);
        if fences {
            arguments.truncate(arguments.len() - 2);
        }
        let declaration = attribute(DECLARATION);
        let parsed = declaration.and_then(Declaration::parse).filter(|parsed| {
            parsed.arguments.len() == arguments.len()
                && parsed.results.len() == results.len()
                && agree(&parsed.arguments, &arguments)
                && agree(&parsed.results, &results)
        });
        let mut fields = Scope::default();
        // Names in the scope of methods.
        let mut variables = Scope::with(["self", "instance", "state", "stack", "results", "error"]);
        let (declared_arguments, declared_results) = match &parsed {
            Some(parsed) => (parsed.arguments.as_slice(), parsed.results.as_slice()),
            None => (&[][..], &[][..]),
        };
        let stored = |output: usize| element(declared_results.get(output)?.tensor.as_ref()?.element);
        let parameters = arguments.iter().enumerate().map(|(index, item)| {
            let value = declared_arguments.get(index);
            let storage = value.and_then(|value| value.output).filter(|_| *item == ConventionItem::Ref);
            let kind = storage.and_then(stored).map_or_else(|| kind(*item, value), Kind::Storage);
            Value::new(value, kind, &mut variables, &format!("input{index}"))
        });
        let parameters = parameters.collect();
        let results = results.iter().enumerate().map(|(index, item)| {
            let value = declared_results.get(index);
            Value::new(value, kind(*item, value), &mut fields, &format!("output{index}"))
        });
        let results: Vec<Value<'m>> = results.collect();
        let default = |(index, value): (usize, &DeclaredValue<'_>)| {
            value.name.is_empty() || value.name == format!("output{index}")
        };
        let named = results.len() > 1 && !declared_results.iter().enumerate().all(default);
        let results_type = named.then(|| types.claim(&format!("{name}_results"), Case::Camel, "Function"));
        Some(Signature { export, function, name, method, declaration, fences, parameters, results, results_type })
    }
}

impl<'m> Value<'m> {
    fn new(declared: Option<&DeclaredValue<'m>>, kind: Kind, scope: &mut Scope, fallback: &str) -> Value<'m> {
        let name = declared.map_or("", |value| value.name);
        let name = if name.is_empty() { fallback } else { name };
        Value { ident: scope.claim(name, Case::Snake, fallback), kind, declared: declared.map(|value| value.ty) }
    }
}

/// Whether declared values agree with the items of a calling convention.
fn agree(declared: &[DeclaredValue<'_>], items: &[ConventionItem]) -> bool {
    declared.iter().zip(items).all(|(value, item)| {
        let reference = value.tensor.is_some() || value.ty.starts_with('!');
        reference == (*item == ConventionItem::Ref)
    })
}

fn kind(item: ConventionItem, declared: Option<&DeclaredValue<'_>>) -> Kind {
    match (item, declared) {
        (ConventionItem::I32, Some(value)) if value.ty == "i1" => Kind::Bool,
        (ConventionItem::I32 | ConventionItem::I64 | ConventionItem::F32 | ConventionItem::F64, _) => {
            Kind::Number(item)
        }
        (_, Some(DeclaredValue { tensor: Some(DeclaredTensor { shape, element: text }), .. })) => match element(text) {
            Some(element) => Kind::Tensor(element, shape.clone()),
            None => Kind::View,
        },
        _ => Kind::Reference,
    }
}
