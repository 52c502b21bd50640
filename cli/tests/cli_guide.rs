//! The console examples of the README and of the guide: each command prints what the page shows, and every flag that a page names exists.
//!
//! A block whose fence says `console` is run, in a folder with the modules `mul.vmfb` (machine code) and `vmvx.vmfb` (portable) of the
//! model that the guide shows. In the place of IREE's compiler stands a program that writes the former. A line `...` stands for any
//! lines, `...` at the end of a line for any text. Of `console,measured`, numbers and units of time may differ. Blocks that need
//! something else (a network, another program, minutes) say `console,ignore`; their flags are checked as well.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use scratch::Scratch;

#[path = "support/scratch.rs"]
mod scratch;

/// The command line under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_incarnate");

/// A block of a page.
struct Block {
    /// The page, and the line where the block begins.
    location: String,
    /// What its fence says behind `console`.
    mark: String,
    commands: Vec<Example>,
}

/// A command, and the lines that a page shows below it.
struct Example {
    command: String,
    shown: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace").to_owned()
}

/// Returns the console blocks of a page.
fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).expect("a page");
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, fence)) = lines.next() {
        let Some(mark) = fence.strip_prefix("```console") else { continue };
        let mut commands: Vec<Example> = Vec::new();
        for (_, line) in lines.by_ref().take_while(|(_, line)| *line != "```") {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push(Example { command: command.to_owned(), shown: Vec::new() }),
                // A line that ends with a backslash goes on in the next one.
                (None, Some(last)) if last.shown.is_empty() && last.command.ends_with('\\') => {
                    last.command.pop();
                    last.command.push_str(line.trim_start());
                }
                (None, Some(last)) => last.shown.push(line.to_owned()),
                (None, None) => panic!("{}:{}: output without a command", page.display(), number + 1),
            }
        }
        let location = format!("{}:{}", page.strip_prefix(root()).expect("a page of ours").display(), number + 1);
        blocks.push(Block { location, mark: mark.trim_start_matches(',').to_owned(), commands });
    }
    blocks
}

