//! The method of an exported function, and the struct of its results.

use incarnate_bytecode::ConventionItem;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use super::docs;
use super::signature::{Kind, Signature, Value};
use crate::function::{Analysis, FunctionFacts};
use crate::names::code;
use crate::options::Options;

/// The struct of the results, if there is one.
pub(super) fn results_struct(signature: &Signature<'_>, options: &Options) -> Option<TokenStream> {
    let name = signature.results_type.as_ref()?;
    let text = name.to_string();
    let attributes = super::attributes(options, &text);
    let doc = super::doc(&format!("Results of {}.", code(&format!("@{}", signature.name))));
    let fields = signature.results.iter().map(|value| {
        let (ident, ty) = (&value.ident, result_type(&value.kind));
        let doc = super::doc(&docs::value(value));
        quote!(#[doc = #doc] pub #ident: #ty)
    });
    Some(quote! {
        #[doc = #doc]
        #[derive(Clone, Debug)]
        #[allow(dead_code, unreachable_pub, reason = "programs use parts of it")]
        #(#attributes)*
        pub struct #name {
            #(#fields,)*
        }
    })
}

/// The method of an exported function.
pub(super) fn method(signature: &Signature<'_>, analysis: &Analysis<'_>, options: &Options) -> TokenStream {
    let Some(facts) = analysis.functions.get(signature.function as usize) else { return TokenStream::new() };
    let docs = docs::method(signature, options);
    let (method, parameters) = (&signature.method, signature.parameters.iter().map(parameter));
    let results = results_type(signature);
    let tensors = signature.parameters.iter().any(|value| matches!(value.kind, Kind::Tensor(..)));
    let body = match (signature.fences, tensors) {
        (true, _) => asynchronous(signature),
        (false, true) => {
            let body = synchronous(signature, facts);
            quote!(self.instance.with_borrowed_inputs(|instance| { #body }))
        }
        (false, false) => {
            let body = synchronous(signature, facts);
            quote!(let instance = &self.instance; #body)
        }
    };
    let asynchronous = signature.fences.then(|| quote!(async));
    // A function without the stack is small.
    let inline = (!signature.fences && !facts.needs_stack).then(|| quote!(#[inline]));
    let generics = tensors.then(|| quote!(<'a>));
    quote! {
        #(#[doc = #docs])*
        #inline
        pub #asynchronous fn #method #generics(&self, #(#parameters),*) -> Result<#results> {
            #body
        }
    }
}

/// The type of a primitive.
fn number(item: ConventionItem) -> TokenStream {
    match item {
        ConventionItem::I32 => quote!(i32),
        ConventionItem::I64 => quote!(i64),
        ConventionItem::F32 => quote!(f32),
        ConventionItem::F64 => quote!(f64),
        // Signatures contain no other items as numbers.
        ConventionItem::Ref | ConventionItem::SpanStart | ConventionItem::SpanEnd => quote!(Ref),
    }
}

fn parameter(value: &Value) -> TokenStream {
    let ident = &value.ident;
    let ty = match &value.kind {
        Kind::Number(item) => number(*item),
        Kind::Bool => quote!(bool),
        Kind::Tensor(element, _) => {
            let element = &element.rust;
            quote!(impl IntoInput<'a, #element>)
        }
        Kind::Storage(element) => {
            let element = &element.rust;
            quote!(&Tensor<#element>)
        }
        Kind::View => quote!(&Arc<BufferView>),
        Kind::Object(_, ty) => quote!(&Arc<#ty>),
        Kind::Reference => quote!(Ref),
    };
    quote!(#ident: #ty)
}

fn result_type(kind: &Kind) -> TokenStream {
    match kind {
        Kind::Number(item) => number(*item),
        Kind::Bool => quote!(bool),
        Kind::Tensor(element, _) | Kind::Storage(element) => {
            let element = &element.rust;
            quote!(Tensor<#element>)
        }
        Kind::View => quote!(Arc<BufferView>),
        Kind::Object(_, ty) => quote!(Arc<#ty>),
        Kind::Reference => quote!(Ref),
    }
}

fn results_type(signature: &Signature<'_>) -> TokenStream {
    if let Some(name) = &signature.results_type {
        return quote!(#name);
    }
    let types: Vec<TokenStream> = signature.results.iter().map(|value| result_type(&value.kind)).collect();
    match types.as_slice() {
        [only] => only.clone(),
        types => quote!((#(#types),*)),
    }
}

fn dims(shape: &[Option<u64>]) -> TokenStream {
    let dims = shape.iter().map(|dim| match dim {
        Some(dim) => {
            let dim = Literal::u64_unsuffixed(*dim);
            quote!(Some(#dim))
        }
        None => quote!(None),
    });
    quote!(&[#(#dims),*])
}

/// Converts the arguments to VM values in variables of the same names. `is_borrowed` says which ones the function borrows.
fn arguments<'a>(
    signature: &'a Signature<'_>,
    is_borrowed: impl Fn(usize) -> bool + 'a,
) -> impl Iterator<Item = TokenStream> + 'a {
    let export = Literal::u32_unsuffixed(signature.export);
    signature.parameters.iter().enumerate().filter_map(move |(index, value)| {
        let ident = &value.ident;
        let name = ident.to_string();
        Some(match &value.kind {
            Kind::Number(_) | Kind::Reference => return None,
            Kind::Bool => quote!(let #ident = i32::from(#ident);),
            Kind::Tensor(_, shape) => {
                let dims = dims(shape);
                quote!(let #ident = instance.finish(#export, instance.input(#name, #ident, #dims))?;)
            }
            Kind::Storage(_) if is_borrowed(index) => quote!(let #ident = BorrowedRef::object(#ident.view().buffer());),
            Kind::Storage(_) => quote!(let #ident = Ref::from(#ident.view().buffer().clone());),
            Kind::View if is_borrowed(index) => quote!(let #ident = BorrowedRef::object(#ident);),
            Kind::View | Kind::Object(..) => quote!(let #ident = Ref::from(#ident.clone());),
        })
    })
}

/// The conversion of a result to a tensor or another object.
fn converted(value: &Value, export: &Literal) -> TokenStream {
    let ident = &value.ident;
    let name = ident.to_string();
    match &value.kind {
        Kind::Tensor(_, shape) => {
            let dims = dims(shape);
            quote!(instance.finish(#export, instance.output(#name, #ident, #dims)))
        }
        _ => quote!(instance.finish(#export, instance.output_object(#name, #ident))),
    }
}

/// Converts VM values, in variables of the results' names, to the results.
fn results(signature: &Signature<'_>) -> TokenStream {
    let export = Literal::u32_unsuffixed(signature.export);
    let values = signature.results.iter().map(|value| {
        let ident = &value.ident;
        match &value.kind {
            Kind::Number(_) | Kind::Reference => quote!(#ident),
            Kind::Bool => quote!(#ident & 1 != 0),
            Kind::Tensor(..) | Kind::Storage(_) | Kind::View | Kind::Object(..) => {
                let converted = converted(value, &export);
                quote!(#converted?)
            }
        }
    });
    let values: Vec<TokenStream> = values.collect();
    match (&signature.results_type, values.as_slice()) {
        (Some(name), values) => {
            let fields = signature.results.iter().zip(values).map(|(result, value)| {
                let ident = &result.ident;
                if *ident == value.to_string() { quote!(#ident) } else { quote!(#ident: #value) }
            });
            quote!(#name { #(#fields),* })
        }
        (None, [only]) => only.clone(),
        (None, values) => quote!((#(#values),*)),
    }
}

/// A call of the translated function itself.
fn synchronous(signature: &Signature<'_>, facts: &FunctionFacts) -> TokenStream {
    let export = Literal::u32_unsuffixed(signature.export);
    let values = signature.parameters.iter().enumerate().map(|(index, value)| {
        let ident = &value.ident;
        match &value.kind {
            _ if facts.is_borrowed(index) => quote!(&#ident),
            Kind::Tensor(..) => quote!(#ident.into_owned()),
            _ => quote!(#ident),
        }
    });
    let values: Vec<TokenStream> = values.collect();
    let outputs: Vec<&Ident> = signature.results.iter().map(|value| &value.ident).collect();
    let pattern = match outputs.as_slice() {
        [only] => quote!(#only),
        outputs => quote!((#(#outputs),*)),
    };
    let function = &facts.ident;
    let state = facts.needs_state.then(|| quote!(state,));
    let stack = facts.needs_stack.then(|| quote!(stack,));
    let unused = |name: &str, used: bool| if used { format_ident!("{name}") } else { format_ident!("_{name}") };
    let (state_name, stack_name) = (unused("state", facts.needs_state), unused("stack", facts.needs_stack));
    let call = quote!(translated::#function(#state #stack #(#values),*));
    // A function of exactly these two parameters needs no closure.
    let begin = match facts.needs_state && facts.needs_stack && values.is_empty() {
        true => quote!(translated::#function),
        false => quote!(|#state_name, #stack_name| #call),
    };
    let result = match (facts.needs_stack, &facts.resume) {
        (false, _) => {
            quote!(instance.finish(#export, #call))
        }
        (true, None) => quote!(instance.call(#export, #begin)),
        (true, Some(resume)) => quote!(instance.call_yieldable(#export, #begin, translated::#resume)),
    };
    let (arguments, results) = (arguments(signature, |index| facts.is_borrowed(index)), results(signature));
    // Results that need no conversion are returned directly.
    let needs_no_conversion = match signature.results.as_slice() {
        [] => true,
        results => {
            signature.results_type.is_none()
                && results.iter().all(|value| matches!(value.kind, Kind::Number(_) | Kind::Reference))
        }
    };
    let direct = (!facts.needs_stack && facts.needs_state).then(|| quote!(let state = instance.state();));
    let rest = match (needs_no_conversion, signature.results.as_slice()) {
        (true, _) => result,
        // The conversion of the only result is the result of the method.
        (false, [only]) if matches!(only.kind, Kind::Tensor(..) | Kind::View | Kind::Object(..)) => {
            let converted = converted(only, &export);
            quote!(let #pattern = #result?; #converted)
        }
        (false, _) => quote!(let #pattern = #result?; Ok(#results)),
    };
    quote! {
        #(#arguments)*
        #direct
        #rest
    }
}

/// A call with fences.
fn asynchronous(signature: &Signature<'_>) -> TokenStream {
    let export = Literal::u32_unsuffixed(signature.export);
    let values = signature.parameters.iter().map(|value| {
        let ident = &value.ident;
        match &value.kind {
            Kind::Number(ConventionItem::I64) => quote!(Value::I64(#ident)),
            Kind::Number(ConventionItem::F32) => quote!(Value::F32(#ident)),
            Kind::Number(ConventionItem::F64) => quote!(Value::F64(#ident)),
            Kind::Number(_) | Kind::Bool => quote!(Value::I32(#ident)),
            Kind::Tensor(..) => quote!(Value::Ref(#ident.into_owned())),
            Kind::Storage(_) | Kind::View | Kind::Object(..) | Kind::Reference => quote!(Value::Ref(#ident)),
        }
    });
    let outputs = signature.results.iter().map(|value| {
        let ident = &value.ident;
        let ty = match &value.kind {
            Kind::Number(item) => number(*item),
            Kind::Bool => quote!(i32),
            Kind::Tensor(..) | Kind::Storage(_) | Kind::View | Kind::Object(..) | Kind::Reference => quote!(Ref),
        };
        quote!(let #ident: #ty = next_result(&mut results)?;)
    });
    let (arguments, results_tuple) = (arguments(signature, |_| false), results(signature));
    // The conversion of the only result is the result of the method.
    let end = match signature.results.as_slice() {
        [only] if matches!(only.kind, Kind::Tensor(..) | Kind::View | Kind::Object(..)) => converted(only, &export),
        _ => quote!(Ok(#results_tuple)),
    };
    let (results, mutable) = match signature.results.is_empty() {
        true => (format_ident!("_results"), None),
        false => (format_ident!("results"), Some(quote!(mut))),
    };
    quote! {
        let instance = &self.instance;
        #(#arguments)*
        let #mutable #results = instance.call_async(#export, vec![#(#values),*]).await?;
        #(#outputs)*
        #end
    }
}
