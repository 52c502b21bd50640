//! The plan of a case: what its module's host does. It stands in the comments before the module's first line.

use std::fmt::Write as _;
use std::time::Duration;

/// A call of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the export.
    pub export: String,
    /// Drops the call when it is suspended for the first time.
    pub is_cancelled: bool,
}

/// What the host does with the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The device's URI.
    pub device: String,
    /// The longest time of a call.
    pub timeout: Duration,
    /// The calls of each thread.
    pub threads: Vec<Vec<Call>>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { device: "local-sync".into(), timeout: Duration::from_secs(5), threads: Vec::new() }
    }
}

impl Plan {
    /// The time that all calls may take, when each of them is ended by its limit.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let calls = self.threads.iter().map(Vec::len).max().unwrap_or(0);
        self.timeout * u32::try_from(calls).unwrap_or(u32::MAX)
    }

    /// Returns the comments.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("// device {}\n// timeout {}\n", self.device, self.timeout.as_millis());
        for calls in &self.threads {
            text += "// calls";
            for call in calls {
                let _ = write!(text, " {}{}", call.export, if call.is_cancelled { "!" } else { "" });
            }
            text += "\n";
        }
        text
    }

    /// Parses the comments of a module's text; others are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Plan {
        let mut plan = Plan::default();
        for line in text.lines().map_while(|line| line.strip_prefix("//")) {
            let mut words = line.split_whitespace();
            match (words.next(), words.clone().next()) {
                (Some("device"), Some(device)) => plan.device = device.to_owned(),
                (Some("timeout"), Some(time)) => plan.timeout = Duration::from_millis(time.parse().unwrap_or(5000)),
                (Some("calls"), Some(_)) => {
                    let call = |word: &str| Call {
                        export: word.trim_end_matches('!').to_owned(),
                        is_cancelled: word.ends_with('!'),
                    };
                    plan.threads.push(words.map(call).collect());
                }
                _ => {}
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_parsed_as_they_are_written() {
        let call = |export: &str, is_cancelled| Call { export: export.into(), is_cancelled };
        let plan = Plan {
            device: "local-task".into(),
            timeout: Duration::from_millis(250),
            threads: vec![vec![call("a", false), call("b", true)], vec![call("a", false)]],
        };
        assert_eq!(Plan::parse(&(plan.text() + "vm.module @m version 0\n")), plan);
        assert_eq!(Plan::parse("vm.module @m version 0\n"), Plan::default());
    }
}
