//! The sources of Incarnate that programs are built with.

use std::path::{Path, PathBuf};

use incarnate_runtime::{Error, Result};

/// Environment variable that names a workspace of Incarnate.
const VARIABLE: &str = "INCARNATE_SOURCE";
/// The package of this command line, a folder of the workspace that it was built from.
const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
/// The version of the crate.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The location of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Sources {
    /// A workspace.
    Workspace(PathBuf),
    /// The registry.
    Registry,
}

impl Sources {
    /// Returns the workspace that the flag or the environment names; or else the one that this command line was built
    /// from, if it exists; or else the registry.
    ///
    /// # Errors
    /// NOT_FOUND if the named path is not a workspace.
    pub(in super::super) fn find(named: Option<&Path>) -> Result<Sources> {
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = named.map(Path::to_owned).or(variable) {
            return match std::path::absolute(&path) {
                Ok(absolute) if is_workspace(&absolute) => Ok(Sources::Workspace(absolute)),
                _ => Err(Error::not_found(format!("'{}' is not a workspace of incarnate {VERSION}", path.display()))),
            };
        }
        Ok(match own() {
            Some(own) if is_workspace(own) => Sources::Workspace(own.to_owned()),
            _ => Sources::Registry,
        })
    }

    /// Returns the dependency with some features in a manifest, without the table's name.
    pub(in super::super) fn dependency(&self, features: &[&str]) -> String {
        let place = match self {
            Sources::Workspace(path) => format!("path = {}", toml(&path.display().to_string())),
            Sources::Registry => format!("version = \"={VERSION}\""),
        };
        let features: Vec<String> = features.iter().map(|feature| format!("\"{feature}\"")).collect();
        format!("incarnate = {{ {place}, default-features = false, features = [{}] }}", features.join(", "))
    }

    /// Returns the lock file with the versions for programs.
    pub(in super::super) fn lock(&self) -> Option<PathBuf> {
        match self {
            Sources::Workspace(path) => Some(path.join("Cargo.lock")).filter(|lock| lock.is_file()),
            Sources::Registry => None,
        }
    }
}

/// Returns the workspace that this command line was built from, if there is one.
fn own() -> Option<&'static Path> {
    Path::new(PACKAGE).parent()
}

/// Returns true if a folder contains the crate in this version.
fn is_workspace(path: &Path) -> bool {
    let Ok(manifest) = std::fs::read_to_string(path.join("Cargo.toml")) else { return false };
    let has = |wanted: &str| manifest.lines().any(|line| line.trim() == wanted);
    has("name = \"incarnate\"") && has(&format!("version = \"{VERSION}\""))
}

/// Formats a TOML string.
fn toml(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_of_this_build_is_found() {
        let own = own().unwrap();
        assert!(is_workspace(own));
        let absolute = std::path::absolute(own).unwrap();
        assert_eq!(Sources::find(Some(own)).unwrap(), Sources::Workspace(absolute));
        let error = Sources::find(Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("'/nowhere' is not a workspace of incarnate"), "{error}");
    }

    #[test]
    fn dependencies_are_toml() {
        let sources = Sources::Workspace("/a \"b\\c".into());
        assert!(
            sources.dependency(&["program"]).contains(r#"path = "/a \"b\\c""#),
            "{}",
            sources.dependency(&["web", "half"])
        );
        assert!(Sources::Registry.dependency(&["program"]).contains(&format!("version = \"={VERSION}\"")));
    }
}
