//! Every single-call case of tests/models, through the command line.
#![allow(clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use incarnate_runtime::bytecode::executable_format::{ARCHITECTURE, SYSTEM_PREFIX};
use program::native::{foreign_formats, is_foreign_plugin};

#[path = "support/program.rs"]
mod program;

/// A call of a case: its flags, and the expected status if that is a failure.
#[derive(Debug, Default)]
struct Call {
    flags: Vec<String>,
    fails: Option<String>,
}

/// Flags before the calls of a case, which apply to each of them, besides plugins.
const OF_CASES: [&str; 3] = ["--module=", "--device=", "--parameters="];

/// Parses the calls in a `cases.txt`; tests/models/README.md documents its format.
fn cases(text: &str) -> Vec<(String, Vec<Call>)> {
    let mut cases: Vec<(String, Vec<Call>)> = Vec::new();
    let mut flags = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            cases.push((name.to_owned(), Vec::new()));
            flags.clear();
            continue;
        }
        let (_, calls) = cases.last_mut().expect("a case before its lines");
        if line.starts_with("--executable_plugin=") {
            flags.push(program::native::native(line));
            continue;
        }
        if OF_CASES.iter().any(|flag| line.starts_with(flag)) {
            flags.push(line.to_owned());
            continue;
        }
        if line.starts_with("--function=") {
            calls.push(Call { flags: flags.clone(), fails: None });
        }
        let call = calls.last_mut().expect("a function before its arguments");
        match line.strip_prefix("fails ") {
            Some(status) => call.fails = Some(status.to_owned()),
            None => call.flags.push(line.to_owned()),
        }
    }
    cases
}

fn incarnate(folder: &Path, arguments: &[String]) -> Output {
    program::incarnate().current_dir(folder).args(arguments).output().expect("the command line starts")
}

/// Describes the error in the outcome of a call, if there is one.
fn fault(call: &Call, output: &Output) -> Option<String> {
    let error = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code();
    match &call.fails {
        None if code == Some(0) => None,
        None => Some(format!("ended with {code:?}: {error}")),
        Some(status) if code == Some(1) && error.contains(&format!(": {status}; ")) && error.lines().count() == 1 => {
            None
        }
        Some(status) => Some(format!("should fail with {status}, ended with {code:?}: {error}")),
    }
}

#[test]
fn cases_of_one_call_pass() {
    let models = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let (mut passed, mut faults) = (0, Vec::new());
    for folder in fs::read_dir(models).expect("the models").map(|entry| entry.expect("an entry").path()) {
        let Ok(text) = fs::read_to_string(folder.join("cases.txt")) else { continue };
        let files = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        for module in files.filter(|file| file.extension().is_some_and(|e| e == "vmfb" || e == "module")) {
            if let Some(formats) = foreign_formats(&fs::read(&module).expect("a module"), ARCHITECTURE, SYSTEM_PREFIX) {
                println!("skipped: {} has kernels for {formats} only", module.display());
                continue;
            }
            for (name, calls) in cases(&text) {
                let [call] = calls.as_slice() else { continue };
                let mut plugins = call.flags.iter().filter_map(|flag| flag.strip_prefix("--executable_plugin="));
                if let Some(plugin) = plugins.find(|plugin| is_foreign_plugin(Path::new(plugin))) {
                    println!("skipped: case {name} needs {plugin}");
                    continue;
                }
                let module_flag = format!("--module={}", module.display());
                // Imported modules come first.
                let at = 1 + call.flags.iter().take_while(|flag| flag.starts_with("--module=")).count();
                let mut arguments = vec!["run".to_owned()];
                arguments.extend(call.flags.iter().cloned());
                arguments.insert(at, module_flag);
                match fault(call, &incarnate(&folder, &arguments)) {
                    None => passed += 1,
                    Some(fault) => faults.push(format!("{} [{name}] {fault}", module.display())),
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), faults.len() + passed, faults.join("\n"));
    assert!(passed > 0, "no case was found");
}
