//! Functions of loop nests that several kernels share.
//!
//! Each nest of an executable becomes a function of its own, with the loop that it stands for. Its names depend on nothing but its
//! statements, and the constants of its loops and offsets are markers. Nests whose text is the same but for the constants are emitted
//! once: what differs becomes parameters, and everything else stays a literal.

use std::collections::{BTreeMap, HashMap};

use incarnate_bytecode::ir::{Type, Value};
use proc_macro2::{Group, Ident, Literal, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};

use super::multiversion::Parameter;
use super::tree::{Body, Node, Sequence};
use super::values;

/// The prefix of constants that may become parameters.
const CONSTANT: &str = "__constant_";
/// The marker of the name of a nest's function.
const NAME: &str = "__nest";
/// The marker after the last parameter.
const PARAMETERS: &str = "__parameters";
/// The markers of the names and of the types of these parameters alone.
const PARAMETER_NAMES: &str = "__parameter_names";
const PARAMETER_TYPES: &str = "__parameter_types";

/// The order in which a nest's statements access values: the loop's first, because those of the nest are ordered by number.
pub(super) fn order(body: &Body<'_>, sequence: &[Node]) -> HashMap<Value, usize> {
    fn visit(body: &Body<'_>, node: &Node, order: &mut HashMap<Value, usize>) {
        body.visit(node, &mut |value, _| {
            let next = order.len();
            order.entry(value).or_insert(next);
        });
        node.children().into_iter().flatten().for_each(|child| visit(body, child, order));
    }
    let mut order = HashMap::new();
    let (nests, others): (Vec<&Node>, Vec<&Node>) = sequence.iter().partition(|node| matches!(node, Node::Nest(_)));
    others.into_iter().chain(nests).for_each(|node| visit(body, node, &mut order));
    order
}

/// The names of a nest's values, by value: those of the function but for the values that the nest accesses.
pub(super) fn names(body: &Body<'_>, sequence: &Sequence, names: &[Ident]) -> Vec<Ident> {
    let mut names = names.to_vec();
    for (value, number) in order(body, sequence) {
        let stem = if body.function.ty(value) == Type::Ref { "r" } else { "v" };
        names[value.index()] = format_ident!("{stem}{number}");
    }
    names
}

/// A type of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    I32,
    I64,
    F32,
    /// A trip count.
    Usize,
    /// An offset in the bytecode.
    Offset,
}

const KINDS: [(Kind, &str, &str); 5] = [
    (Kind::I32, "i32", "i32"),
    (Kind::I64, "i64", "i64"),
    (Kind::F32, "f32", "f32"),
    (Kind::Usize, "usize", "usize"),
    (Kind::Offset, "offset", "u32"),
];

/// A constant that may become a parameter, as the bits of its type.
pub(super) fn constant(kind: Kind, bits: u64) -> TokenStream {
    let name = KINDS.iter().find(|row| row.0 == kind).map_or("", |row| row.1);
    format_ident!("{CONSTANT}{name}_{bits}").to_token_stream()
}

/// The marker of a constant of the VM, unless code for it may be better than for a parameter: zero, one and minus one are strides
/// and neutral elements.
pub(super) fn number(ty: Type, bits: u64) -> Option<TokenStream> {
    let (kind, is_special) = match ty {
        Type::i32 => (Kind::I32, (-1..=1).contains(&(bits as u32 as i32))),
        Type::i64 => (Kind::I64, (-1..=1).contains(&(bits as i64))),
        Type::f32 => {
            let number = f32::from_bits(bits as u32);
            (Kind::F32, !number.is_finite() || [0.0, 1.0].contains(&number.abs()))
        }
        _ => return None,
    };
    (!is_special).then(|| constant(kind, bits))
}

/// A constant of a kind as it stands in code.
fn literal(kind: Kind, bits: u64) -> TokenStream {
    match kind {
        Kind::I32 => values::literal(Type::i32, bits, false),
        Kind::I64 => values::literal(Type::i64, bits, false),
        Kind::F32 => values::literal(Type::f32, bits, false),
        Kind::Usize => Literal::u64_unsuffixed(bits).to_token_stream(),
        Kind::Offset => values::hexadecimal(bits).to_token_stream(),
    }
}

