//! Measurement: the number of iterations, their time, and the statistics of repetitions. The rules are those of Google
//! Benchmark, which IREE's tool uses, so that the two tools' figures are comparable.

use std::time::{Duration, Instant};

use incarnate_runtime::{Error, Result};

/// Most iterations of one repetition.
const ITERATION_LIMIT: u64 = 1_000_000_000;

/// The duration of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MinTime {
    /// At least this many seconds of measured time.
    Seconds(f64),
    /// Exactly this many iterations.
    Iterations(u64),
}

impl std::str::FromStr for MinTime {
    type Err = String;

    fn from_str(text: &str) -> Result<MinTime, String> {
        let wrong = || format!("'{text}' is neither a time such as 0.5s nor a number of iterations such as 100x");
        if let Some(iterations) = text.strip_suffix('x') {
            let iterations = iterations.parse().ok().filter(|count| (1..=ITERATION_LIMIT).contains(count));
            return iterations.map(MinTime::Iterations).ok_or_else(wrong);
        }
        let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
        seconds.filter(|seconds: &f64| (0.0..1e9).contains(seconds)).map(MinTime::Seconds).ok_or_else(wrong)
    }
}

/// Settings of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) min_time: MinTime,
    /// Seconds to run the function before the measurement.
    pub(super) warmup: f64,
    pub(super) repetitions: u32,
    /// Calls in one call of the measured function.
    pub(super) batch: u32,
}

/// The time of one repetition, in seconds for each iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) iterations: u64,
    pub(super) real: f64,
    pub(super) cpu: f64,
}

/// Returns the CPU time of all threads of this process; zero if the system does not report it.
fn process_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

/// Runs `work` `batches` times; returns the total wall-clock and CPU time.
fn time(batches: u64, work: &mut dyn FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let (cpu, real) = (process_time(), Instant::now());
    for _ in 0..batches {
        work()?;
    }
    let real = real.elapsed();
    Ok((real.as_secs_f64(), process_time().saturating_sub(cpu).as_secs_f64()))
}

/// Measures a function. The first repetition finds the number of iterations that fill the time, and the others use it.
///
/// # Errors
/// Errors of `work`; RESOURCE_EXHAUSTED if there is no memory for the samples.
pub(super) fn measure(settings: Settings, work: &mut dyn FnMut() -> Result<()>) -> Result<Vec<Sample>> {
    let batch = u64::from(settings.batch.max(1));
    if settings.warmup > 0.0 {
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < settings.warmup {
            work()?;
        }
    }
    let mut samples = Vec::new();
    samples
        .try_reserve_exact(settings.repetitions as usize)
        .map_err(|_| Error::resource_exhausted(format!("no memory for {} repetitions", settings.repetitions)))?;
    let (mut batches, (mut real, mut cpu)) = match settings.min_time {
        MinTime::Iterations(iterations) => {
            let batches = iterations.div_ceil(batch);
            (batches, time(batches, work)?)
        }
        MinTime::Seconds(seconds) => fill(seconds, batch, work)?,
    };
    batches = batches.max(1);
    for repetition in 0..settings.repetitions.max(1) {
        if repetition > 0 {
            (real, cpu) = time(batches, work)?;
        }
        let iterations = batches * batch;
        samples.push(Sample { iterations, real: real / iterations as f64, cpu: cpu / iterations as f64 });
    }
    Ok(samples)
}

/// Finds a number of batches that takes at least `seconds`; returns its time.
fn fill(seconds: f64, batch: u64, work: &mut dyn FnMut() -> Result<()>) -> Result<(u64, (f64, f64))> {
    let mut batches = 1u64;
    loop {
        let times = time(batches, work)?;
        if times.0 >= seconds || batches * batch >= ITERATION_LIMIT {
            return Ok((batches, times));
        }
        // Aim above the remaining time. A short first run is a weak estimate.
        let multiplier = seconds * 1.4 / times.0.max(1e-9);
        let multiplier = if times.0 / seconds > 0.1 { multiplier } else { multiplier.min(10.0) };
        let next = (batches as f64 * multiplier.max(1.0)) as u64;
        batches = next.max(batches + 1).min(ITERATION_LIMIT.div_ceil(batch));
    }
}

