//! Runs cases in child processes, which may crash or hang.
//!
//! A child reads `case SEED LENGTH` and a text of that length, or none where it has the case's module. It prints lines `finding TEXT`,
//! and `end RETURNED FAILED`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::case::Outcome;
use crate::process;

/// The time without a line after which a child hangs.
const SILENCE: Duration = Duration::from_secs(30);
/// Cases of a child, which then ends, so that what it leaked does not add up.
const BATCH: usize = 400;

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

/// A process that runs cases.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: JoinHandle<String>,
    cases: usize,
}

impl Worker {
    fn start(program: &Path, arguments: &[String]) -> io::Result<Worker> {
        let mut command = process::limited(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(input), Some(errors)) = (child.stdin.take(), child.stderr.take()) else {
            return Err(io::Error::other("a child has no pipes"));
        };
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.take(1 << 16).read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Worker { lines: reader(&mut child), child, input, errors, cases: 0 })
    }

    /// Runs a case; None if the process is gone.
    fn run(&mut self, seed: u64, text: &str, report: &mut Report) -> Result<(), String> {
        self.cases += 1;
        let sent = write!(self.input, "case {seed} {}\n{text}", text.len()).and_then(|()| self.input.flush());
        if let Err(error) = sent {
            return Err(format!("crash: {error}"));
        }
        loop {
            let line = match self.lines.recv_timeout(SILENCE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Err(format!("hang: {} s without a line", SILENCE.as_secs())),
                Err(RecvTimeoutError::Disconnected) => return Err("crash".to_owned()),
            };
            if let Some(finding) = line.strip_prefix("finding ") {
                note(report, seed, finding);
            } else if let Some(counts) = line.strip_prefix("end ") {
                let mut counts = counts.split(' ').filter_map(|word| word.parse::<u64>().ok());
                report.cases += 1;
                report.returned += counts.next().unwrap_or(0);
                report.failed += counts.next().unwrap_or(0);
                return Ok(());
            }
        }
    }

    /// Ends the process; returns its status and the first lines of what it said.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        let status = self.child.wait();
        let errors = self.errors.join().unwrap_or_default();
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
    let (mut input, mut out) = (io::stdin().lock(), io::stdout().lock());
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
        writeln!(out, "end {returned} {failed}")?;
        out.flush()?;
        line.clear();
    }
    Ok(())
}

fn note(report: &mut Report, seed: u64, text: &str) {
    println!("seed {seed}: {text}");
    let _ = io::stdout().flush();
    report.findings.entry(seed).or_default().push(text.to_owned());
}
