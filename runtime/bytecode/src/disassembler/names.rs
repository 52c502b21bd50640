//! Names of functions: unique, and none that a call would take for an import.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::module::{Export, Module};
use super::super::quoting::{is_symbol_character, symbol};

/// The most bytes of a callee's name in calls. Longer ones are named by their ordinals, because any number of calls may name
/// them.
const CALLEE_LENGTH_LIMIT: usize = 1024;

pub(super) struct Names<'m> {
    module: &'m Module,
    /// One for each function.
    functions: Vec<String>,
    /// Ordinal of the first import of each name.
    imports: BTreeMap<&'m str, u32>,
    /// Ordinal of the first type of each text.
    types: BTreeMap<&'m str, u32>,
    exports_are_in_order: bool,
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
        let mut suffixes = BTreeMap::new();
        let mut unique = |ordinal: usize| {
            let name = database.and_then(|database| database.function_name(ordinal as u32)).unwrap_or_default();
            let valid = |character| if is_symbol_character(character) { character } else { '_' };
            let stem: String = match name.is_empty() {
                true => format!("fn{ordinal}"),
                false => name.chars().map(valid).collect(),
            };
            let mut candidate = stem.clone();
            // All smaller suffixes are in use.
            let count = suffixes.entry(stem.clone()).or_insert(0u32);
            while !used.insert(candidate.clone()) {
                candidate = format!("{stem}_{count}");
                *count += 1;
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
        let exports_are_in_order = module.exports().is_sorted_by_key(|export| export.function);
        Names { module, functions, imports, types, exports_are_in_order }
    }

    /// The exports of a function, where exports are in the order of their functions.
    pub(super) fn exports_of(&self, function: u32) -> impl Iterator<Item = Export<'m>> + use<'m> {
        let module = self.module;
        let exports = module.export_of(function).and_then(|first| {
            let count = module.exports().len() as u32;
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low + (high - low) / 2;
                match module.export(middle)?.function < first.function {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            Some((low..count).map_while(move |ordinal| module.export(ordinal).filter(|row| row.function == function)))
        });
        exports.into_iter().flatten()
    }

    /// The symbol under which a function is defined.
    pub(super) fn function(&self, ordinal: u32) -> String {
        self.functions.get(ordinal as usize).map_or_else(|| format!("@fn{ordinal}"), |name| symbol(name))
    }

    /// A call's callee, which is a function of the module.
    pub(super) fn callee(&self, ordinal: u32) -> String {
        let module = self.module.name();
        if let Some(name) = self.functions.get(ordinal as usize)
            && module.len() + name.len() <= CALLEE_LENGTH_LIMIT
        {
            let full = format!("{module}.{name}");
            if !module.contains('.') && full.chars().all(is_symbol_character) && !self.imports.contains_key(&*full) {
                return format!("@{full}");
            }
        }
        match module.len() <= CALLEE_LENGTH_LIMIT {
            true => format!("{}:{ordinal}", symbol(module)),
            false => format!("@function:{ordinal}"),
        }
    }

    /// A call's callee, which is an import; by its ordinal if an earlier one has the same name.
    pub(super) fn import(&self, ordinal: u32) -> String {
        match self.module.import(ordinal) {
            Some(import)
                if import.full_name.len() <= CALLEE_LENGTH_LIMIT
                    && self.imports.get(import.full_name) == Some(&ordinal) =>
            {
                symbol(import.full_name)
            }
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
        self.exports_are_in_order
    }

    pub(super) fn export_line(&self, export: Export<'_>) -> String {
        let (name, function) = (symbol(export.local_name), self.function(export.function));
        match name == function {
            true => format!("vm.export {name}"),
            false => format!("vm.export {name} = {function}"),
        }
    }
}
