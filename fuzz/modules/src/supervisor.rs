//! Runs cases in child processes, which may crash or hang.
//!
//! A child reads `case SEED LENGTH` and a text of that length, or none where it knows the case by its seed. It writes lines
//! `finding TEXT`, and `end VERIFIED RETURNED FAILED`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::case::Outcome;
use crate::plan::Plan;
use crate::process;

/// The time without a line after which a child hangs, beyond the longest time of a case's calls.
const SILENCE: Duration = Duration::from_secs(30);
/// Cases of a child, which then ends, so that what it leaked does not add up.
const BATCH: usize = 400;

/// Bytes of a child's standard error that are read.
const ERRORS: usize = 1 << 16;

/// What to run.
pub struct Job<'a> {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Returns the text of a seed's case.
    pub text: &'a (dyn Fn(u64) -> String + Sync),
    /// The seeds.
    pub seeds: Box<dyn Iterator<Item = u64> + Send + 'a>,
    /// The time after which no further case begins.
    pub end: Instant,
    /// While this file exists, no case begins.
    pub pause: Option<PathBuf>,
}

/// What was run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases.
    pub cases: u64,
    /// Cases with modules that verify.
    pub verified: u64,
    /// Cases with calls that returned.
    pub ran: u64,
    /// Calls that returned.
    pub returned: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Findings, by seed.
    pub findings: BTreeMap<u64, Vec<String>>,
}

impl Report {
    /// Adds the report of another job.
    pub fn add(&mut self, other: Report) {
        self.cases += other.cases;
        self.verified += other.verified;
        self.ran += other.ran;
        self.returned += other.returned;
        self.failed += other.failed;
        self.findings.extend(other.findings);
    }
}

/// A process that runs cases.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: PathBuf,
    cases: usize,
}

impl Worker {
    fn start(program: &Path, arguments: &[String]) -> io::Result<Worker> {
        let errors = errors_of_next_child();
        let mut command = process::child(program, &errors);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or_else(|| io::Error::other("a child has no pipe"))?;
        Ok(Worker { lines: reader(&mut child), child, input, errors, cases: 0 })
    }

    /// Runs a case; None if the process is gone.
    fn run(&mut self, seed: u64, text: &str, report: &mut Report) -> Result<(), String> {
        self.cases += 1;
        let sent = write!(self.input, "case {seed} {}\n{text}", text.len()).and_then(|()| self.input.flush());
        if let Err(error) = sent {
            return Err(format!("crash: {error}"));
        }
        let silence = SILENCE + Plan::parse(text).longest();
        loop {
            let line = match self.lines.recv_timeout(silence) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Err(format!("hang: {} s without a line", silence.as_secs())),
                Err(RecvTimeoutError::Disconnected) => return Err("crash".to_owned()),
            };
            if let Some(finding) = line.strip_prefix("finding ") {
                note(report, seed, finding);
            } else if let Some(counts) = line.strip_prefix("end ") {
                let mut counts = counts.split(' ').filter_map(|word| word.parse::<u64>().ok());
                report.cases += 1;
                report.verified += counts.next().unwrap_or(0);
                let returned = counts.next().unwrap_or(0);
                report.ran += u64::from(returned > 0);
                report.returned += returned;
                report.failed += counts.next().unwrap_or(0);
                return Ok(());
            }
        }
    }

    /// Ends the process; returns its status and the first lines of what it said.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        let status = self.child.wait();
        let errors = fs::read(&self.errors).unwrap_or_default();
        let errors = String::from_utf8_lossy(errors.get(..ERRORS).unwrap_or(&errors));
        let _ = fs::remove_file(&self.errors);
        let _ = fs::remove_dir_all(process::files_of_child(&self.errors));
        let lines: Vec<&str> = errors.lines().filter(|line| !line.is_empty()).take(4).collect();
        format!("{}: {}", status.map_or_else(|error| error.to_string(), |status| status.to_string()), lines.join(" | "))
    }
}

impl Job<'_> {
    /// Runs the cases, and prints each finding at once.
    ///
    /// # Errors
    /// Errors of starting a child.
    pub fn run(mut self) -> io::Result<Report> {
        let mut report = Report::default();
        let mut worker: Option<Worker> = None;
        while Instant::now() < self.end {
            while self.pause.as_ref().is_some_and(|file| file.exists()) {
                std::thread::sleep(Duration::from_secs(1));
            }
            let Some(seed) = self.seeds.next() else { break };
            let mut running = match worker.take() {
                Some(running) => running,
                None => Worker::start(&self.program, &self.arguments)?,
            };
            match running.run(seed, &(self.text)(seed), &mut report) {
                Ok(()) if running.cases < BATCH => worker = Some(running),
                Ok(()) => drop(running.end()),
                Err(how) => {
                    // A process that crashed has said why.
                    std::thread::sleep(Duration::from_millis(100));
                    report.cases += 1;
                    let status = running.end();
                    note(&mut report, seed, &format!("{how}: {status}"));
                }
            }
        }
        worker.map(Worker::end);
        Ok(report)
    }
}

/// Returns a file that no other child has.
fn errors_of_next_child() -> PathBuf {
    let file = tempfile::Builder::new().prefix("incarnate-module-fuzz-").suffix(".errors").tempfile();
    // Without a temporary folder the child's errors go to a file that cannot be created either, which is reported.
    file.and_then(|file| Ok(file.keep()?.1))
        .unwrap_or_else(|_| std::env::temp_dir().join("incarnate-module-fuzz.errors"))
}

/// Returns the lines that a child prints.
fn reader(child: &mut Child) -> Receiver<String> {
    let (send, receive) = channel();
    if let Some(output) = child.stdout.take() {
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| send.send(line).is_ok());
        });
    }
    receive
}

/// Runs the cases that a process is told to run: the loop of a child.
///
/// # Errors
/// Errors of reading and writing.
pub fn serve(run: &dyn Fn(u64, &str) -> Outcome) -> io::Result<()> {
    let (mut input, mut out) = (io::stdin().lock(), File::options().write(true).open(process::TO_SUPERVISOR)?);
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (seed, length) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let mut text = String::new();
        input.by_ref().take(length).read_to_string(&mut text)?;
        let outcome = run(seed, &text);
        for finding in &outcome.findings {
            writeln!(out, "finding {}", finding.replace('\n', " | "))?;
        }
        let (returned, failed) = outcome.counts();
        writeln!(out, "end {} {returned} {failed}", u8::from(outcome.is_verified))?;
        line.clear();
    }
    Ok(())
}

fn note(report: &mut Report, seed: u64, text: &str) {
    println!("seed {seed}: {text}");
    let _ = io::stdout().flush();
    report.findings.entry(seed).or_default().push(text.to_owned());
}
