//! Runs cases in child processes, which may crash or hang.
//!
//! A child prints `begin SEED` before a case, then lines `finding TEXT`, and `end SEED RETURNED FAILED`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::process;

/// The time without a line after which a child hangs.
const SILENCE: Duration = Duration::from_secs(30);
/// Cases of a child, which then ends, so that what it leaked does not add up.
const BATCH: u64 = 400;

/// What to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program, and the arguments before those of [`Job::range`].
    pub program: PathBuf,
    /// Arguments before the range's.
    pub arguments: Vec<String>,
    /// The first case and the one behind the last.
    pub range: (u64, u64),
    /// The distance between cases.
    pub step: u64,
    /// The time after which no further case begins.
    pub end: Option<Instant>,
    /// While this file exists, no case begins.
    pub pause: Option<PathBuf>,
}

/// What was run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases.
    pub cases: u64,
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
        self.returned += other.returned;
        self.failed += other.failed;
        self.findings.extend(other.findings);
    }
}

/// How a child ended.
enum End {
    /// It ran all its cases, or the time is over.
    Done,
    /// It crashed or hangs.
    Killed(String),
}

impl Job {
    /// Runs the cases, and prints each finding at once.
    ///
    /// # Errors
    /// Errors of starting a child.
    pub fn run(&self) -> io::Result<Report> {
        let mut report = Report::default();
        let mut next = self.range.0;
        while next < self.range.1 && self.end.is_none_or(|end| Instant::now() < end) {
            while self.pause.as_ref().is_some_and(|file| file.exists()) {
                std::thread::sleep(Duration::from_secs(1));
            }
            let last = next.saturating_add(BATCH * self.step).min(self.range.1);
            let mut command = process::limited(&self.program);
            command.args(&self.arguments).args([next, last, self.step].map(|number| number.to_string()));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            let mut running = None;
            let end = self.watch(&mut child, &mut running, &mut report);
            if let (End::Killed(how), Some(seed)) = (&end, running) {
                note(&mut report, seed, how);
            }
            match (end, running) {
                // It goes on behind the case that ended it.
                (End::Killed(_), Some(seed)) => next = seed + self.step,
                (End::Killed(how), None) => return Err(io::Error::other(how)),
                (End::Done, _) => next = last,
            }
        }
        Ok(report)
    }

    /// Reads what a child prints until it ends.
    fn watch(&self, child: &mut Child, running: &mut Option<u64>, report: &mut Report) -> End {
        let lines = reader(child);
        let errors = child.stderr.take();
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.map(|errors| errors.take(1 << 16).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        loop {
            match lines.recv_timeout(SILENCE) {
                Ok(line) => {
                    *running = read(&line, *running, report);
                    if running.is_none() && self.end.is_some_and(|end| Instant::now() >= end) {
                        let _ = child.kill();
                        let _ = child.wait();
                        return End::Done;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    return End::Killed(format!("hang: {} s without progress", SILENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let text = errors.join().unwrap_or_default();
        match child.wait() {
            Ok(status) if status.success() => End::Done,
            Ok(status) => End::Killed(format!("crash: {status}: {}", text.lines().take(4).collect::<Vec<_>>().join(" | "))),
            Err(error) => End::Killed(format!("crash: {error}")),
        }
    }
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

/// Reads a line; returns the case that runs then.
fn read(line: &str, running: Option<u64>, report: &mut Report) -> Option<u64> {
    let mut words = line.split(' ');
    match (words.next(), running) {
        (Some("begin"), _) => words.next().and_then(|seed| seed.parse().ok()),
        (Some("finding"), Some(seed)) => {
            note(report, seed, line.trim_start_matches("finding "));
            running
        }
        (Some("end"), _) => {
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
            let _seed = number();
            report.cases += 1;
            report.returned += number();
            report.failed += number();
            None
        }
        _ => running,
    }
}

fn note(report: &mut Report, seed: u64, text: &str) {
    println!("seed {seed}: {text}");
    let _ = io::stdout().flush();
    report.findings.entry(seed).or_default().push(text.to_owned());
}
