//! The public names of the crate `incarnate`: a new one at its root is a decision, which this list records.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::Path;

use syn::{Attribute, Item, UseTree, Visibility};

/// What a program with a model uses. Everything else is below `incarnate::runtime`.
const NAMES: &[&str] = &[
    "AlignedVec",
    "BF16",
    "Device",
    "DeviceOptions",
    "Element",
    "ElementType",
    "Elements",
    "Error",
    "F16",
    "FileAccess",
    "Function",
    "FunctionFuture",
    "Input",
    "Limits",
    "Module",
    "Result",
    "Results",
    "Session",
    "SessionBuilder",
    "Signature",
    "StatusCode",
    "Tensor",
    "ValueInfo",
    "ValueType",
    "half",
    "include_module",
    "ndarray",
    "num_complex",
    "runtime",
];

fn is_hidden(attributes: &[Attribute]) -> bool {
    let is_hidden = |attribute: &Attribute| {
        attribute.path().is_ident("doc") && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden")
    };
    attributes.iter().any(is_hidden)
}

/// Adds the names that a `use` declares.
fn used(tree: &UseTree, names: &mut Vec<String>) {
    match tree {
        UseTree::Path(path) => used(&path.tree, names),
        UseTree::Name(name) => names.push(name.ident.to_string()),
        UseTree::Rename(rename) => names.push(rename.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| used(tree, names)),
        UseTree::Glob(_) => panic!("src/lib.rs has a glob of public names, which no list can record"),
    }
}

/// Adds the names of an item, if it is public and documented.
fn public(item: &Item, names: &mut Vec<String>) {
    let is_shown = |visibility: &Visibility, attributes: &[Attribute]| {
        matches!(visibility, Visibility::Public(_)) && !is_hidden(attributes)
    };
    match item {
        Item::Use(item) if is_shown(&item.vis, &item.attrs) => used(&item.tree, names),
        Item::Mod(item) if is_shown(&item.vis, &item.attrs) => names.push(item.ident.to_string()),
        Item::Macro(item) if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) => {
            names.extend(item.ident.as_ref().map(ToString::to_string));
        }
        Item::Use(_) | Item::Mod(_) | Item::Macro(_) => {}
        _ => panic!("src/lib.rs has an item of a kind that this test does not know"),
    }
}

#[test]
fn the_root_has_the_names_that_programs_with_a_model_use() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/lib.rs");
    let text = std::fs::read_to_string(path).expect("the source of the crate `incarnate`");
    let mut names = Vec::new();
    syn::parse_file(&text).expect("Rust").items.iter().for_each(|item| public(item, &mut names));
    names.sort();
    assert_eq!(
        names, NAMES,
        "the names at the root of `incarnate`; what few programs use is below `incarnate::runtime`"
    );
}
