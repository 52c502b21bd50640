//! The command `chat` of a program with a language model.

use core::ops::ControlFlow;
use std::fs::read_to_string;
use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use incarnate_runtime::bytecode::Escaped;
use incarnate_runtime::{Error, Result, ResultExt as _};
use incarnate_text::generation::prompt;
use incarnate_text::{
    ChatTemplate, Constraint, ConstraintCompiler, Conversation, Finish, Generated, Generation, LanguageModel, Message,
    Sampler, SamplerOptions, StopTexts, Tokenizer,
};

use super::model::ModuleModel;
use super::source::ModelSource;
use super::{ChatOptions, OfModel};
use crate::Verdict;
use crate::program::AddModules;

/// The status of a program that an interrupt ends.
const INTERRUPTED: i32 = 130;

/// A conversation, and what it needs.
struct Chat {
    model: ModuleModel,
    tokenizer: Tokenizer,
    /// None for texts as they are.
    template: Option<ChatTemplate>,
    conversation: Conversation,
    messages: Vec<Message>,
    sampler: Sampler,
    /// What each answer follows.
    constraint: Option<Constraint>,
    interrupt: Arc<Interrupt>,
}

/// Ends an answer, or the program where there is none.
#[derive(Debug, Default)]
struct Interrupt {
    is_answering: AtomicBool,
    is_asked_for: AtomicBool,
}

pub(crate) fn chat(
    arguments: &OfModel<ChatOptions>,
    add_modules: AddModules<'_>,
    out: &mut dyn Write,
) -> Result<Verdict> {
    let options = &arguments.options;
    let source = ModelSource::find(arguments.model.as_deref())?;
    let text = source.text()?;
    let context = || format!("'{}'", source.path().display());
    let tokenizer = text.tokenizer().context(context)?;
    let template = match options.raw {
        true => None,
        false => Some(text.template().context(|| format!("{}: --raw needs no template", context()))?),
    };
    let constraint = constraint(options, &tokenizer)?;
    let model = ModuleModel::load(&source, &options.device.uri, add_modules)?;
    let interrupt = Arc::new(Interrupt::default());
    let handled = interrupt.clone();
    let handler = ctrlc::set_handler(move || {
        if !handled.is_answering.load(Ordering::Relaxed) {
            process::exit(INTERRUPTED);
        }
        handled.is_asked_for.store(true, Ordering::Relaxed);
    });
    handler.map_err(|error| Error::internal(format!("handling interrupts: {error}")))?;
    let messages = options.system.iter().map(|text| Message::new("system", text.as_str())).collect();
    let sampler = Sampler::new(sampling(options));
    let conversation = Conversation::new();
    let mut chat = Chat { model, tokenizer, template, conversation, messages, sampler, constraint, interrupt };
    if let Some(text) = &options.prompt {
        chat.answer(options, text, out)?;
        return Ok(Verdict::Success);
    }
    let is_terminal = stdin().is_terminal();
    let mut lines = stdin().lock().lines();
    loop {
        if is_terminal {
            write!(out, "> ").and_then(|()| out.flush()).context(|| "writing to standard output")?;
        }
        let Some(line) = lines.next().transpose().context(|| "reading from standard input")? else { break };
        if !line.trim().is_empty() {
            chat.answer(options, &line, out)?;
        }
    }
    Ok(Verdict::Success)
}

/// Compiles what answers follow, if anything.
fn constraint(options: &ChatOptions, tokenizer: &Tokenizer) -> Result<Option<Constraint>> {
    let compiler = || ConstraintCompiler::new(tokenizer);
    let compiled = |path: &PathBuf, compile: fn(&ConstraintCompiler, &str) -> Result<Constraint>| {
        let context = || format!("'{}'", path.display());
        let text = read_to_string(path).context(context)?;
        compile(&compiler()?, &text).context(context).map(Some)
    };
    match (&options.json_schema, &options.grammar) {
        (Some(path), _) => compiled(path, ConstraintCompiler::json_schema),
        (None, Some(path)) => compiled(path, ConstraintCompiler::grammar),
        (None, None) => options.json.then(|| compiler()?.json_object()).transpose(),
    }
}

fn sampling(options: &ChatOptions) -> SamplerOptions {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    SamplerOptions {
        temperature: options.temperature,
        top_k: options.top_k,
        top_p: options.top_p,
        min_p: options.min_p,
        repetition_penalty: options.repetition_penalty,
        seed: options.seed.unwrap_or_else(|| now().as_nanos() as u64),
        ..SamplerOptions::default()
    }
}

