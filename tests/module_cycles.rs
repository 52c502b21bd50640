//! Checks that no more than two modules of a crate depend on each other in a cycle. A module and those within it are one unit: paths
//! between them do not count, nor do those of tests.
#![allow(clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, UseTree};

/// A path of modules and items, as segments.
type Segments = Vec<String>;

/// The module of a file, with the modules of tests left out and other inline modules as part of it.
#[derive(Default)]
struct Module {
    /// The names that `use` declares, with their paths.
    names: BTreeMap<String, Segments>,
    /// The paths in its code and its imports.
    paths: Vec<Segments>,
}

/// The modules of a crate by their paths.
type Modules = BTreeMap<Segments, Module>;

impl Module {
    /// Adds the paths and the names that a `use` declares.
    fn import(&mut self, tree: &UseTree, mut path: Segments) {
        let (name, alias) = match tree {
            UseTree::Path(it) => return self.import(&it.tree, [path, vec![it.ident.to_string()]].concat()),
            UseTree::Group(it) => return it.items.iter().for_each(|tree| self.import(tree, path.clone())),
            UseTree::Name(it) => (&it.ident, &it.ident),
            UseTree::Rename(it) => (&it.ident, &it.rename),
            UseTree::Glob(_) => return self.paths.push(path),
        };
        let alias = if alias == "self" { path.last().expect("a module").clone() } else { alias.to_string() };
        path.push(name.to_string());
        self.names.insert(alias, path.clone());
        self.paths.push(path);
    }
}

impl Visit<'_> for Module {
    fn visit_item_mod(&mut self, item: &ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.import(&item.tree, Segments::new());
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter().map(|segment| segment.ident.to_string());
        self.paths.extend((path.segments.len() > 1).then(|| segments.collect()));
        visit::visit_path(self, path);
    }
}

/// Adds the modules of the files in a folder.
fn read(modules: &mut Modules, folder: &Path, path: &[String]) {
    for file in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let own = if ["lib", "main", "mod"].contains(&&*name) { path.to_vec() } else { [path, &[name]].concat() };
        if file.is_dir() {
            read(modules, &file, &own);
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let syntax = syn::parse_file(&fs::read_to_string(file).expect("a file")).expect("Rust");
            modules.entry(own).or_default().visit_file(&syntax);
        }
    }
}

/// The module in which a path from a module ends; `None` outside of the crate.
fn resolve(modules: &Modules, from: &[String], path: &[String], depth: usize) -> Option<Segments> {
    let mut at = from.to_vec();
    for (index, name) in path.iter().enumerate() {
        let child = [&at[..], std::slice::from_ref(name)].concat();
        match name.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            _ if modules.contains_key(&child) => at = child,
            _ => match modules.get(&at)?.names.get(name) {
                Some(target) if target[..] != path[index..=index] && depth < 20 => {
                    return resolve(modules, &at, &[target, &path[index + 1..]].concat(), depth + 1);
                }
                _ => return (index > 0).then_some(at),
            },
        }
    }
    Some(at)
}

/// The cycles of more than two modules in the files of a folder.
fn cycles(folder: &Path) -> BTreeSet<BTreeSet<String>> {
    let mut modules = Modules::new();
    read(&mut modules, folder, &[]);
    let dependencies = |(path, module): (&Segments, &Module)| {
        let targets = module.paths.iter().filter_map(|target| resolve(&modules, path, target, 0));
        (path.clone(), targets.filter(|to| !to.starts_with(path) && !path.starts_with(to)).collect())
    };
    let graph: BTreeMap<Segments, BTreeSet<Segments>> = modules.iter().map(dependencies).collect();
    let reached = |from: &Segments| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(targets) = open.pop().and_then(|from| graph.get(from)) {
            open.extend(targets.iter().filter(|to| found.insert((*to).clone())));
        }
        found
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|from| (from, reached(from))).collect();
    let cycle = |(from, to): (&&Segments, &BTreeSet<Segments>)| -> BTreeSet<String> {
        to.iter().filter(|to| reached[to].contains(*from)).map(|to| to.join("::")).collect()
    };
    reached.iter().map(cycle).filter(|cycle| cycle.len() > 2).collect()
}

#[test]
fn modules_depend_on_each_other_in_pairs_at_most() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let members = manifest.split("members = [").nth(1).and_then(|text| text.split(']').next()).expect("members");
    let members = members.split('"').skip(1).step_by(2).filter(|member| root.join(member).join("src").is_dir());
    let all = members.flat_map(|member| cycles(&root.join(member).join("src")).into_iter().map(move |it| (member, it)));
    let all: Vec<_> = all.collect();
    assert!(all.is_empty(), "modules depend on each other: {all:#?}");
}

#[test]
fn a_cycle_of_three_is_found_and_a_pair_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("lib.rs", "mod a; mod b; mod c; pub use c::C; mod tests { use crate::a; }");
    write("a.rs", "use super::{b::{self, B as Other}, C}; pub struct A(b::B, Other, C);");
    write("b.rs", "pub struct B; mod tests { use crate::C; }");
    write("c.rs", "pub struct C; fn f() -> Vec<crate::a::A> { crate::b::g!() }");
    assert!(cycles(folder.path()).is_empty());
    write("b.rs", "pub struct B(Box<crate::C>);");
    assert_eq!(cycles(folder.path()), [["a", "b", "c"].map(str::to_owned).into()].into());
}
