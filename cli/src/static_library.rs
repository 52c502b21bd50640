//! The flag `--static-library`.

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use incarnate_translator::Config;

/// An object file of kernels, and its query functions to link; all of them if none is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticLibraryFile {
    pub(crate) path: PathBuf,
    pub(crate) queries: Vec<String>,
}

impl StaticLibraryFile {
    /// Adds objects to those that a translation links.
    pub(crate) fn add_to(files: &[StaticLibraryFile], config: Config) -> Config {
        files.iter().fold(config, |config, file| {
            let queries: Vec<&str> = file.queries.iter().map(String::as_str).collect();
            config.static_library(&file.path, &queries)
        })
    }
}

impl FromStr for StaticLibraryFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<StaticLibraryFile, Infallible> {
        let is_symbol = |name: &str| {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            name.starts_with(|c: char| is_part(c) && !c.is_ascii_digit()) && name.chars().all(is_part)
        };
        // Text after the sign is part of the path unless it can be a list of C symbols.
        let named = text.rsplit_once('=').filter(|(path, names)| !path.is_empty() && names.split(',').all(is_symbol));
        let (path, queries) =
            named.map_or((text, Vec::new()), |(path, names)| (path, names.split(',').map(str::to_owned).collect()));
        Ok(StaticLibraryFile { path: PathBuf::from(path), queries })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn static_libraries_may_name_their_symbols() {
        let parsed = |text: &str| {
            let StaticLibraryFile { path, queries } = text.parse().unwrap();
            (path.display().to_string(), queries.join(" "))
        };
        for (text, path, queries) in [
            ("k.o", "k.o", ""),
            ("k.o=a_library_query", "k.o", "a_library_query"),
            ("a=b/k.o=_a,b1", "a=b/k.o", "_a b1"),
            ("a=b/k.o", "a=b/k.o", ""),
            ("k.o=1a", "k.o=1a", ""),
            ("k.o=a,", "k.o=a,", ""),
            ("k.o=", "k.o=", ""),
            ("=a", "=a", ""),
        ] {
            assert_eq!(parsed(text), (path.to_owned(), queries.to_owned()), "{text}");
        }
    }
}
