//! What came of tests in JUnit's XML, as build servers read it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use incarnate_runtime::{Result, ResultExt};

use super::Outcome;
use crate::tooling::atomic_file::AtomicFile;
use crate::tooling::xml::escape;

/// Writes a file with a suite for each program.
pub(super) fn write(path: &Path, outcomes: &[Outcome], time: Duration) -> Result<()> {
    let mut file = AtomicFile::create(path, false)?;
    file.write_all(document(outcomes, time).as_bytes()).context(|| format!("writing '{}'", path.display()))?;
    file.commit()
}

/// Attributes that count tests.
fn counts(outcomes: &[Outcome], time: Duration) -> String {
    let failures = outcomes.iter().filter(|outcome| outcome.failure.is_some() && outcome.function.is_some()).count();
    let errors = outcomes.iter().filter(|outcome| outcome.failure.is_some() && outcome.function.is_none()).count();
    let skipped = outcomes.iter().filter(|outcome| outcome.is_empty).count();
    format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{:.6}\"",
        outcomes.len(),
        time.as_secs_f64()
    )
}

fn document(outcomes: &[Outcome], time: Duration) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string does not fail.
    let _ = writeln!(text, "<testsuites name=\"incarnate check\" {}>", counts(outcomes, time));
    // Outcomes of one program follow each other.
    for suite in outcomes.chunk_by(|one, other| one.program == other.program) {
        let program = suite.first().map_or("", |outcome| &outcome.program);
        let total = suite.iter().map(|outcome| outcome.time).sum();
        let _ = writeln!(text, "  <testsuite name=\"{}\" {}>", escape(program), counts(suite, total));
        suite.iter().for_each(|outcome| case(&mut text, outcome));
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn case(text: &mut String, outcome: &Outcome) {
    // A program that does not load is a test that could not be made.
    let (name, element) = match &outcome.function {
        Some(function) => (function.as_str(), "failure"),
        None => ("load", "error"),
    };
    let (name, program) = (escape(name), escape(&outcome.program));
    let _ = write!(
        text,
        "    <testcase name=\"{name}\" classname=\"{program}\" time=\"{:.6}\"",
        outcome.time.as_secs_f64()
    );
    if outcome.is_empty {
        text.push_str(">\n      <skipped/>\n    </testcase>\n");
        return;
    }
    let Some(failure) = &outcome.failure else {
        text.push_str("/>\n");
        return;
    };
    let first = failure.lines().next().unwrap_or_default();
    let _ = writeln!(
        text,
        ">\n      <{element} message=\"{}\">{}</{element}>\n    </testcase>",
        escape(first),
        escape(failure)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_a_suite_for_each_program() {
        let outcome = |program: &str, function: Option<&str>, failure: Option<&str>| Outcome {
            program: program.to_owned(),
            function: function.map(str::to_owned),
            failure: failure.map(str::to_owned),
            is_empty: program == "c.vmfb",
            time: Duration::from_millis(1500),
        };
        let outcomes = [
            outcome("a.vmfb", Some("one"), None),
            outcome("a.vmfb", Some("two"), Some("expected \"x\" < 3\u{1b}[1m\nmore & more")),
            outcome("b.vmfb", None, Some("cut off")),
            outcome("c.vmfb", None, None),
        ];
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="incarnate check" tests="4" failures="1" errors="1" skipped="1" time="2.000000">
  <testsuite name="a.vmfb" tests="2" failures="1" errors="0" skipped="0" time="3.000000">
    <testcase name="one" classname="a.vmfb" time="1.500000"/>
    <testcase name="two" classname="a.vmfb" time="1.500000">
      <failure message="expected &quot;x&quot; &lt; 3�[1m">expected &quot;x&quot; &lt; 3�[1m
more &amp; more</failure>
    </testcase>
  </testsuite>
  <testsuite name="b.vmfb" tests="1" failures="0" errors="1" skipped="0" time="1.500000">
    <testcase name="load" classname="b.vmfb" time="1.500000">
      <error message="cut off">cut off</error>
    </testcase>
  </testsuite>
  <testsuite name="c.vmfb" tests="1" failures="0" errors="0" skipped="1" time="1.500000">
    <testcase name="load" classname="c.vmfb" time="1.500000">
      <skipped/>
    </testcase>
  </testsuite>
</testsuites>
"#;
        assert_eq!(document(&outcomes, Duration::from_secs(2)), expected);
    }
}
