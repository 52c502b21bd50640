//! Constants for the types that functions check references against.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::ir::Function;
use incarnate_bytecode::{TypeId, TypeKind, VerifiedModule};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

use crate::names::Scope;

/// The types of a module.
#[derive(Clone, Debug)]
pub(super) struct Types {
    expressions: Vec<TokenStream>,
    elements: Vec<TokenStream>,
    constants: Vec<TokenStream>,
}

impl Types {
    /// The types, with constants for those that functions use.
    pub(super) fn new(module: &VerifiedModule, bodies: &[Function]) -> Types {
        let used = used(bodies);
        let mut taken = Scope::default();
        let mut types = Types { expressions: Vec::new(), elements: Vec::new(), constants: Vec::new() };
        let mut known: HashMap<&str, Ident> = HashMap::new();
        for (index, definition) in module.types().iter().enumerate() {
            let expression = match definition.kind() {
                TypeKind::I8 => quote!(ValueType::I8),
                TypeKind::I16 => quote!(ValueType::I16),
                TypeKind::I32 => quote!(ValueType::I32),
                TypeKind::I64 => quote!(ValueType::I64),
                TypeKind::F32 => quote!(ValueType::F32),
                TypeKind::F64 => quote!(ValueType::F64),
                TypeKind::Opaque | TypeKind::AnyRef => quote!(ValueType::AnyRef),
                TypeKind::Any => quote!(ValueType::Any),
                TypeKind::List(_) => quote!(ValueType::Ref(support::List::TYPE)),
                TypeKind::Ref("vm.buffer") => quote!(ValueType::Ref(support::Buffer::TYPE)),
                TypeKind::Ref(_) if !used.contains(&(index as u32)) => TokenStream::new(),
                TypeKind::Ref(name) => {
                    let ident = known.get(name).cloned().unwrap_or_else(|| {
                        let ident = constant(name, &mut taken);
                        types.constants.push(quote! {
                            const #ident: ValueType = ValueType::Ref(support::RefType::new(#name));
                        });
                        known.insert(name, ident.clone());
                        ident
                    });
                    quote!(#ident)
                }
            };
            // As the elements of a list, opaque means any value.
            let is_opaque = matches!(definition.kind(), TypeKind::Opaque);
            types.elements.push(if is_opaque { quote!(ValueType::Any) } else { expression.clone() });
            types.expressions.push(expression);
        }
        types
    }

    /// The expression that references are checked against.
    pub(super) fn of(&self, id: TypeId) -> &TokenStream {
        &self.expressions[id.0 as usize]
    }

    /// The element type of a list.
    pub(super) fn of_elements(&self, id: TypeId) -> &TokenStream {
        &self.elements[id.0 as usize]
    }

    /// The constants.
    pub(super) fn items(&self) -> TokenStream {
        self.constants.iter().cloned().collect()
    }
}

/// The types that functions refer to.
fn used(bodies: &[Function]) -> HashSet<u32> {
    let blocks = bodies.iter().flat_map(|body| &body.blocks);
    blocks.flat_map(|block| &block.instructions).filter_map(|inst| inst.op.type_def()).map(|ty| ty.0).collect()
}

/// The name of the constant for a type.
fn constant(name: &str, taken: &mut Scope) -> Ident {
    let mut text = String::from("TYPE");
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        text.push('_');
        text.extend(word.chars().take(40).map(|c| c.to_ascii_uppercase()));
    }
    taken.unique(&text, "_")
}