/// The constant of a marker.
fn marked(ident: &Ident) -> Option<(Kind, u64)> {
    let text = ident.to_string();
    let (kind, bits) = text.strip_prefix(CONSTANT)?.split_once('_')?;
    let kind = KINDS.iter().find(|row| row.1 == kind)?.0;
    Some((kind, bits.parse().ok()?))
}

/// Where the location of a nest's function is the argument `here`, and offsets count from `at`.
pub(super) fn location(offset: u32, base: u32) -> TokenStream {
    // A nest begins at its first instruction; the edge before it has no offset.
    let offset = constant(Kind::Offset, offset.wrapping_sub(base).into());
    quote!(here, at.wrapping_add(#offset))
}

/// The parameters of a nest's function besides the values that the nest accesses.
pub(super) fn parameters() -> [Parameter; 3] {
    let rows = [("here", "Here"), ("at", "u32"), (PARAMETER_NAMES, PARAMETER_TYPES)];
    rows.map(|(name, ty)| Parameter {
        name: format_ident!("{name}"),
        ty: format_ident!("{ty}").to_token_stream(),
        is_mutable: false,
        is_borrowed: false,
        has_lifetime: false,
    })
}

/// A nest's function before equal ones are found.
#[derive(Clone, Debug)]
pub(crate) struct NestFunction {
    /// The name by which its kernel calls it.
    name: Ident,
    /// The function that contains it.
    owner: Ident,
    tokens: TokenStream,
}

impl NestFunction {
    /// A function of `parameters` and a body.
    pub(super) fn new(
        (name, owner): (Ident, Ident),
        parameters: impl Iterator<Item = TokenStream>,
        results: &TokenStream,
        body: &TokenStream,
    ) -> NestFunction {
        let (nest, marker) = (format_ident!("{NAME}"), format_ident!("{PARAMETERS}"));
        let tokens = quote! {
            #[inline(never)]
            pub fn #nest(here: Here, at: u32, #(#parameters,)* #marker) -> Result<#results> { #body }
        };
        NestFunction { name, owner, tokens }
    }
}

/// The functions of nests of all executables of a module.
#[derive(Debug, Default)]
pub(crate) struct Nests {
    groups: Vec<Vec<Member>>,
    by_text: HashMap<String, usize>,
}

/// One of several equal nests.
#[derive(Debug)]
struct Member {
    /// The executable, and the name by which its kernel calls it.
    name: (usize, Ident),
    owner: Ident,
    tokens: TokenStream,
    constants: Vec<(Kind, u64)>,
}

/// The functions of all nests, and what the calls of an executable become: the name, and further arguments.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) functions: Vec<TokenStream>,
    calls: HashMap<(usize, String), (Ident, Vec<TokenStream>)>,
}

impl Nests {
    /// Adds a nest of an executable.
    pub(crate) fn add(&mut self, executable: usize, nest: NestFunction) {
        let (mut constants, mut labels) = (Vec::new(), Vec::new());
        let tokens = with_own_labels(nest.tokens, &mut labels);
        let text = replaced(tokens.clone(), &mut |ident| {
            let (kind, bits) = marked(ident)?;
            constants.push((kind, bits));
            Some(constant(kind, 0))
        });
        let next = self.groups.len();
        let group = *self.by_text.entry(text.to_string()).or_insert(next);
        if group == next {
            self.groups.push(Vec::new());
        }
        self.groups[group].push(Member { name: (executable, nest.name), owner: nest.owner, tokens, constants });
    }

    /// Emits each group once.
    pub(crate) fn finish(self) -> Shared {
        let mut shared = Shared::default();
        for (number, members) in self.groups.iter().enumerate() {
            shared.add(&format_ident!("nest_{number}"), members);
        }
        shared
    }
}

impl Shared {
    /// Emits the function of equal nests.
    fn add(&mut self, name: &Ident, members: &[Member]) {
        let Some(first) = members.first() else { return };
        // Constants that differ between nests: those that are equal in each nest are one parameter.
        let mut parameters: BTreeMap<(Kind, Vec<u64>), usize> = BTreeMap::new();
        let (mut rows, mut of_position) = (Vec::new(), Vec::new());
        for (position, (kind, bits)) in first.constants.iter().enumerate() {
            let row: Vec<u64> = members.iter().map(|member| member.constants[position].1).collect();
            let differs = row.iter().any(|other| other != bits);
            of_position.push(differs.then(|| {
                *parameters.entry((*kind, row.clone())).or_insert_with(|| {
                    rows.push((*kind, row));
                    rows.len() - 1
                })
            }));
        }
        let names: Vec<Ident> = (0..rows.len()).map(|index| format_ident!("k{index}")).collect();
        let types = rows.iter().map(|(kind, _)| KINDS.iter().find(|row| row.0 == *kind).map_or("", |row| row.2));
        let types: Vec<Ident> = types.map(|ty| format_ident!("{ty}")).collect();
        let mut position = 0;
        let function = replaced(first.tokens.clone(), &mut |ident| {
            if let Some((kind, bits)) = marked(ident) {
                position += 1;
                return Some(match of_position[position - 1] {
                    Some(index) => names[index].to_token_stream(),
                    None => literal(kind, bits),
                });
            }
            match &*ident.to_string() {
                NAME => Some(name.to_token_stream()),
                PARAMETERS => Some(quote!(#(#names: #types),*)),
                PARAMETER_NAMES => Some(quote!(#(#names),*)),
                PARAMETER_TYPES => Some(quote!(#(#types),*)),
                _ => None,
            }
        });
        let doc = match members.len() {
            1 => format!(" A nest of `{}`.", first.owner),
            count => format!(" A nest of `{}`, and {} more.", first.owner, count - 1),
        };
        self.functions.push(quote!(#[doc = #doc] #function));
        for (index, member) in members.iter().enumerate() {
            let arguments = rows.iter().map(|(kind, row)| literal(*kind, row[index])).collect();
            self.calls.insert((member.name.0, member.name.1.to_string()), (name.clone(), arguments));
        }
    }

    /// Completes the calls in the code of an executable.
    pub(crate) fn complete(&self, executable: usize, tokens: TokenStream) -> TokenStream {
        let mut completed: Vec<TokenTree> = Vec::new();
        let mut further: Option<&[TokenStream]> = None;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => match self.calls.get(&(executable, ident.to_string())) {
                    Some((name, arguments)) => {
                        completed.extend(quote!(nests::#name));
                        further = Some(arguments);
                    }
                    None => completed.push(ident.into()),
                },
                TokenTree::Group(group) => {
                    let mut stream = self.complete(executable, group.stream());
                    stream.extend(further.take().map(|further| quote!(#(#further),*)));
                    completed.push(Group::new(group.delimiter(), stream).into());
                }
                token => completed.push(token),
            }
        }
        completed.into_iter().collect()
    }
}

/// Makes parameters of the constants in the body of a function that stands within a nest's function: it cannot see what may become
/// parameters of that. Returns the body, and the name, type and argument of each parameter.
pub(super) fn pass_constants(body: TokenStream) -> (TokenStream, Vec<(Ident, Ident, TokenStream)>) {
    let mut constants: Vec<(Kind, u64)> = Vec::new();
    let body = replaced(body, &mut |ident| {
        let found = marked(ident)?;
        let position = constants.iter().position(|other| *other == found).unwrap_or_else(|| {
            constants.push(found);
            constants.len() - 1
        });
        Some(format_ident!("constant{position}").to_token_stream())
    });
    let parameter = |(position, (kind, bits)): (usize, (Kind, u64))| {
        let ty = KINDS.iter().find(|row| row.0 == kind).map_or("", |row| row.2);
        (format_ident!("constant{position}"), format_ident!("{ty}"), constant(kind, bits))
    };
    (body, constants.into_iter().enumerate().map(parameter).collect())
}

/// Replaces identifiers.
fn replaced(tokens: TokenStream, with: &mut dyn FnMut(&Ident) -> Option<TokenStream>) -> TokenStream {
    let mut result = TokenStream::new();
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => match with(&ident) {
                Some(tokens) => result.extend(tokens),
                None => result.extend([TokenTree::from(ident)]),
            },
            TokenTree::Group(group) => {
                let stream = replaced(group.stream(), with);
                result.extend([TokenTree::from(Group::new(group.delimiter(), stream))]);
            }
            token => result.extend([token]),
        }
    }
    result
}

/// Whether a name after a quotation mark is that of a loop or a nest, and not of a lifetime.
fn is_label_of_loop(ident: &Ident) -> bool {
    let text = ident.to_string();
    let number = text.strip_prefix("nest").or_else(|| text.strip_prefix('l'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Numbers labels in the order in which they appear.
fn with_own_labels(tokens: TokenStream, labels: &mut Vec<String>) -> TokenStream {
    let mut result = TokenStream::new();
    let mut is_label = false;
    for token in tokens {
        let is_quote = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '\'');
        match token {
            TokenTree::Ident(ident) if is_label && is_label_of_loop(&ident) => {
                let text = ident.to_string();
                let known = labels.iter().position(|label| *label == text);
                let number = known.unwrap_or_else(|| {
                    labels.push(text);
                    labels.len() - 1
                });
                result.extend([TokenTree::from(format_ident!("l{number}"))]);
            }
            TokenTree::Group(group) => {
                let stream = with_own_labels(group.stream(), labels);
                result.extend([TokenTree::from(Group::new(group.delimiter(), stream))]);
            }
            token => result.extend([token]),
        }
        is_label = is_quote;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A nest of a kernel that fills rows.
    fn fill(name: &str, rows: u64, columns: u64, value: TokenStream) -> NestFunction {
        let (rows, columns) = (constant(Kind::Usize, rows), constant(Kind::Usize, columns));
        let body = quote!('nest7: { fill::<'_>(r0, #rows, #columns, #columns, #value) });
        let names = (format_ident!("{name}"), format_ident!("kernel"));
        NestFunction::new(names, [quote!(r0: &Ref)].into_iter(), &quote!(()), &body)
    }

    fn shared(nests: impl IntoIterator<Item = NestFunction>) -> Shared {
        let mut all = Nests::default();
        nests.into_iter().for_each(|nest| all.add(0, nest));
        all.finish()
    }

    #[test]
    fn constants_that_differ_become_parameters() {
        let nests = [fill("a", 8, 15, quote!(0.0)), fill("b", 8, 31, quote!(0.0)), fill("c", 8, 31, quote!(1.0))];
        let shared = shared(nests);
        let text: Vec<String> = shared.functions.iter().map(TokenStream::to_string).collect();
        assert_eq!(text.len(), 2);
        // What is equal in each nest is one parameter, and what all have in common a literal.
        let expected = quote!('l0: { fill::<'_>(r0, 8, k0, k0, 0.0) }).to_string();
        assert!(text[0].contains(&expected) && text[0].contains("k0 : usize"), "{}", text[0]);
        assert!(text[1].contains(&quote!(fill::<'_>(r0, 8, 31, 31, 1.0)).to_string()), "{}", text[1]);
        let calls = shared.complete(0, quote!(a(HERE, 1, x,)?; b(HERE, 2, y,)?; c(HERE, 3, z,)?; d(x)));
        let expected = quote! {
            nests::nest_0(HERE, 1, x, 15)?; nests::nest_0(HERE, 2, y, 31)?; nests::nest_1(HERE, 3, z,)?; d(x)
        };
        assert_eq!(calls.to_string(), expected.to_string());
        assert_eq!(shared.complete(1, quote!(a(x))).to_string(), quote!(a(x)).to_string());
    }

    #[test]
    fn constants_of_all_kinds_are_literals_again() {
        for (ty, bits, text) in [
            (Type::i32, u64::from(-5i32 as u32), "- 5"),
            (Type::i64, -5i64 as u64, "- 5"),
            (Type::f32, u64::from(2.5f32.to_bits()), "2.5"),
        ] {
            let marker = number(ty, bits).unwrap_or_default();
            let resolved = replaced(marker, &mut |ident| marked(ident).map(|(kind, bits)| literal(kind, bits)));
            assert_eq!(resolved.to_string(), text);
        }
        assert!(
            number(Type::i64, -1i64 as u64).is_none() && number(Type::f32, u64::from(f32::NAN.to_bits())).is_none()
        );
    }
}
