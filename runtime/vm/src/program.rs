//! Linking: the imports of modules, resolved to the exports of others.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::array;
use super::module::{FunctionInfo, Linkage, Module};
use crate::{Error, Result};

/// Where an import of one module is exported by another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Ordinal among the importing module's imports.
    pub(super) import: u32,
    /// Index of the exporting module in the program.
    pub(super) module: usize,
    /// Ordinal among its exports.
    pub(super) export: u32,
}

/// Modules, linked: each import is bound to an export of a module that stands before it, and their calling conventions
/// agree. Immutable, and shared by contexts.
#[derive(Debug)]
pub struct Program {
    modules: Vec<Arc<dyn Module>>,
    /// The links of each module.
    links: Vec<Vec<Link>>,
}

impl Program {
    /// Links modules. A module may import from those before it.
    ///
    /// # Errors
    /// NOT_FOUND for a module or function that is required and missing, INCOMPATIBLE for one that is too old or has
    /// another calling convention, ALREADY_EXISTS for two modules of one name.
    pub fn link(modules: Vec<Arc<dyn Module>>) -> Result<Arc<Program>> {
        Program::link_after(&[], modules)
    }

    /// Links further modules, which may import from those of this program. The result has all of them; the links of the modules of
    /// this program stay.
    ///
    /// # Errors
    /// Those of [`Program::link`].
    pub fn extend(&self, modules: Vec<Arc<dyn Module>>) -> Result<Arc<Program>> {
        let all = self.modules.iter().cloned().chain(modules).collect();
        Program::link_after(&self.links, all)
    }

    /// Links the modules after those whose links are given.
    fn link_after(linked: &[Vec<Link>], modules: Vec<Arc<dyn Module>>) -> Result<Arc<Program>> {
        let mut links = array::with_capacity(modules.len())?;
        for earlier in linked {
            links.push(array::copy_of(earlier)?);
        }
        for (index, module) in modules.iter().enumerate().skip(linked.len()) {
            let (before, name) = (&modules[..index], module.name());
            if before.iter().any(|other| other.name() == name) {
                return Err(Error::new(crate::StatusCode::AlreadyExists, format!("two modules are named @{name}")));
            }
            check_dependencies(&**module, before)?;
            links.push(resolve_imports(&**module, before)?);
        }
        Ok(Arc::new(Program { modules, links }))
    }

    /// The modules, in the order of registration.
    #[must_use]
    pub fn modules(&self) -> &[Arc<dyn Module>] {
        &self.modules
    }

    pub(super) fn links(&self, module: usize) -> &[Link] {
        &self.links[module]
    }

    /// Finds an exported function by its name, with the module's before a dot or, where that is unambiguous, without: index
    /// of the module and ordinal of the export. Later modules are searched first.
    ///
    /// # Errors
    /// NOT_FOUND.
    pub fn lookup(&self, name: &str) -> Result<(usize, u32)> {
        let qualified = name.split_once('.').and_then(|(module_name, function)| {
            let index = self.modules.iter().position(|module| module.name() == module_name)?;
            Some((index, self.modules[index].lookup(Linkage::Export, function)?))
        });
        let found = qualified.or_else(|| {
            let mut modules = self.modules.iter().enumerate().rev();
            modules.find_map(|(index, module)| Some((index, module.lookup(Linkage::Export, name)?)))
        });
        found.ok_or_else(|| Error::not_found(format!("no module exports a function `{name}`{}", self.exports(name))))
    }

    /// Names the functions that the last module exports for callers, for an error: first those that contain the wanted name, in
    /// whatever case, or are contained in it.
    #[cold]
    fn exports(&self, wanted: &str) -> String {
        const NAMED: usize = 16;
        let Some(module) = self.modules.last() else { return String::new() };
        let all = (0..).map_while(|export| module.function(Linkage::Export, export));
        let is_public = |name: &&str| !name.starts_with("__") && !name.contains('$');
        let mut names: Vec<&str> = all.map(|info| info.name).filter(is_public).collect();
        let wanted = wanted.to_ascii_lowercase();
        names.sort_by_key(|name| {
            let name = name.to_ascii_lowercase();
            !name.contains(&wanted) && !wanted.contains(&name)
        });
        names.truncate(NAMED);
        if names.is_empty() { String::new() } else { format!("; @{} exports {}", module.name(), names.join(", ")) }
    }
}

fn check_dependencies(module: &dyn Module, before: &[Arc<dyn Module>]) -> Result<()> {
    for dependency in (0..).map_while(|index| module.dependency(index)) {
        let minimum = dependency.minimum_version;
        let found = before.iter().find(|other| other.name() == dependency.name).map(|other| other.signature().version);
        match found {
            Some(version) if version >= minimum => {}
            _ if dependency.optional => {}
            Some(version) => {
                let exporter = before.iter().find(|other| other.name() == dependency.name);
                return Err(Error::incompatible(format!(
                    "module @{} needs @{} of version {minimum} or later, and version {version} is there{}",
                    module.name(),
                    dependency.name,
                    exporter.map(|exporter| offered(&**exporter)).unwrap_or_default(),
                )));
            }
            None => {
                return Err(Error::not_found(format!("module @{} needs a module @{}", module.name(), dependency.name)));
            }
        }
    }
    Ok(())
}

fn resolve_imports(module: &dyn Module, before: &[Arc<dyn Module>]) -> Result<Vec<Link>> {
    let count = module.signature().import_count as u32;
    let mut links = array::with_capacity(count as usize)?;
    for import in 0..count {
        let Some(wanted) = module.function(Linkage::Import, import) else { continue };
        let found = wanted.name.split_once('.').and_then(|(module_name, function)| {
            let index = before.iter().position(|other| other.name() == module_name)?;
            let convention = wanted.convention().unwrap_or_default();
            let export = before[index].lookup_as(function, &convention)?;
            Some(Link { import, module: index, export })
        });
        match found {
            Some(link) => {
                check_convention(module, &wanted, &*before[link.module], link.export)?;
                links.push(link);
            }
            None if wanted.optional => {}
            None => {
                let exporter = wanted.name.split_once('.').map(|(name, _)| name);
                let exporter = before.iter().find(|other| exporter == Some(other.name()));
                return Err(Error::not_found(format!(
                    "module @{} imports `{}`, which no module exports{}",
                    module.name(),
                    wanted.name,
                    exporter.map(|exporter| offered(&**exporter)).unwrap_or_default(),
                )));
            }
        }
    }
    Ok(links)
}

/// Which versions a module offers, as the end of a message.
fn offered(module: &dyn Module) -> String {
    module.offered_versions().map(|versions| format!("; @{} is there in {versions}", module.name())).unwrap_or_default()
}

fn check_convention(module: &dyn Module, wanted: &FunctionInfo<'_>, exporter: &dyn Module, export: u32) -> Result<()> {
    let found = exporter.function(Linkage::Export, export);
    let found = found.ok_or_else(|| Error::internal(format!("`{}` was found and is not there", wanted.name)))?;
    if wanted.convention()? != found.convention()? {
        return Err(Error::incompatible(format!(
            "module @{} calls `{}` as {}, which is exported as {}{}",
            module.name(),
            wanted.name,
            wanted.calling_convention,
            found.calling_convention,
            offered(exporter),
        )));
    }
    Ok(())
}
