//! Makes a case smaller as long as it has the same finding.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use incarnate_module_fuzz::{case, process};

/// The time of a run, after which it hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// Removes calls of the plan, and lines of functions, one group after the other.
pub(crate) fn minimize(text: &str, program: &Path) -> Result<String, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("case.vmasm");
    let kind = |text: &str| -> Result<String, Box<dyn Error>> {
        std::fs::write(&file, text)?;
        finding(program, &file)
    };
    let wanted = kind(text)?;
    eprintln!("{wanted}");
    if wanted.is_empty() {
        return Err("the case has no finding".into());
    }
    let mut best = text.to_owned();
    loop {
        let before = best.len();
        for candidate in [calls, lines] {
            let mut position = 0;
            let mut size = 16;
            while size > 0 {
                match candidate(&best, position, size) {
                    None => {
                        position = 0;
                        size /= 2;
                    }
                    Some(smaller) if case::module(&smaller).is_ok() && kind(&smaller)? == wanted => best = smaller,
                    Some(_) => position += size,
                }
            }
        }
        if best.len() == before {
            let _ = std::fs::remove_file(&file);
            return Ok(best);
        }
    }
}

/// Returns the first word of a case's finding, or how its process ends.
fn finding(program: &Path, file: &Path) -> Result<String, Box<dyn Error>> {
    let mut command = process::limited(program);
    let mut child = command.arg("--run").arg(file).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let end = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(Duration::from_millis(2)),
            None => {
                child.kill()?;
                child.wait()?;
                return Ok("hang".to_owned());
            }
        }
    };
    let mut output = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut output)?;
    }
    if status.code().is_none_or(|code| code > 2) {
        return Ok(format!("crash: {status}"));
    }
    let line = output.lines().find_map(|line| line.strip_prefix("finding "));
    Ok(line.and_then(|line| line.split(' ').next()).unwrap_or_default().to_owned())
}

/// Removes calls from the plan.
fn calls(text: &str, position: usize, size: usize) -> Option<String> {
    let mut index = 0;
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some(calls) = line.strip_prefix("// calls ") else {
            lines.push(line.to_owned());
            continue;
        };
        let kept: Vec<&str> = calls
            .split(' ')
            .filter(|_| {
                index += 1;
                !(position..position + size).contains(&(index - 1))
            })
            .collect();
        if !kept.is_empty() {
            lines.push(format!("// calls {}", kept.join(" ")));
        }
    }
    (position < index).then(|| lines.join("\n") + "\n")
}

/// Removes lines that may go: all but the plan's and the module's first one.
fn lines(text: &str, position: usize, size: usize) -> Option<String> {
    let mut index = 0;
    let kept: Vec<&str> = text
        .lines()
        .filter(|line| {
            let is_fixed = line.starts_with("//") || line.starts_with("vm.module") || line.starts_with("vm.rodata");
            index += usize::from(!is_fixed);
            is_fixed || !(position..position + size).contains(&(index - 1))
        })
        .collect();
    (position < index).then(|| kept.join("\n") + "\n")
}