/// Returns the console blocks of the README and of the guide.
fn all_blocks() -> Vec<Block> {
    let mut pages: Vec<PathBuf> = fs::read_dir(root().join("docs"))
        .expect("docs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages.iter().flat_map(|page| blocks(page)).collect()
}

/// Creates the folder that the examples run in.
fn folder() -> Scratch {
    let scratch = Scratch::new("guide");
    let (folder, fixtures) = (&scratch.0, root().join("cli/tests/guide"));
    for name in ["mul.vmfb", "vmvx.vmfb"] {
        fs::copy(fixtures.join(name), folder.join(name)).expect("a module");
    }
    fs::write(folder.join("mul.mlir"), "module {}").expect("a model");
    for name in ["bmod", "tests"] {
        symlink(root().join(name), folder.join(name)).expect("a link");
    }
    let programs = folder.join("programs");
    fs::create_dir(&programs).expect("a folder");
    symlink(PROGRAM, programs.join("incarnate")).expect("a link");
    let module = fixtures.join("mul.vmfb");
    let compiler = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\nwhile [ \"$1\" != -o ]; do shift; done\ncp '{}' \"$2\"\n",
        module.display()
    );
    fs::write(programs.join("iree-compile"), compiler).expect("a program");
    fs::set_permissions(programs.join("iree-compile"), fs::Permissions::from_mode(0o755)).expect("permissions");
    scratch
}

/// Runs a command by the shell, after one that ended with a status. Returns the new status, and what it printed.
fn run(folder: &Path, command: &str, status: i32) -> (i32, String) {
    let output = Command::new("/bin/sh")
        .arg("-c")
        .arg(format!("exec 2>&1; (exit {status}); {command}"))
        .current_dir(folder)
        .env("PATH", format!("{}:/usr/bin:/bin", folder.join("programs").display()))
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env_remove("IREE_COMPILE")
        .output()
        .expect("a shell");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a printed line is the one that a page shows.
fn is_shown(line: &str, shown: &str, is_measured: bool) -> bool {
    if let Some(start) = shown.strip_suffix("...") {
        return line.starts_with(start);
    }
    if !is_measured {
        return line == shown;
    }
    let is_unit = |word: &str| ["ns", "us", "ms", "s"].contains(&word.trim_end_matches('.'));
    let is_varying = |word: &str| is_unit(word) || word.contains(|c: char| c.is_ascii_digit()) || word.starts_with('#');
    let (words, shown): (Vec<_>, Vec<_>) = (line.split_whitespace().collect(), shown.split_whitespace().collect());
    let agree = |(word, shown): (&&str, &&str)| word == shown || (is_varying(word) && is_varying(shown));
    words.len() == shown.len() && words.iter().zip(&shown).all(agree)
}

/// Whether printed lines are those that a page shows.
fn are_shown(lines: &[&str], shown: &[String], is_measured: bool) -> bool {
    match (lines, shown) {
        ([], []) => true,
        (_, [any, rest @ ..]) if any == "..." => {
            (0..=lines.len()).any(|skipped| are_shown(&lines[skipped..], rest, is_measured))
        }
        ([line, lines @ ..], [first, rest @ ..]) => {
            is_shown(line, first, is_measured) && are_shown(lines, rest, is_measured)
        }
        _ => false,
    }
}

#[test]
fn examples_print_what_pages_show() {
    let scratch = folder();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for block in all_blocks() {
        let is_measured = match block.mark.as_str() {
            "" => false,
            "measured" => true,
            "ignore" => continue,
            other => panic!("{}: the mark '{other}' is neither 'ignore' nor 'measured'", block.location),
        };
        let mut status = 0;
        for Example { command, shown } in &block.commands {
            count += 1;
            // Nothing else is started: a block with other programs has a mark.
            let program = command.split_whitespace().next().unwrap_or_default();
            if !["incarnate", "echo"].contains(&program) || command.contains(['|', '&', ';', '>']) {
                wrong.push(format!("{}: $ {command}\nneeds the mark `console,ignore`", block.location));
                continue;
            }
            let printed;
            (status, printed) = run(&scratch.0, command, status);
            let lines: Vec<&str> = printed.lines().collect();
            let is_right = if shown.is_empty() { status == 0 } else { are_shown(&lines, shown, is_measured) };
            if !is_right {
                wrong.push(format!("{}: $ {command}\n{printed}(status {status})", block.location));
            }
        }
    }
    assert!(wrong.is_empty(), "{} examples print something else:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(count > 10, "only {count} examples were found");
}

#[test]
fn flags_of_examples_exist() {
    let mut texts = BTreeMap::new();
    let (mut unknown, mut count) = (Vec::new(), 0);
    for block in all_blocks() {
        for Example { command, .. } in &block.commands {
            let words: Vec<&str> = command.split(" #").next().unwrap_or_default().split_whitespace().collect();
            let ["incarnate", name, arguments @ ..] = words.as_slice() else { continue };
            // One command has commands of its own.
            let names: Vec<&str> = match (name, arguments) {
                (&"parameters", [inner, ..]) => vec![name, inner],
                _ => vec![name],
            };
            let help = texts.entry(names.join(" ")).or_insert_with(|| {
                let output = Command::new(PROGRAM).args(&names).arg("--help").output().expect("the command line");
                String::from_utf8_lossy(&output.stdout).into_owned()
            });
            for flag in arguments.iter().filter(|word| word.starts_with("--")) {
                count += 1;
                let flag = flag.split('=').next().unwrap_or_default();
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
                if !help.split(is_end).any(|word| word == flag) {
                    unknown.push(format!("{}: `incarnate {}` has no flag {flag}", block.location, names.join(" ")));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(count > 20, "only {count} flags were found");
}
