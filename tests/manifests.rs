//! Checks the manifests of all workspaces of the repository, and that `tests/README.md` has a line for every suite of tests that
//! they declare. Not where Windows is emulated, which cannot start the cargo of the host.
#![cfg(unix)]
#![allow(clippy::expect_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package of one of the workspaces.
struct Package {
    /// What cargo says about it.
    data: Value,
    /// Whether it is a member of the workspace of the root.
    is_main: bool,
}

impl Package {
    fn text(&self, field: &str) -> &str {
        self.data[field].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.text("name")
    }

    fn folder(&self) -> &Path {
        Path::new(self.text("manifest_path")).parent().expect("a folder")
    }

    fn is_published(&self) -> bool {
        self.data["publish"].is_null()
    }

    /// The items of a list.
    fn list(&self, field: &str) -> impl Iterator<Item = &Value> {
        self.data[field].as_array().into_iter().flatten()
    }

    /// The names of its targets of a kind.
    fn targets<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        let is_of_kind =
            move |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&kind.into()));
        self.list("targets").filter(is_of_kind).filter_map(|target| target["name"].as_str())
    }

    /// Whether a file of `src` contains unit tests.
    fn has_unit_tests(&self) -> bool {
        let mut files = Vec::new();
        files_beneath(&self.folder().join("src"), "rs", &mut files);
        files.iter().any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("#[test]")))
    }
}

/// The root of the repository.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().find(|folder| folder.join("Cargo.lock").exists()).expect("a workspace").to_owned()
}

/// Finds the files with an extension beneath a folder, without hidden folders and what tools write.
fn files_beneath(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with(['.', '_']) && !name.starts_with("work") && !["target", "node_modules"].contains(&name)
            {
                files_beneath(&path, extension, found);
            }
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
}

/// The packages of all workspaces. A workspace is where a lock file is.
fn packages() -> Vec<Package> {
    let root = root();
    let mut locks = Vec::new();
    files_beneath(&root, "lock", &mut locks);
    locks.retain(|path| path.ends_with("Cargo.lock"));
    assert!(locks.len() > 5, "only {locks:?} were found");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut packages = Vec::new();
    for lock in &locks {
        let manifest = lock.with_extension("toml");
        let arguments = ["metadata", "--no-deps", "--offline", "--format-version=1", "--manifest-path"];
        let output = Command::new(&cargo).args(arguments).arg(&manifest).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let is_main = manifest == root.join("Cargo.toml");
        let members = metadata["packages"].as_array().expect("packages");
        packages.extend(members.iter().map(|data| Package { data: data.clone(), is_main }));
    }
    packages
}

/// The package of the library, whose version and oldest Rust are those of all.
fn main_package(packages: &[Package]) -> &Package {
    packages.iter().find(|package| package.name() == "incarnate").expect("the package incarnate")
}

#[test]
fn packages_have_one_version() {
    let packages = packages();
    let version = main_package(&packages).text("version");
    let mut wrong = Vec::new();
    for package in &packages {
        // The version of the extension is that of the wheels.
        if (package.is_main || package.name() == "incarnate-python") && package.text("version") != version {
            wrong.push(format!("{} has version {}", package.name(), package.text("version")));
        }
        for dependency in package.list("dependencies") {
            let requirement = dependency["req"].as_str().unwrap_or_default();
            let is_ours = dependency["path"].is_string();
            if is_ours && requirement != "*" && requirement != format!("^{version}") {
                wrong.push(format!("{} requires {} {requirement}", package.name(), dependency["name"]));
            }
            let is_needed = dependency["kind"] != "dev";
            if is_ours && is_needed && package.is_published() && requirement == "*" {
                wrong.push(format!(
                    "{} does not say which version of {} it requires",
                    package.name(),
                    dependency["name"]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "the version is {version}, but\n{}", wrong.join("\n"));

    let log = fs::read_to_string(root().join("CHANGELOG.md")).expect("CHANGELOG.md");
    let newest = log.lines().find_map(|line| line.strip_prefix("## ")).expect("a section");
    let newest = newest.split_whitespace().next().unwrap_or_default();
    assert!(["Unreleased", version].contains(&newest), "CHANGELOG.md begins with {newest}, the version is {version}");
}

#[test]
fn packages_have_one_oldest_rust() {
    let packages = packages();
    let oldest = main_package(&packages).text("rust_version");
    for package in &packages {
        assert_eq!(package.text("rust_version"), oldest, "the rust-version of {}", package.name());
    }
    for file in ["README.md", "CONTRIBUTING.md", "docs/shipping.md"] {
        let text = fs::read_to_string(root().join(file)).expect("a text file");
        assert!(text.contains(&format!("Rust {oldest} or newer")), "{file} does not say 'Rust {oldest} or newer'");
    }
}

#[test]
fn published_packages_describe_themselves() {
    let packages = packages();
    let published: Vec<&Package> = packages.iter().filter(|package| package.is_published()).collect();
    assert!(published.len() > 10, "only {} packages are published", published.len());
    for package in published {
        for field in ["description", "license", "repository", "readme"] {
            assert!(!package.text(field).is_empty(), "{} has no {field}", package.name());
        }
        for list in ["keywords", "categories"] {
            assert!(package.list(list).next().is_some(), "{} has no {list}", package.name());
        }
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            assert!(package.folder().join(license).exists(), "{} lacks {license}", package.name());
        }
    }
}

#[test]
fn every_suite_is_on_the_map() {
    let map = fs::read_to_string(root().join("tests/README.md")).expect("tests/README.md");
    // The first cell of each row names the suite, the last one has the command.
    let rows: Vec<Vec<&str>> = map
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches(['|', ' ']).split(" | ").collect())
        .collect();
    let listed: BTreeSet<&str> = rows.iter().filter_map(|row| row.first().copied()).collect();
    assert_eq!(listed.len(), rows.len(), "tests/README.md has a suite twice");

    let mut suites = BTreeSet::new();
    for package in packages() {
        for kind in ["test", "bench"] {
            suites.extend(package.targets(kind).map(|target| format!("`{}` `{target}`", package.name())));
        }
        if package.data["metadata"]["cargo-fuzz"] == true {
            suites.extend(package.targets("bin").map(|target| format!("`{}` `{target}`", package.name())));
        }
        if package.has_unit_tests() {
            suites.insert(format!("`{}`", package.name()));
        }
    }
    let mut scripts = Vec::new();
    files_beneath(&root().join("python/tests"), "py", &mut scripts);
    for script in scripts {
        let name = script.strip_prefix(root()).expect("a file of the repository").to_str().expect("a name in Unicode");
        if script.file_name().and_then(|file| file.to_str()).is_some_and(|file| file.starts_with("test_")) {
            suites.insert(format!("`{}`", name.replace('\\', "/")));
        }
    }
    assert!(suites.len() > 50, "only {} suites were found", suites.len());

    let missing: Vec<&String> = suites.iter().filter(|suite| !listed.contains(suite.as_str())).collect();
    assert!(missing.is_empty(), "tests/README.md lacks {missing:?}");
    let is_of_cargo = |suite: &&&str| suite.starts_with("`incarnate") || suite.ends_with(".py`");
    let unknown: Vec<&&str> = listed.iter().filter(is_of_cargo).filter(|suite| !suites.contains(**suite)).collect();
    assert!(unknown.is_empty(), "tests/README.md has suites that do not exist: {unknown:?}");
    for row in &rows {
        assert_eq!(row.len(), 3, "the row of {} has three cells", row[0]);
    }
}
