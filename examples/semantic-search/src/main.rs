//! Finds the lines of text files that mean what a question means:
//!
//! ```console
//! $ ./prepare
//! $ cargo run --release -- ../../docs/*.md --query "how do I limit memory?"
//! ```
//!
//! Without `--query`, questions are read from standard input. `--embed` reads lines from there instead, and writes their
//! vectors to standard output, as f32 in the order of bytes of this machine.

mod embedder;

use std::error::Error;
use std::fs;
use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

use embedder::Embedder;

/// Lines that an answer lists.
const ANSWERS: usize = 5;

/// The command line.
#[derive(Default)]
struct Arguments {
    files: Vec<PathBuf>,
    query: Option<String>,
    model: Option<PathBuf>,
    threads: Option<usize>,
    embed: bool,
}

impl Arguments {
    fn parse() -> Result<Arguments, Box<dyn Error>> {
        let mut parsed = Arguments::default();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} takes a value"));
            match word.as_str() {
                "--query" => parsed.query = Some(value()?),
                "--model" => parsed.model = Some(value()?.into()),
                "--threads" => parsed.threads = Some(value()?.parse()?),
                "--embed" => parsed.embed = true,
                _ if word.starts_with("--") => return Err(format!("unknown flag {word}").into()),
                _ => parsed.files.push(word.into()),
            }
        }
        Ok(parsed)
    }

    /// The device: the calling thread alone, or as many threads as are named, or all cores.
    fn device(&self) -> String {
        match self.threads {
            None => "local-task".to_owned(),
            Some(1) => "local-sync".to_owned(),
            Some(threads) => format!("local-task://?workers={threads}"),
        }
    }
}

/// A line of a file, with its vector.
struct Line {
    position: String,
    text: String,
    vector: Vec<f32>,
}

fn index(embedder: &Embedder, files: &[PathBuf]) -> Result<Vec<Line>, Box<dyn Error>> {
    let (mut positions, mut texts) = (Vec::new(), Vec::new());
    for file in files {
        let content = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for (number, line) in content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            positions.push(format!("{}:{}", file.display(), number + 1));
            texts.push(line.trim().to_owned());
        }
    }
    let vectors = embedder.embed(&texts)?;
    let lines = positions.into_iter().zip(texts).zip(vectors);
    Ok(lines.map(|((position, text), vector)| Line { position, text, vector }).collect())
}

/// Prints the lines that are nearest to a question. Vectors have the length 1, so their product is the cosine.
fn answer(embedder: &Embedder, lines: &[Line], query: &str) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let vectors = embedder.embed(&[query.to_owned()])?;
    let Some(query) = vectors.first() else { return Ok(()) };
    let cosine = |line: &Line| line.vector.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let mut found: Vec<(f32, &Line)> = lines.iter().map(|line| (cosine(line), line)).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (cosine, line) in found.iter().take(ANSWERS) {
        println!("{cosine:.3}  {}  {}", line.position, line.text);
    }
    eprintln!("{:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

fn embed(embedder: &Embedder) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let start = Instant::now();
    let vectors = embedder.embed(&lines)?;
    eprintln!("{:.1} sentences per second", lines.len() as f64 / start.elapsed().as_secs_f64());
    let bytes: Vec<u8> = vectors.iter().flatten().flat_map(|element| element.to_ne_bytes()).collect();
    Ok(io::stdout().write_all(&bytes)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse()?;
    let folder = arguments.model.clone().unwrap_or_else(|| PathBuf::from("model"));
    let embedder = Embedder::open(&folder, &arguments.device())?;
    if arguments.embed {
        return embed(&embedder);
    }
    let start = Instant::now();
    let lines = index(&embedder, &arguments.files)?;
    eprintln!("{} lines in {:.2} s", lines.len(), start.elapsed().as_secs_f64());
    match &arguments.query {
        Some(query) => answer(&embedder, &lines, query),
        None => io::stdin().lock().lines().try_for_each(|query| answer(&embedder, &lines, &query?)),
    }
}
