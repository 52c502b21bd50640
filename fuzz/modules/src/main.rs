//! The driver:
//!
//! ```text
//! incarnate-module-fuzz [--seed=0] [--seconds=60] [--cases=N] [--jobs=1] [--device=URI] [--pause=FILE]
//! incarnate-module-fuzz --translated [--batch=50] ...   the same translated, in batches, and compared
//! incarnate-module-fuzz --mutated ...        mutants of modules of the repository, through the command line
//! incarnate-module-fuzz --mutant SEED FILE   writes a mutant to a file
//! incarnate-module-fuzz --print SEED         prints a case
//! incarnate-module-fuzz --run SEED|FILE      runs one case in this process, and prints what its calls return
//! incarnate-module-fuzz --minimize SEED|FILE prints a smaller case with the same finding
//! incarnate-module-fuzz --signatures         prints what functions take
//! ```

mod minimize;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[cfg(feature = "cli")]
use incarnate_module_fuzz::mutated;
use incarnate_module_fuzz::supervisor::{self, Job, Report};
use incarnate_module_fuzz::{case, generator, mutation, process, signatures, translated};

/// The result of a mode: any error ends the process with a line.
type Done = Result<ExitCode, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.first().map(String::as_str) {
        Some("--child") => child(),
        Some("--child-mutated") => child_mutated(),
        Some("--mutant") => write_mutant(&arguments[1..]),
        Some("--print") => print(&arguments[1..]),
        Some("--run") => run_one(&arguments[1..]),
        Some("--minimize") => minimize(&arguments[1..]),
        Some("--signatures") => print_signatures(),
        _ => run(&arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    arguments.iter().find_map(|text| text.strip_prefix(name)?.strip_prefix('='))
}

/// Runs the cases that the supervisor asks for.
fn child() -> Done {
    supervisor::serve(&|_, text| case::run(text, None))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the mutants that the supervisor asks for.
#[cfg(feature = "cli")]
fn child_mutated() -> Done {
    let folder = process::files_of_child(&process::errors_of_child());
    let runner = mutated::Runner::new(mutation::bases()?, &folder);
    supervisor::serve(&|seed, _| runner.run(seed))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "cli"))]
fn child_mutated() -> Done {
    Err("mutants run through the command line: build with the feature cli".into())
}

/// Writes the mutant of a seed to a file, and prints the name of its module.
fn write_mutant(arguments: &[String]) -> Done {
    let [seed, file] = arguments else { return Err("a seed and a file are needed".into()) };
    let bases = mutation::bases()?;
    let (base, bytes) = mutation::mutant(&bases, seed.parse()?);
    std::fs::write(file, bytes)?;
    println!("{}", base.name);
    Ok(ExitCode::SUCCESS)
}

/// Returns the text of a file, or of a seed's case.
fn text(arguments: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let name = arguments.iter().find(|text| !text.starts_with("--")).ok_or("a seed or a file is needed")?;
    match name.parse() {
        Ok(seed) => Ok(generator::generate(seed, &signatures::learn()?, option(arguments, "--device")).text),
        Err(_) => Ok(std::fs::read_to_string(name)?),
    }
}

fn print(arguments: &[String]) -> Done {
    let seed = arguments.first().and_then(|text| text.parse().ok()).ok_or("a seed is needed")?;
    let case = generator::generate(seed, &signatures::learn()?, option(arguments, "--device"));
    print!("{}", case.text);
    for kernel in &case.kernels {
        kernel.lines().for_each(|line| println!("// {line}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_one(arguments: &[String]) -> Done {
    let outcome = case::run(&text(arguments)?, None);
    for (index, calls) in outcome.calls.iter().enumerate() {
        calls.iter().for_each(|line| println!("thread {index} {line}"));
    }
    outcome.findings.iter().for_each(|line| println!("finding {line}"));
    Ok(if outcome.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn minimize(arguments: &[String]) -> Done {
    print!("{}", minimize::minimize(&text(arguments)?, &std::env::current_exe()?)?);
    Ok(ExitCode::SUCCESS)
}

fn print_signatures() -> Done {
    signatures::learn()?.iter().for_each(|signature| println!("{signature}"));
    Ok(ExitCode::SUCCESS)
}

fn run(arguments: &[String]) -> Done {
    let number =
        |name: &str, default: u64| option(arguments, name).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seed, jobs) = (number("--seed", 0), number("--jobs", 1).max(1));
    let (start, seconds) = (Instant::now(), number("--seconds", 60));
    let count = number("--cases", u64::MAX);
    let is_mutated = arguments.iter().any(|text| text == "--mutated");
    let (functions, device) = (signatures::learn()?, option(arguments, "--device"));
    let text = |seed| match is_mutated {
        true => String::new(),
        false => generator::generate(seed, &functions, device).text,
    };
    let job = |program: PathBuf, seeds: Box<dyn Iterator<Item = u64> + Send>| Job {
        program,
        arguments: vec![if is_mutated { "--child-mutated" } else { "--child" }.to_owned()],
        text: &text,
        seeds,
        end: start + Duration::from_secs(seconds),
        pause: option(arguments, "--pause").map(PathBuf::from),
    };
    let mut report = Report::default();
    if arguments.iter().any(|text| text == "--translated") {
        let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/work"));
        let (mut first, batch) = (seed, number("--batch", 50).max(1));
        while start.elapsed().as_secs() < seconds {
            let cases: Vec<_> = (first..first + batch).map(|seed| (seed, text(seed))).collect();
            let (program, seeds) = translated::compile(&folder, &cases)?;
            let mut job = job(program, Box::new(seeds.into_iter()));
            job.text = &|_| String::new();
            report.add(job.run()?);
            first += batch;
        }
    } else {
        let program = std::env::current_exe()?;
        let jobs: Vec<_> = (0..jobs)
            .map(|index| {
                job(program.clone(), Box::new((seed + index..seed.saturating_add(count)).step_by(jobs as usize)))
            })
            .collect();
        let reports: Vec<_> = std::thread::scope(|scope| {
            let handles: Vec<_> = jobs.into_iter().map(|job| scope.spawn(move || job.run())).collect();
            handles.into_iter().map(|handle| handle.join()).collect()
        });
        for other in reports {
            report.add(other.map_err(|_| "a thread panicked")??);
        }
    }
    println!(
        "{} cases, {} verified, {} ran, {} calls returned, {} failed, {} with findings, {:.0} s of processor time",
        report.cases,
        report.verified,
        report.ran,
        report.returned,
        report.failed,
        report.findings.len(),
        process::seconds_of_children()
    );
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
