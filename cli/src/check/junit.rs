//! Test outcomes in JUnit's XML, which build servers read.

use std::path::Path;
use std::time::Duration;

use incarnate_runtime::bytecode::{Escaped, EscapedLines};
use incarnate_runtime::{Error, Result, ResultExt};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::Outcome;
use crate::tooling::atomic_file::AtomicFile;

/// Writes a file with a suite for each program.
pub(super) fn write(path: &Path, outcomes: &[Outcome], time: Duration) -> Result<()> {
    let mut file = AtomicFile::create(path, false)?;
    report(outcomes, time)
        .serialize(&mut file)
        .map_err(|error| Error::aborted(error.to_string()))
        .context(|| format!("writing '{}'", path.display()))?;
    file.commit()
}

fn report(outcomes: &[Outcome], time: Duration) -> Report {
    let mut report = Report::new("incarnate check");
    report.set_time(time);
    // Outcomes of one program are contiguous.
    for outcomes in outcomes.chunk_by(|one, other| one.program == other.program) {
        let program = outcomes.first().map_or("", |outcome| &outcome.program);
        let mut suite = TestSuite::new(escaped(program));
        suite.set_time(outcomes.iter().map(|outcome| outcome.time).sum());
        suite.add_test_cases(outcomes.iter().map(case));
        report.add_test_suite(suite);
    }
    report
}

/// Returns a name for an attribute. XML forbids most control characters, but not those beyond ASCII, nor changes of the
/// writing direction.
fn escaped(name: &str) -> String {
    Escaped(name).to_string()
}

fn case(outcome: &Outcome) -> TestCase {
    // A program that does not load has no function names.
    let (name, kind) = match &outcome.function {
        Some(function) => (escaped(function), NonSuccessKind::Failure),
        None => ("load".to_owned(), NonSuccessKind::Error),
    };
    let status = match &outcome.failure {
        _ if outcome.skipped.is_some() => TestCaseStatus::skipped(),
        None => TestCaseStatus::success(),
        Some(failure) => {
            let mut status = TestCaseStatus::non_success(kind);
            // The program's own line feeds separate the unmet expectations.
            let failure = EscapedLines(failure).to_string();
            status.set_message(failure.lines().next().unwrap_or_default()).set_description(&failure);
            status
        }
    };
    let mut case = TestCase::new(name, status);
    case.set_classname(escaped(&outcome.program)).set_time(outcome.time);
    case
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn reports_have_a_suite_for_each_program() {
        let outcome = |program: &str, function: Option<&str>, failure: Option<&str>| Outcome {
            program: program.to_owned(),
            function: function.map(str::to_owned),
            failure: failure.map(str::to_owned),
            skipped: (program == "c.vmfb").then(String::new),
            time: Duration::from_millis(1500),
        };
        let outcomes = [
            outcome("a.vmfb", Some("one"), None),
            outcome("a.vmfb", Some("two"), Some("expected \"x\" < 3\u{1}\nmore & more")),
            outcome("b.vmfb", None, Some("cut off")),
            outcome("c.vmfb", None, None),
        ];
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="incarnate check" tests="4" skipped="1" failures="1" errors="1" time="2.000">
    <testsuite name="a.vmfb" tests="2" skipped="0" errors="0" failures="1" time="3.000">
        <testcase name="one" classname="a.vmfb" time="1.500"/>
        <testcase name="two" classname="a.vmfb" time="1.500">
            <failure message="expected &quot;x&quot; &lt; 3\u{1}">expected &quot;x&quot; &lt; 3\u{1}
more &amp; more</failure>
        </testcase>
    </testsuite>
    <testsuite name="b.vmfb" tests="1" skipped="0" errors="1" failures="0" time="1.500">
        <testcase name="load" classname="b.vmfb" time="1.500">
            <error message="cut off">cut off</error>
        </testcase>
    </testsuite>
    <testsuite name="c.vmfb" tests="1" skipped="1" errors="0" failures="0" time="1.500">
        <testcase name="load" classname="c.vmfb" time="1.500">
            <skipped/>
        </testcase>
    </testsuite>
</testsuites>
"#;
        assert_eq!(report(&outcomes, Duration::from_secs(2)).to_string().unwrap(), expected);
    }
}
