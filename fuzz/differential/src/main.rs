//! The driver:
//!
//! ```text
//! incarnate-differential run FIRST COUNT [--batch=400] [--opt-level=0] [--folder=work]
//! incarnate-differential some SEED...       the same of some seeds
//! incarnate-differential lint FIRST COUNT [MODULE.vmfb]...   clippy has nothing to say about what is translated
//! incarnate-differential deep               programs that call as deep as they can
//! incarnate-differential show SEED          prints a program
//! incarnate-differential translate SEED     prints its translation
//! incarnate-differential interpret SEED     prints what the interpreter does with it
//! incarnate-differential coverage FIRST COUNT
//! ```

use std::process::ExitCode;

use incarnate_differential::batch::{Report, Workshop};
use incarnate_differential::generator::Program;
use incarnate_differential::{coverage, harness};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    let option = |name: &str| arguments.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='));
    let size = option("--batch").and_then(|text| text.parse().ok()).unwrap_or(400u64).max(1);
    let workshop = Workshop {
        folder: std::path::absolute(option("--folder").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/work")))
            .unwrap_or_default(),
        opt_level: option("--opt-level").and_then(|text| text.parse().ok()).unwrap_or(0),
    };
    match (arguments.first().map(String::as_str), number(1), number(2)) {
        (Some("show"), Some(seed), _) => print!("{}", Program::new(seed, false).text),
        (Some("translate"), Some(seed), _) => {
            match incarnate_differential::translate::translate(
                "program",
                &Program::new(seed, false).module,
                harness::is_reassociated(seed),
            ) {
                Ok(source) => {
                    source.files.iter().for_each(|file| print!("{}", String::from_utf8_lossy(&file.contents)))
                }
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        (Some("interpret"), Some(seed), _) => return interpret(seed),
        (Some("coverage"), Some(first), Some(count)) => return cover(first, count),
        (Some("run"), Some(first), Some(count)) => return run(&workshop, first, count, size),
        (Some("some"), Some(_), _) => {
            let seeds: Vec<u64> = arguments[1..].iter().filter_map(|text| text.parse().ok()).collect();
            return report(workshop.batch(seeds.into_iter()));
        }
        (Some("lint"), Some(first), Some(count)) => {
            let models: Vec<_> = arguments[3..].iter().filter(|text| !text.starts_with("--")).map(Into::into).collect();
            match workshop.lint(first..first + count, &models) {
                Ok(count) => println!("{count} translated modules, no warnings"),
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        (Some("deep"), ..) => match workshop.deep() {
            Ok(true) => {}
            Ok(false) => return ExitCode::FAILURE,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            eprintln!(
                "usage: incarnate-differential run FIRST COUNT | some SEED... | lint FIRST COUNT [FILE]... | deep | show SEED | translate SEED | interpret SEED | coverage FIRST COUNT"
            );
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Prints the outcome of a batch.
fn report(report: std::io::Result<Report>) -> ExitCode {
    match report {
        Ok(report) => {
            report.wrong.iter().for_each(|(seed, text)| println!("seed {seed}:\n{text}"));
            println!("{} compared, {} wrong", report.compared, report.wrong.len());
            if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Compares the programs of `count` seeds, in batches.
fn run(workshop: &Workshop, first: u64, count: u64, size: u64) -> ExitCode {
    let mut total = Report::default();
    let mut from = first;
    while from < first + count {
        let to = (from + size).min(first + count);
        let report = match workshop.batch(from..to) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("seeds {from} to {to}: {error}");
                return ExitCode::FAILURE;
            }
        };
        for (seed, text) in &report.wrong {
            println!("seed {seed} (incarnate-differential show {seed}; run {seed} 1):\n{text}");
        }
        total.compared += report.compared;
        total.returned += report.returned;
        total.failed += report.failed;
        total.exhausted += report.exhausted;
        total.wrong.extend(report.wrong);
        println!(
            "seeds {first} to {to}: {} programs compared, {} differ or do not compile; {} left out, as they do not end; \
            {} calls returned, {} failed",
            total.compared,
            total.wrong.len(),
            total.exhausted,
            total.returned,
            total.failed
        );
        from = to;
    }
    if total.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn interpret(seed: u64) -> ExitCode {
    let program = Program::new(seed, false);
    let run =
        || Ok((harness::interpreted_program(seed, &program.module)?, harness::interpreted(&harness::library()?)?));
    let modules: incarnate_runtime::Result<_> = run();
    match modules {
        Ok((module, library)) => {
            harness::run(module, library, &program, true).lines.iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("seed {seed}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn cover(first: u64, count: u64) -> ExitCode {
    let counts = coverage::measure(first..first + count);
    for (mnemonic, count) in &counts {
        println!("{:8} {:8} {mnemonic}", count.written, count.run);
    }
    let never = counts.values().filter(|count| count.run == 0).count();
    println!("{} instructions: how often in programs, how often in blocks that ran; {never} never ran", counts.len());
    if never == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
