//! Options of conversations, which `incarnate chat` passes on to the program of the model.

#[cfg(feature = "cli")]
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::DeviceOption;
#[cfg(feature = "cli")]
use super::program::ModelOptions;

/// How a model answers.
#[derive(Clone, Debug, PartialEq, Args)]
pub(crate) struct ChatOptions {
    /// Answer this and exit; without it, lines are read from standard input.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) prompt: Option<String>,
    /// A message before the first one, which tells the model what it is.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) system: Option<String>,
    /// Go on with the text as it is, without the model's chat template.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub(crate) max_tokens: usize,
    /// How much tokens vary: 0 takes the likeliest one.
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// Draw among this number of the likeliest tokens; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) top_k: usize,
    /// Draw among the likeliest tokens that have this probability together.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    pub(crate) top_p: f32,
    /// Leave out tokens that are less likely than this part of the likeliest one.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) min_p: f32,
    /// Divides the logits of the last 64 tokens; 1 for none.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    pub(crate) repetition_penalty: f32,
    /// The seed of the draws; by default another one each time.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// A text that ends an answer. May be repeated.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) stop: Vec<String>,
    /// Answer with a JSON object.
    #[arg(long, group = "constraint")]
    pub(crate) json: bool,
    /// Answer with JSON that follows the schema in a file.
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) json_schema: Option<PathBuf>,
    /// Answer with a text that follows the grammar in a file, in Lark's form.
    #[arg(long, value_name = "FILE", group = "constraint")]
    pub(crate) grammar: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceOption,
    /// Print numbers and times of tokens to standard error behind each answer.
    #[arg(long)]
    pub(crate) stats: bool,
}

#[cfg(feature = "cli")]
impl ModelOptions for ChatOptions {
    const COMMAND: &'static str = "chat";
    const SLOTS: u64 = 1;

    fn words(&self) -> Vec<OsString> {
        let mut words = vec![
            format!("--max-tokens={}", self.max_tokens),
            format!("--temperature={}", self.temperature),
            format!("--top-k={}", self.top_k),
            format!("--top-p={}", self.top_p),
            format!("--min-p={}", self.min_p),
            format!("--repetition-penalty={}", self.repetition_penalty),
            self.device.word(),
        ];
        words.extend(self.prompt.iter().map(|text| format!("--prompt={text}")));
        words.extend(self.system.iter().map(|text| format!("--system={text}")));
        words.extend(self.seed.iter().map(|seed| format!("--seed={seed}")));
        words.extend(self.stop.iter().map(|text| format!("--stop={text}")));
        words.extend(self.json.then(|| "--json".to_owned()));
        words.extend(self.raw.then(|| "--raw".to_owned()));
        words.extend(self.stats.then(|| "--stats".to_owned()));
        let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let file = |name: &str, path: &PathBuf| {
            let mut word = OsString::from(name);
            word.push(path);
            word
        };
        words.extend(self.json_schema.iter().map(|path| file("--json-schema=", path)));
        words.extend(self.grammar.iter().map(|path| file("--grammar=", path)));
        words
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::super::program::tests::check_passed_on;
    use super::*;

    #[test]
    fn options_are_passed_on_as_they_are() {
        let lines: [&[&str]; 6] = [
            &[],
            &["--json"],
            &["--json-schema=a b.json"],
            &["--grammar=--x.lark"],
            &["--prompt=--x y", "--stop=a", "--stop=--b", "--seed=18446744073709551615", "--raw", "--stats"],
            &[
                "--temperature=0",
                "--top-k=0",
                "--top-p=1",
                "--min-p=0.123",
                "--system=",
                "--max-tokens=7",
                "--device=local-sync",
            ],
        ];
        lines.into_iter().for_each(check_passed_on::<ChatOptions>);
    }
}
