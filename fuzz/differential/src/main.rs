//! The driver; see the package's README.
use incarnate_differential::{coverage, generator::Program, harness};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    match arguments.first().map(String::as_str) {
        Some("show") => print!("{}", Program::new(number(1), false).text),
        Some("interpret") => {
            let (mut exhausted, mut returned, mut failed, mut lines) = (0, 0, 0, 0);
            let mut codes = std::collections::BTreeMap::<String, usize>::new();
            for seed in number(1)..number(1) + number(2).max(1) {
                let program = Program::new(seed, false);
                let module = match harness::interpreted(&program.text) {
                    Ok(module) => module,
                    Err(error) => {
                        println!("{}\nseed {seed}: {error}", program.text);
                        std::process::exit(1);
                    }
                };
                lines += program.text.lines().count();
                let peer = harness::interpreted(harness::PEER).unwrap();
                let outcome = harness::run(module, peer, &program, true);
                if number(2) < 2 {
                    outcome.lines.iter().for_each(|line| println!("{line}"));
                }
                for line in &outcome.lines {
                    if let Some((_, error)) = line.split_once("failed: ") {
                        *codes
                            .entry(error.split("; at").next().unwrap_or_default().chars().take(70).collect())
                            .or_default() += 1;
                    }
                }
                exhausted += usize::from(outcome.exhausted);
                returned += outcome.returned;
                failed += outcome.failed;
            }
            let mut codes: Vec<_> = codes.into_iter().collect();
            codes.sort_by_key(|row| std::cmp::Reverse(row.1));
            codes.iter().take(40).for_each(|(error, count)| println!("{count:6} {error}"));
            println!("{lines} lines, {exhausted} exhausted, {returned} calls returned, {failed} failed");
        }
        Some("coverage") => {
            let counts = coverage::measure(number(1)..number(1) + number(2));
            for (mnemonic, count) in &counts {
                println!("{:8} {:8} {mnemonic}", count.written, count.run);
            }
            println!(
                "{} instructions, {} never run",
                counts.len(),
                counts.values().filter(|count| count.run == 0).count()
            );
        }
        _ => eprintln!("usage: differential show SEED | interpret SEED COUNT | coverage SEED COUNT"),
    }
}
