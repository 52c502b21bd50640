//! Checks the Markdown files of the repository: relative links lead to files and headings that exist, the guide's summary lists every
//! chapter, and Rust examples of the guide are tests. `cli_guide` of incarnate-cli runs its console examples.
#![allow(clippy::expect_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// What the names of environment variables begin with.
const VARIABLE: &str = "INCARNATE_";

/// A Markdown file: its lines outside of code blocks.
struct Page {
    lines: Vec<String>,
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).expect("a text file");
        let mut in_code = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if !in_code && !line.starts_with("    ") {
                lines.push(line.to_owned());
            }
        }
        Page { lines }
    }

    /// The targets of its links and images: what stands in the parentheses of `[text](target)`.
    fn links(&self) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .flat_map(|line| line.split("](").skip(1))
            .filter_map(|rest| rest.split_once(')'))
            .map(|it| it.0)
    }

    /// The anchors of its headings, as GitHub derives them.
    fn anchors(&self) -> impl Iterator<Item = String> {
        let headings = self.lines.iter().filter(|line| line.starts_with('#'));
        headings.map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).expect("a workspace").to_owned()
}

/// Every Markdown file beneath a folder, without hidden folders, build outputs and packages of npm.
fn pages(folder: &Path, found: &mut BTreeMap<PathBuf, Page>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules"].contains(&name) {
                pages(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = Page::read(&path);
            found.insert(path, page);
        }
    }
}

/// Finds the names that begin with `INCARNATE_` in the files beneath a folder that `is_wanted` selects.
fn variables(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !matches!(name, ".git" | "target" | "corpus" | "work") {
                variables(&path, is_wanted, found);
            }
        } else if is_wanted(&path)
            && let Ok(text) = fs::read_to_string(&path)
        {
            for rest in text.split(VARIABLE).skip(1) {
                let is_of_name = |c: &char| c.is_ascii_uppercase() || *c == '_';
                let name: String = rest.chars().take_while(is_of_name).collect();
                if !name.is_empty() {
                    found.insert(format!("{VARIABLE}{name}"));
                }
            }
        }
    }
}

/// Resolves `.` and `..` of a path by its text.
fn normalized(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

#[test]
fn relative_links_resolve() {
    let mut all = BTreeMap::new();
    pages(&root(), &mut all);
    let mut broken = Vec::new();
    let mut checked = 0;
    for (path, page) in &all {
        for link in page.links().filter(|link| !link.contains("://")) {
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => normalized(&path.with_file_name(file)),
            };
            let exists = target.exists();
            let has_anchor =
                anchor.is_empty() || all.get(&target).is_some_and(|page| page.anchors().any(|it| it == anchor));
            if !exists || !has_anchor {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(checked > 50, "only {checked} links were found");
}

#[test]
fn the_summary_lists_every_chapter() {
    let folder = root().join("docs");
    let mut chapters = BTreeMap::new();
    pages(&folder, &mut chapters);
    let summary = chapters.remove(&folder.join("SUMMARY.md")).expect("docs/SUMMARY.md");
    for path in chapters.keys() {
        let name = path.strip_prefix(&folder).expect("a chapter").to_str().expect("a name in Unicode");
        assert!(
            summary.links().any(|link| link.split('#').next() == Some(name)),
            "docs/SUMMARY.md does not list {name}"
        );
    }
}

#[test]
fn rust_examples_are_tests() {
    let library = fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs");
    let mut chapters = BTreeMap::new();
    pages(&root().join("docs"), &mut chapters);
    let mut count = 0;
    for path in chapters.keys().cloned().chain([root().join("README.md")]) {
        // Blocks with a mark such as `rust,ignore` are excerpts.
        let text = fs::read_to_string(&path).expect("a page");
        if text.lines().any(|line| line == "```rust") {
            count += 1;
            let name = path.strip_prefix(root()).expect("a page of ours").to_str().expect("a name in Unicode");
            let include = format!("include_str!(\"../{}\")", name.replace('\\', "/"));
            assert!(library.contains(&include), "src/lib.rs does not run the examples of {name}: {include}");
        }
    }
    assert!(count > 4, "only {count} pages with examples were found");
}

#[test]
fn the_list_of_environment_variables_is_complete() {
    let list = root().join("docs/environment.md");
    let (mut used, mut listed) = (BTreeSet::new(), BTreeSet::new());
    let is_source = |path: &Path| {
        // Scripts have no extension; their names are those of commands.
        path.extension().is_none_or(|extension| ["rs", "sh", "py", "mjs", "js"].iter().any(|it| extension == *it))
    };
    variables(&root(), &is_source, &mut used);
    variables(&root().join("docs"), &|path| path == list, &mut listed);
    assert!(used.len() > 5, "only {used:?} were found");
    assert_eq!(used, listed, "docs/environment.md does not list the variables that the source names");
}
