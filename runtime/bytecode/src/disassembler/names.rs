//! Names of functions: unique, and none that a call would take for an import.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::module::{Export, Module};
use super::super::quoting::{is_symbol_character, symbol};

pub(super) struct Names<'m> {
    module: &'m Module,
    /// One for each function.
    functions: Vec<String>,
    /// Ordinal of the first import of each name.
    imports: BTreeMap<&'m str, u32>,
    /// Ordinal of the first type of each text.
    types: BTreeMap<&'m str, u32>,
}

impl<'m> Names<'m> {
    pub(super) fn new(module: &'m Module) -> Names<'m> {
        let mut functions: Vec<Option<String>> = (0..module.function_count()).map(|_| None).collect();
        let mut used = BTreeSet::new();
        // Exported functions keep their names; the others get what is left.
        for export in module.exports() {
            if let Some(name @ None) = functions.get_mut(export.function as usize)
                && used.insert(String::from(export.local_name))
            {
                *name = Some(export.local_name.into());
            }
        }
        let database = module.debug_database();
        let mut unique = |ordinal: usize| {
            let name = database.and_then(|database| database.function_name(ordinal as u32)).unwrap_or_default();
            let valid = |character| if is_symbol_character(character) { character } else { '_' };
            let stem: String = match name.is_empty() {
                true => format!("fn{ordinal}"),
                false => name.chars().map(valid).collect(),
            };
            let mut candidate = stem.clone();
            let mut count = 0;
            while !used.insert(candidate.clone()) {
                candidate = format!("{stem}_{count}");
                count += 1;
            }
            candidate
        };
        let named = functions.into_iter().enumerate();
        let functions = named.map(|(ordinal, name)| name.unwrap_or_else(|| unique(ordinal))).collect();
        let mut imports = BTreeMap::new();
        for (ordinal, import) in module.imports().enumerate() {
            imports.entry(import.full_name).or_insert(ordinal as u32);
        }
        let mut types = BTreeMap::new();
        for (ordinal, definition) in module.types().iter().enumerate() {
            types.entry(definition.text()).or_insert(ordinal as u32);
        }
        Names { module, functions, imports, types }
    }

    /// The symbol under which a function is defined.
    pub(super) fn function(&self, ordinal: u32) -> String {
        self.functions.get(ordinal as usize).map_or_else(|| format!("@fn{ordinal}"), |name| symbol(name))
    }

    /// A call's callee, which is a function of the module.
    pub(super) fn callee(&self, ordinal: u32) -> String {
        let module = self.module.name();
        if let Some(name) = self.functions.get(ordinal as usize) {
            let full = format!("{module}.{name}");
            if !module.contains('.') && full.chars().all(is_symbol_character) && !self.imports.contains_key(&*full) {
                return format!("@{full}");
            }
        }
        format!("{}:{ordinal}", symbol(module))
    }

    /// A call's callee, which is an import; by its ordinal if an earlier one has the same name.
    pub(super) fn import(&self, ordinal: u32) -> String {
        match self.module.import(ordinal) {
            Some(import) if self.imports.get(import.full_name) == Some(&ordinal) => symbol(import.full_name),
            _ => format!("@import:{ordinal}"),
        }
    }

    /// A type; by its ordinal if an earlier one has the same text.
    pub(super) fn type_text(&self, ordinal: u32) -> String {
        match self.module.types().get(ordinal as usize) {
            Some(definition) if self.types.get(definition.text()) == Some(&ordinal) => definition.text().into(),
            _ => format!("type:{ordinal}"),
        }
    }

    /// Whether exports follow the order of their functions, so that each can stand in front of its function.
    pub(super) fn exports_are_in_order(&self) -> bool {
        self.module.exports().is_sorted_by_key(|export| export.function)
    }

    pub(super) fn export_line(&self, export: Export<'_>) -> String {
        let (name, function) = (symbol(export.local_name), self.function(export.function));
        match name == function {
            true => format!("vm.export {name}"),
            false => format!("vm.export {name} = {function}"),
        }
    }
}