/// A statistic of the samples of several repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    Mean,
    Median,
    StandardDeviation,
    /// The standard deviation divided by the mean.
    Variation,
}

impl Statistic {
    /// All statistics with their names, in the order of the report.
    pub(super) const ALL: [(Statistic, &'static str); 4] = [
        (Statistic::Mean, "mean"),
        (Statistic::Median, "median"),
        (Statistic::StandardDeviation, "stddev"),
        (Statistic::Variation, "cv"),
    ];

    /// Computes the statistic of some values.
    pub(super) fn of(self, values: &[f64]) -> f64 {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        // The deviation of a sample, which divides by n - 1; that of a single value is zero.
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = if values.len() < 2 { 0.0 } else { (squares / (count - 1.0)).sqrt() };
        match self {
            Statistic::Mean => mean,
            Statistic::Median => {
                let mut sorted = values.to_vec();
                sorted.sort_by(f64::total_cmp);
                let middle = sorted.len() / 2;
                match (sorted.get(middle), sorted.get(middle.wrapping_sub(1))) {
                    (Some(upper), Some(lower)) if sorted.len().is_multiple_of(2) => (lower + upper) / 2.0,
                    (Some(value), _) => *value,
                    (None, _) => 0.0,
                }
            }
            Statistic::StandardDeviation => deviation,
            Statistic::Variation => {
                if mean == 0.0 {
                    0.0
                } else {
                    deviation / mean
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn times_and_iterations_are_read() {
        assert_eq!("0.5s".parse(), Ok(MinTime::Seconds(0.5)));
        assert_eq!("2".parse(), Ok(MinTime::Seconds(2.0)));
        assert_eq!("100x".parse(), Ok(MinTime::Iterations(100)));
        for text in ["", "s", "x", "0x", "-1s", "nans", "1m"] {
            assert!(text.parse::<MinTime>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_repetition_runs_the_requested_iterations() {
        let mut calls = 0;
        let settings = Settings { min_time: MinTime::Iterations(10), warmup: 0.0, repetitions: 3, batch: 1 };
        let samples = measure(settings, &mut || {
            calls += 1;
            Ok(())
        });
        assert_eq!(samples.unwrap().iter().map(|sample| sample.iterations).collect::<Vec<_>>(), [10, 10, 10]);
        assert_eq!(calls, 30);
    }

    #[test]
    fn a_time_is_filled() {
        let settings = Settings { min_time: MinTime::Seconds(0.02), warmup: 0.0, repetitions: 1, batch: 1 };
        let samples = measure(settings, &mut || {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        let sample = samples.unwrap()[0];
        assert!(sample.real >= 0.001 && sample.iterations as f64 * sample.real >= 0.02, "{sample:?}");
    }

    #[test]
    fn errors_end_the_measurement() {
        let settings = Settings { min_time: MinTime::Seconds(1.0), warmup: 0.0, repetitions: 1, batch: 1 };
        assert!(measure(settings, &mut || Err(Error::internal("no"))).is_err());
    }

    #[test]
    fn statistics_are_those_of_their_definitions() {
        let values = [2.0, 4.0, 4.0, 10.0];
        assert_eq!(Statistic::Mean.of(&values), 5.0);
        assert_eq!(Statistic::Median.of(&values), 4.0);
        assert_eq!(Statistic::Median.of(&[3.0, 1.0, 2.0]), 2.0);
        // (9 + 1 + 1 + 25) / 3 = 12.
        assert_eq!(Statistic::StandardDeviation.of(&values), 12f64.sqrt());
        assert_eq!(Statistic::Variation.of(&values), 12f64.sqrt() / 5.0);
        assert_eq!(Statistic::StandardDeviation.of(&[7.0]), 0.0);
    }
}