impl Chat {
    /// Answers a message, and prints the answer as it grows.
    fn answer(&mut self, options: &ChatOptions, text: &str, out: &mut dyn Write) -> Result<()> {
        let tokens = match &self.template {
            Some(template) => {
                self.messages.push(Message::new("user", text));
                prompt(&self.tokenizer, template, &self.messages)?
            }
            None => self.tokens_of_text(text),
        };
        let generation = Generation {
            tokenizer: &self.tokenizer,
            sampler: &mut self.sampler,
            stop: StopTexts::new(options.stop.iter().map(String::as_str)),
            limit: options.max_tokens,
            constraint: self.constraint.clone(),
            log_probabilities: None,
        };
        let interrupt = self.interrupt.clone();
        interrupt.is_asked_for.store(false, Ordering::Relaxed);
        interrupt.is_answering.store(true, Ordering::Relaxed);
        let (start, mut first) = (Instant::now(), None);
        let mut answer = String::new();
        let generated = self.conversation.generate(&mut self.model, &tokens, generation, |part| {
            first.get_or_insert_with(|| start.elapsed());
            answer.push_str(part);
            write!(out, "{part}").and_then(|()| out.flush()).context(|| "writing to standard output")?;
            let is_asked_for = interrupt.is_asked_for.load(Ordering::Relaxed);
            Ok(if is_asked_for { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        interrupt.is_answering.store(false, Ordering::Relaxed);
        let generated = generated?;
        writeln!(out).and_then(|()| out.flush()).context(|| "writing to standard output")?;
        self.messages.push(Message::new("assistant", answer));
        let whole = start.elapsed();
        self.report(options, &generated, (first.unwrap_or(whole), whole));
        Ok(())
    }

    /// The tokens of a text that goes on from the conversation.
    fn tokens_of_text(&self, text: &str) -> Vec<u32> {
        let mut tokens = self.conversation.tokens().to_vec();
        match tokens.is_empty() {
            true => tokens = self.tokenizer.encode_first(text),
            false => tokens.extend(self.tokenizer.encode(text, false)),
        }
        tokens
    }

    fn report(&self, options: &ChatOptions, generated: &Generated, (first, whole): (Duration, Duration)) {
        let mut notes = Vec::new();
        match generated.finish {
            Finish::Context => notes.push(format!("the context of {} positions is full", self.model.context())),
            Finish::Length => notes.push(format!("the answer was cut at {} tokens (--max-tokens)", options.max_tokens)),
            Finish::End | Finish::Stop | Finish::Interrupted => {}
        }
        if options.stats {
            let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
            let rest = whole.saturating_sub(first);
            notes.push(format!(
                "prompt of {} tokens, {} read, first text after {:.3} s ({:.1} tokens a second); {} tokens written in {:.3} s \
                 ({:.1} tokens a second)",
                generated.prompt,
                generated.read,
                first.as_secs_f64(),
                rate(generated.read, first),
                generated.written,
                rest.as_secs_f64(),
                rate(generated.written.saturating_sub(1), rest)
            ));
        }
        for note in notes {
            // Without standard error, the note is lost and the answer is not.
            let _ = writeln!(stderr(), "note: {}", Escaped(&note));
        }
    }
}

#[cfg(all(test, feature = "cli"))]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::path::Path;

    use super::super::program::tests::options;
    use super::*;

    /// A whole conversation with a small model, interpreted. Interrupts have one handler in a process, so that this is one test.
    #[test]
    fn a_question_is_answered() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model");
        let chat = |model: &str, words: &[&str]| {
            let words = ["--temperature=0", "--max-tokens=4", "--device=local-sync"].iter().chain(words);
            let options = options(words.copied());
            let mut out = Vec::new();
            let arguments = OfModel { model: Some(fixture.join(model)), options };
            let module = fixture.join("vmvx.vmfb");
            chat(&arguments, &|builder| builder.module_file(&module), &mut out)?;
            Ok::<_, Error>(String::from_utf8(out).unwrap())
        };
        let answer = chat("model.gguf", &["--prompt=is it"]).unwrap();
        assert!(answer.len() > 1 && answer.ends_with('\n'), "{answer:?}");
        let error = chat("vmvx.vmfb", &["--prompt=is it"]).unwrap_err().to_string();
        assert!(error.contains("vmvx.vmfb"), "{error}");
    }

    #[test]
    fn schemas_and_grammars_are_those_of_files() {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/language_model/model.gguf");
        let tokenizer = Tokenizer::from_gguf(&incarnate_gguf::GgufFile::open(&fixture).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("form");
        std::fs::write(&path, "start: \"on\"\n").unwrap();
        let of = |option: &str| constraint(&options([option]), &tokenizer);
        let with_file = |option: &str| of(&format!("--{option}={}", path.display()));
        let mut grammar = with_file("grammar").unwrap().unwrap();
        tokenizer.encode("on", false).into_iter().skip(1).for_each(|token| grammar.advance(token).unwrap());
        assert!(grammar.is_complete());
        let error = with_file("json-schema").unwrap_err().to_string();
        assert!(error.contains("form': the JSON schema: ") && !error.contains('\n'), "{error}");
        std::fs::write(&path, "true").unwrap();
        assert!(with_file("json-schema").unwrap().is_some() && of("--raw").unwrap().is_none());
        // The model has no token of a brace.
        assert!(of("--json").unwrap_err().to_string().contains("no token of the model"));
        std::fs::remove_file(&path).unwrap();
        assert!(with_file("grammar").unwrap_err().to_string().contains("form'"));
    }

    #[test]
    fn defaults_are_those_of_the_sampler() {
        assert_eq!(sampling(&options(["--seed=0"])), SamplerOptions::default());
    }
}
