//! Parallel tests of several programs, reported in order.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use incarnate_runtime::{Error, Result};

use super::super::arguments::ProgramArguments;
use super::super::program::module_files;
use super::{Outcome, check};

/// A report of a testing thread.
#[derive(Debug)]
pub(super) enum Event {
    /// A test has ended.
    Test(Outcome),
    /// All tests of a program have ended.
    Program,
}

/// Tests programs, each a list of module files, `jobs` at a time. Outcomes are reported in the order of the programs;
/// those of the first unfinished program at once.
pub(super) fn check_all(
    arguments: &ProgramArguments,
    programs: &[Vec<PathBuf>],
    jobs: usize,
    tell: &mut dyn FnMut(Event) -> Result<()>,
) -> Result<()> {
    let test = |program: &[PathBuf], tell: &mut dyn FnMut(Event) -> Result<()>| {
        let name = program.last().map(|file| file.display().to_string()).unwrap_or_default();
        check(arguments, &module_files(program), Some(&name), &mut |outcome| tell(Event::Test(outcome)))?;
        tell(Event::Program)
    };
    if jobs <= 1 {
        return programs.iter().try_for_each(|program| test(program, tell));
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = channel::<(usize, Event)>();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || run(programs, next, &sender, &test));
        }
        drop(sender);
        let (mut current, mut waiting) = (0, HashMap::<usize, Vec<Event>>::new());
        for (program, event) in receiver {
            waiting.entry(program).or_default().push(event);
            // A program's last event makes the next program the current one.
            while let Some(events) = waiting.remove(&current) {
                let ended = matches!(events.last(), Some(Event::Program));
                let told = events.into_iter().try_for_each(&mut *tell);
                if told.is_err() {
                    // The receiver is gone: threads finish their test and start no other.
                    next.store(programs.len(), Ordering::Relaxed);
                    return told;
                }
                if !ended {
                    break;
                }
                current += 1;
            }
        }
        Ok(())
    })
}

/// Tests programs until none is left.
fn run(
    programs: &[Vec<PathBuf>],
    next: &AtomicUsize,
    sender: &Sender<(usize, Event)>,
    test: &(impl Fn(&[PathBuf], &mut dyn FnMut(Event) -> Result<()>) -> Result<()> + Sync),
) {
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(program) = programs.get(index) else { return };
        let mut tell = |event| sender.send((index, event)).map_err(|_| Error::aborted("the process no longer listens"));
        // A failed report ends the tests.
        if test(program, &mut tell).is_err() {
            return;
        }
    }
}
