//! Constraints: texts that follow a JSON schema or a grammar.
//!
//! A constraint knows which tokens may follow the text so far. It removes the others from the logits before a token is drawn, so that every text
//! that ends has the form that was asked for. Schemas and grammars may come from anywhere: their size, and the work and the memory of compiling and
//! of following them, are limited.

mod limits;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use incarnate_bytecode::{Error, Escaped, Result, ResultExt as _};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory, panic_utils};
use serde_json::{Value, json};

use crate::{HAS_THREADS, Tokenizer};

/// The most bytes of a token that a constraint allows. llguidance's trie holds 1,024 at most, and is read recursively.
const MOST_TOKEN_BYTES: usize = 512;
/// Bytes of the stack that a schema or a grammar is compiled on: the compiler is recursive. A build without optimisation takes some KiB for each of
/// at most 2,000 levels (see `limits`).
const STACK: usize = 64 << 20;
/// White space between the parts of a JSON text, once at each place. Without bounds, small models write it without end.
/// Source: `SPACE_RULE` of llama.cpp's `common/json-schema-to-grammar.cpp`.
const SPACE: &str = r"\x20|\x0A{1,2}[\x20\x09]{0,20}";

/// Compiles constraints for the tokens of a model.
///
/// ```no_run
/// use incarnate_text::{ConstraintCompiler, Tokenizer};
///
/// # fn example(tokenizer: &Tokenizer, logits: &mut [f32]) -> incarnate_bytecode::Result<()> {
/// let compiler = ConstraintCompiler::new(tokenizer)?;
/// let mut constraint = compiler.json_schema(r#"{"type": "integer", "minimum": 0}"#)?;
/// constraint.mask(logits)?;
/// # Ok(())
/// # }
/// ```
pub struct ConstraintCompiler {
    factory: ParserFactory,
}

/// What tokens may follow a text, see [`ConstraintCompiler`]. A clone follows a text of its own.
#[derive(Clone)]
pub struct Constraint {
    matcher: Box<Matcher>,
}

impl core::fmt::Debug for ConstraintCompiler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ConstraintCompiler").finish_non_exhaustive()
    }
}

impl core::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Constraint").field("is_complete", &self.is_complete()).finish_non_exhaustive()
    }
}

impl ConstraintCompiler {
    /// Prepares the tokens of a tokenizer, which takes a fraction of a second for a large vocabulary.
    ///
    /// Of tokens with equal bytes, texts with a constraint have the first only, and none of more than 512 bytes.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a vocabulary that exceeds the limits; UNIMPLEMENTED on WebAssembly, which has no threads.
    pub fn new(tokenizer: &Tokenizer) -> Result<ConstraintCompiler> {
        if !HAS_THREADS {
            return Err(Error::unimplemented(
                "JSON schemas and grammars are compiled on a thread of their own, and this target has no threads",
            ));
        }
        let factory = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie(tokenizer)));
            let mut factory = ParserFactory::new_simple(&environment)?;
            factory.quiet();
            *factory.limits_mut() = limits::of_parser();
            Ok(factory)
        }));
        let factory = factory.map_err(|error| Error::resource_exhausted(format!("vocabulary: {}", message(&error))))?;
        Ok(ConstraintCompiler { factory })
    }

    /// Compiles the constraint of texts that are a JSON object.
    ///
    /// # Errors
    /// Errors of [`ConstraintCompiler::json_schema`].
    pub fn json_object(&self) -> Result<Constraint> {
        self.schema(json!({"type": "object"}))
    }

    /// Compiles a JSON schema, the text of a JSON value.
    ///
    /// Objects have the properties in the order of the schema. References are to parts of the schema, as `#/$defs/name`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a text that is no JSON, for a schema that is wrong, allows nothing, or has keywords that are not supported;
    /// RESOURCE_EXHAUSTED for one that exceeds a limit, such as 256 KiB.
    pub fn json_schema(&self, schema: &str) -> Result<Constraint> {
        limits::check_length("JSON schema", schema)?;
        let schema = serde_json::from_str(schema).map_err(|error| Error::invalid_argument(error.to_string()));
        schema.and_then(|schema| self.schema(schema)).context(|| "the JSON schema")
    }

    fn schema(&self, mut schema: Value) -> Result<Constraint> {
        limits::check_schema(&schema)?;
        if schema == Value::Bool(true) {
            schema = json!({});
        }
        if let Some(fields) = schema.as_object_mut() {
            // Options of llguidance's: those of the schema are not read.
            fields.insert("x-guidance".to_owned(), json!({"whitespace_pattern": SPACE}));
        }
        self.compile(TopLevelGrammar::from_json_schema(schema))
    }

    /// Compiles a grammar in the form of Lark, [as llguidance reads it](https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md). Texts
    /// are those of the rule `start`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a grammar that is wrong or allows nothing; UNIMPLEMENTED for one that contains a JSON schema; RESOURCE_EXHAUSTED for one that
    /// exceeds a limit, such as 256 KiB.
    pub fn grammar(&self, grammar: &str) -> Result<Constraint> {
        let checked = limits::check_grammar(grammar);
        let grammar = TopLevelGrammar::from_lark(grammar.to_owned());
        checked.and_then(|()| self.compile(grammar)).context(|| "the grammar")
    }

    /// Compiles on a thread with a stack that is large enough.
    fn compile(&self, grammar: TopLevelGrammar) -> Result<Constraint> {
        let matcher = std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("constraint".to_owned()).stack_size(STACK);
            let thread = builder.spawn_scoped(scope, || {
                let mut matcher = Matcher::new(self.factory.create_parser(grammar));
                // The first mask finds out whether there is any text.
                matcher.compute_mask().map(|_| matcher)
            });
            let thread = thread.map_err(|error| Error::internal(format!("starting a thread: {error}")))?;
            thread.join().map_err(|_| Error::internal("the compiler of constraints panicked"))
        })?;
        let matcher = matcher.map_err(|error| Error::invalid_argument(message(&error)))?;
        Ok(Constraint { matcher: Box::new(matcher) })
    }
}

