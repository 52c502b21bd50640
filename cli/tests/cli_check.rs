//! `incarnate check` over folders.
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

#[path = "support/checks.rs"]
mod checks;
#[path = "support/program.rs"]
mod program;

/// Creates a folder with two subfolders, each with a module of tests, one of which fails, and a file that is not a
/// module.
fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("check-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    let function =
        |name: &str, body: &str| format!("vm.export @{name}\nvm.func @{name}() -> () {{\n^bb0:\n{body}\n}}\n");
    let good =
        function("fine", "  vm.return") + &function("fail_well", "  %i0 = vm.const.i32 3\n  vm.fail %i0, \"so\"");
    let bad = function("wrong", "  %i0 = vm.const.i32 3\n  vm.fail %i0, \"<so>\"");
    let none = "vm.export @takes\nvm.func @takes(%i0: i32) -> () {\n^bb0:\n  vm.return\n}\n".to_owned();
    for (name, text) in [("b/good.vmfb", &good), ("a/bad.vmfb", &bad), ("a/c/good.vmfb", &good), ("b/none.vmfb", &none)]
    {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let module = incarnate_runtime::bytecode::assemble(&format!("vm.module @tests version 0\nvm.type i32\n{text}"));
        fs::write(path, module.expect("sound assembly")).expect("a module");
    }
    fs::write(folder.join("a/readme.txt"), "no module").expect("a file");
    folder
}

fn check(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = program::incarnate();
    command.current_dir(folder).arg("check").args(arguments).output().expect("the command line starts")
}

#[test]
fn folders_are_checked_in_order_by_any_number_of_jobs() {
    let folder = folder();
    for jobs in ["--jobs=1", "--jobs=3", "-j2"] {
        let output = check(&folder, &[".", "b/good.vmfb", jobs, "--junit=report.xml"]);
        assert_eq!(output.status.code(), Some(1));
        let with_slashes = |text: &[u8]| String::from_utf8_lossy(text).replace(std::path::MAIN_SEPARATOR, "/");
        let text = with_slashes(&output.stdout);
        let lines: Vec<&str> = text.lines().collect();
        let names: Vec<&str> = lines.iter().map(|line| line.split(": ").next().unwrap_or_default()).collect();
        assert_eq!(
            names[..8],
            [
                "FAIL ./a/bad.vmfb @wrong",
                "PASS ./a/c/good.vmfb @fine",
                "PASS ./a/c/good.vmfb @fail_well",
                "PASS ./b/good.vmfb @fine",
                "PASS ./b/good.vmfb @fail_well",
                "SKIP ./b/none.vmfb",
                "PASS b/good.vmfb @fine",
                "PASS b/good.vmfb @fail_well",
            ]
        );
        assert!(lines[8].starts_with("5 files, of which 1 have failures, in "), "{text}");
        assert_eq!(lines[9..], ["6 passed, 1 failed"]);
        // Without a terminal on standard error there is no progress line.
        let error = with_slashes(&output.stderr);
        assert!(
            error.starts_with("incarnate check: 1 of 7 failed; ./a/bad.vmfb @wrong: INVALID_ARGUMENT; <so>"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1);
        let report = fs::read_to_string(folder.join("report.xml")).expect("the report");
        assert_eq!(report.matches("<testsuite ").count(), 5);
        assert_eq!(report.matches("<testcase ").count(), 8);
        assert!(report.contains("<failure message=\"INVALID_ARGUMENT; &lt;so&gt;; at @tests.wrong+0x"), "{report}");
    }
}

fn on_one_line(texts: &[&str]) -> String {
    texts.iter().flat_map(|text| text.lines()).map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn all_unmet_expectations_are_reported() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-expectations");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("tests.vmfb"), checks::module(None)).expect("a module");
    let output = check(&folder, &["tests.vmfb"]);
    assert_eq!(output.status.code(), Some(1));
    let (nonzero, zero) = (
        "Value of: operand\n  Actual: false\nExpected: true\nExpected 0 to be nonzero.",
        "Value of: operand\n  Actual: true\nExpected: false\nExpected 3 to be zero.",
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = format!(
        "PASS tests.vmfb @met\nFAIL tests.vmfb @unmet: {nonzero}\n{zero}\n\
         FAIL tests.vmfb @unmet_and_fails: {nonzero}\nINVALID_ARGUMENT; so; at @tests.unmet_and_fails+0x"
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("PASS tests.vmfb @fail_unmet\n2 passed, 2 failed\n"), "{text}");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(
        error,
        format!("incarnate check: 2 of 4 failed; tests.vmfb @unmet: {}\n", on_one_line(&[nonzero, zero]))
    );
}

#[test]
fn folders_without_modules_are_mistakes() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("check-empty");
    fs::create_dir_all(&folder).expect("a folder");
    let output = check(&folder, &["."]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "incarnate check: NOT_FOUND; no .vmfb file in '.'\n");
    // A file without tests is no failure.
    let folder = self::folder();
    fs::create_dir_all(folder.join("none")).expect("a folder");
    fs::rename(folder.join("b/none.vmfb"), folder.join("none/none.vmfb")).expect("a file");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
    let (named, found) = (check(&folder, &["none/none.vmfb"]), check(&folder, &["none"]));
    assert_eq!((named.status.code(), text(&named).as_deref()), (Some(0), Some("0 passed, 0 failed")));
    assert_eq!((found.status.code(), text(&found).as_deref()), (Some(0), Some("0 passed, 0 failed")));
    assert_eq!(check(&folder, &[".", "--jobs=0"]).status.code(), Some(2));
}
