//! Runs a few mutants through the supervisor, as the driver does.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use incarnate_module_fuzz::mutation;
use incarnate_module_fuzz::supervisor::Job;

#[test]
fn mutants_end_within_their_limits() {
    let job = Job {
        program: PathBuf::from(env!("CARGO_BIN_EXE_incarnate-module-fuzz")),
        arguments: vec!["--child-mutated".to_owned()],
        text: &|_| String::new(),
        seeds: Box::new(0..100),
        end: Instant::now() + Duration::from_secs(600),
        pause: None,
    };
    let report = job.run().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.cases, 100);
    assert!(report.verified > 20 && report.ran > 5, "{report:?}");
}

#[test]
fn a_seed_decides_its_mutant() {
    let bases = mutation::bases().unwrap();
    for seed in 0..40 {
        let ((base, bytes), (again, same)) = (mutation::mutant(&bases, seed), mutation::mutant(&bases, seed));
        assert_eq!((&base.name, bytes), (&again.name, same));
    }
}