impl Constraint {
    /// Sets the logits of the tokens that may not follow to negative infinity. End tokens may follow where the text may end.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if no token can follow, because the vocabulary lacks the characters that the text needs; if this takes too much work; and
    /// behind another error.
    pub fn mask(&mut self, logits: &mut [f32]) -> Result<()> {
        let mask = self.matcher.compute_mask().map_err(|error| failure(&error))?;
        let size = u32::try_from(mask.len()).unwrap_or(u32::MAX);
        for (token, logit) in (0..).zip(logits) {
            if token >= size || !mask.is_allowed(token) {
                *logit = f32::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// Adds a token to the text.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for a token that may not follow, if this takes too much work, and behind another error.
    pub fn advance(&mut self, token: u32) -> Result<()> {
        self.matcher.consume_token(token).map_err(|error| failure(&error))
    }

    /// Returns whether the text has ended: nothing can follow.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.matcher.stop_reason().is_ok() && self.matcher.is_stopped()
    }
}

fn failure(error: &impl ToString) -> Error {
    Error::failed_precondition(format!("the constraint of the text: {}", message(error)))
}

/// Returns the tokens as llguidance reads them: control tokens have a mark before their text, which no text contains.
fn trie(tokenizer: &Tokenizer) -> TokTrie {
    let count = u32::try_from(tokenizer.token_count()).unwrap_or(u32::MAX);
    let mut seen = HashSet::new();
    let word = |token: u32| {
        let word = match tokenizer.control_text(token) {
            Some(text) => [&[TokTrie::SPECIAL_TOKEN_MARKER], text.as_bytes()].concat(),
            None => tokenizer.token_bytes(token).to_vec(),
        };
        if word.len() <= MOST_TOKEN_BYTES && seen.insert(word.clone()) { word } else { Vec::new() }
    };
    let words: Vec<Vec<u8>> = (0..count).map(word).collect();
    let ends = tokenizer.end_tokens();
    let first = ends.first().copied().unwrap_or(llguidance::toktrie::INVALID_TOKEN);
    let trie = TokTrie::from(&TokRxInfo::new(count, first), &words);
    if ends.is_empty() { trie } else { trie.with_eos_tokens(ends) }
}

/// Returns the first line of a message of llguidance's, without backtraces and states.
fn message(error: &impl ToString) -> String {
    /// In characters.
    const LONGEST: usize = 400;
    match error.to_string().lines().next().unwrap_or_default() {
        // The name of llguidance's `StopReason`.
        "NoExtensionBias" => "no token of the model can go on with the text".to_owned(),
        // The rest of the line names an option of llguidance's.
        line if line.starts_with("oneOf constraints are not supported") => {
            let where_supported = "where no value can fit two of its schemas, such as schemas of different types";
            format!("oneOf is supported only {where_supported}: use anyOf")
        }
        line => Escaped(&line.chars().take(LONGEST).collect::<String>()).to_string(),
    }
}
