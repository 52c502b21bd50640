//! The table, and the same as JSON.

use std::fmt::Write;

use incarnate_runtime::{Error, Result};
use serde_json::{Value, json};

use super::{Limit, Roofline};

/// Characters of the longest name.
const NAME: usize = 56;

/// Prints one row for each kernel, the longest time first.
pub(super) fn table(roofline: &Roofline) -> String {
    let Roofline { kernels, peak } = roofline;
    let width = kernels.iter().map(|kernel| kernel.name.chars().count()).max().unwrap_or(0).clamp(6, NAME);
    let total = roofline.seconds().max(f64::MIN_POSITIVE);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:width$} {:>6} {:>11} {:>6} {:>9} {:>8} {:>9}  {:8} {:>7}",
        "kernel", "count", "time", "share", "GFLOP/s", "GB/s", "FLOP/byte", "limit", "of it"
    );
    for kernel in kernels {
        let name: String = kernel.name.chars().take(width).collect();
        let time = kernel.seconds * 1e6;
        let share = kernel.seconds / total * 100.0;
        let _ = write!(out, "{name:width$} {:>6} {time:>8.1} us {share:>5.1}%", kernel.dispatches);
        if let (Some(gigaflops), Some(gigabytes), Some(intensity)) =
            (kernel.gigaflops(), kernel.gigabytes(), kernel.intensity())
        {
            let (limit, allowed) = Limit::of(intensity, peak);
            // Without arithmetic, the rate of memory alone says how good it is.
            let reached = if intensity > 0.0 { gigaflops / allowed } else { gigabytes / peak.gigabytes } * 100.0;
            let _ =
                write!(out, " {gigaflops:>9.2} {gigabytes:>8.2} {intensity:>9.2}  {:8} {reached:>6.0}%", limit.name());
        }
        out.push('\n');
    }
    let counted: f64 =
        kernels.iter().filter(|kernel| kernel.work.is_some()).map(|kernel| kernel.seconds).sum::<f64>() / total;
    let _ = writeln!(
        out,
        "{:.3} ms in kernels, {:.0}% of it in counted loops. This machine, {}: {:.0} GFLOP/s, {:.1} GB/s read from memory.",
        roofline.seconds() * 1e3,
        counted * 100.0,
        peak.of_threads(),
        peak.gigaflops,
        peak.gigabytes,
    );
    out.push_str(
        "Bytes are those that loops load and store, each element once in a nest: what caches keep between kernels exceeds the rate of memory.\n",
    );
    out
}

/// Returns the rows, with times of one call.
pub(super) fn json(roofline: &Roofline) -> Result<String> {
    let kernels: Vec<Value> = roofline
        .kernels
        .iter()
        .map(|kernel| {
            let limit = kernel.intensity().map(|intensity| Limit::of(intensity, &roofline.peak));
            json!({
                "name": kernel.name,
                "count": kernel.dispatches,
                "seconds": kernel.seconds,
                "operations": kernel.work.map(|work| work.operations),
                "bytes": kernel.work.map(|work| work.bytes),
                "gflops_per_second": kernel.gigaflops(),
                "gigabytes_per_second": kernel.gigabytes(),
                "limit": limit.map(|(limit, _)| limit.name()),
                "limit_gflops_per_second": limit.map(|(_, rate)| rate),
            })
        })
        .collect();
    let all = json!({ "peak": roofline.peak, "kernels": kernels });
    serde_json::to_string_pretty(&all).map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::tests::roofline;
    use super::*;

    #[test]
    fn rows_show_rates_and_limits() {
        let text = table(&roofline());
        let words =
            |at: usize| text.lines().nth(at).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(1), "matmul<1> 2 6000.0 us 60.0% 50.00 0.50 100.00 compute 50%");
        assert_eq!(words(2), "copy 2 3000.0 us 30.0% 1.00 10.00 0.10 memory 100%");
        assert_eq!(words(3), "sort 2 1000.0 us 10.0%");
        assert!(text.contains("10.000 ms in kernels, 90% of it"));
    }

    #[test]
    fn json_has_null_for_what_is_not_counted() {
        let value: Value = serde_json::from_str(&json(&roofline()).unwrap()).unwrap();
        assert_eq!(
            (&value["kernels"][1]["limit"], &value["kernels"][2]["operations"]),
            (&json!("memory"), &Value::Null)
        );
        assert_eq!(value["peak"]["threads"], json!(2));
    }
}
