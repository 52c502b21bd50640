//! Chat templates: messages as the text that a model was trained on.

mod namespaces;

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use incarnate_bytecode::{Error, Result, ResultExt as _, StatusCode};
use incarnate_gguf::{GgufFile, ModelFolder};
use jiff::Timestamp;
use jiff::fmt::strtime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, ErrorKind, State, Value, context};

use crate::folder::{self, Object};
use crate::{HAS_THREADS, metadata, shown};

const TEMPLATE_KEY: &str = "tokenizer.chat_template";
/// The file of a folder's template, or the key of that in `tokenizer_config.json`.
const TEMPLATE_FILE: &str = ModelFolder::CHAT_TEMPLATE;
const TEMPLATE_FIELD: &str = "chat_template";
/// The name of the template in its environment.
const NAME: &str = "chat";
/// Most bytes of a template. The longest published ones have about 20 kB.
const MAXIMUM_SOURCE: usize = 1 << 16;
/// Most bytes of a rendered prompt.
const MAXIMUM_OUTPUT: usize = 1 << 24;
/// Fuel of a rendering: a unit for each instruction, and for each 64 bytes of data. To it come units for the messages, which some templates
/// copy several times.
const BASE_FUEL: u64 = 200_000;
const FUEL_OF_MESSAGE: u64 = 200;
const BYTES_OF_MESSAGE_PER_FUEL: u64 = 8;
const MAXIMUM_FUEL: u64 = 1_000_000;
/// Bytes of stack for a unit of fuel, which can nest a value by two thirds of a level. The comparison of two values takes most: about 3,000 bytes
/// for each level without optimisation.
const STACK_PER_FUEL: u64 = 2_500;
/// Bytes of stack for a byte of a template. Half of a byte nests an expression by a level, which takes up to 4,000 bytes without optimisation.
const STACK_PER_BYTE: u64 = 4_000;

/// Most time of a compilation and of a rendering. Those of published templates take milliseconds.
const MAXIMUM_TIME: Duration = Duration::from_secs(10);
/// Most bytes of a format of `strftime_now`.
const MAXIMUM_FORMAT: usize = 256;
/// Whether the system has a clock. [`SystemTime::now`] panics without one.
const HAS_CLOCK: bool = cfg!(not(all(target_family = "wasm", target_os = "unknown")));

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`, and what else a template knows.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// Returns a message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// The chat template of a model, in Jinja, with the functions and the methods of Python's types that such templates use.
///
/// A rendering is bounded in steps, memory, output and time, whatever the template does. It runs on a thread of its own. WebAssembly has no
/// threads: there, it runs on the calling one, without a limit of time, and the engine ends a program whose stack is too small.
///
/// ```
/// use incarnate_text::{ChatTemplate, Message};
///
/// let source = "{{ bos_token }}{% for message in messages %}<{{ message.role }}>{{ message.content.strip() }}\n{% endfor %}";
/// let template = ChatTemplate::new(source, "<s>", "</s>")?;
/// assert_eq!(template.render(&[Message::new("user", " Hello! ")], false)?, "<s><user>Hello!\n");
/// # Ok::<(), incarnate_bytecode::Error>(())
/// ```
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    begin: String,
    end: String,
    /// Whether a rendering has taken too long. The thread of such a rendering may still run, and there must not be more of them.
    has_overrun: AtomicBool,
}

impl ChatTemplate {
    /// Reads the template of a model, and the texts of the tokens that begin and end a text.
    ///
    /// # Errors
    /// NOT_FOUND if the model has no template; the errors of [`ChatTemplate::new`]; OUT_OF_RANGE and INVALID_ARGUMENT for damaged metadata.
    pub fn from_gguf(file: &GgufFile) -> Result<ChatTemplate> {
        let source = metadata::text(file, TEMPLATE_KEY)?
            .ok_or_else(|| Error::not_found(format!("the metadata has no '{TEMPLATE_KEY}'")))?;
        let tokens = metadata::tokens(file)?;
        let text = |name: &str| -> Result<&str> {
            let token = metadata::token(file, &format!("tokenizer.ggml.{name}_token_id"), tokens.len())?;
            Ok(token.and_then(|token| tokens.get(token as usize)).map_or("", String::as_str))
        };
        ChatTemplate::new(source, text("bos")?, text("eos")?)
    }

    /// Reads the template of a folder in the layout of Hugging Face, and the texts of the tokens that begin and end a text:
    /// `chat_template.jinja`, `tokenizer_config.json`.
    ///
    /// # Errors
    /// NOT_FOUND if the model has no template; the errors of [`ChatTemplate::new`]; INVALID_ARGUMENT for damaged files; errors of reading.
    pub fn from_folder(folder: &ModelFolder) -> Result<ChatTemplate> {
        let config: Object = folder::read(folder, ModelFolder::TOKENIZER_CONFIG)?.unwrap_or_default();
        let file = folder.read(TEMPLATE_FILE)?.map(String::from_utf8).transpose();
        let file = file.map_err(|_| Error::invalid_argument(format!("{TEMPLATE_FILE} is not UTF-8")))?;
        let source = file.as_deref().or_else(|| default_template(config.get(TEMPLATE_FIELD)?));
        let source = source.ok_or_else(|| {
            let config = ModelFolder::TOKENIZER_CONFIG;
            Error::not_found(format!("there is no {TEMPLATE_FILE}, and no '{TEMPLATE_FIELD}' in {config}"))
        })?;
        let text = |key: &str| folder::token(&config, key).unwrap_or_default();
        ChatTemplate::new(source, text("bos_token"), text("eos_token"))
    }

    /// Compiles a template. `begin` is its variable `bos_token`, `end` is `eos_token`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a template that cannot be parsed, RESOURCE_EXHAUSTED for one that is too long, DEADLINE_EXCEEDED for one that takes
    /// too much time.
    pub fn new(source: &str, begin: &str, end: &str) -> Result<ChatTemplate> {
        let length = source.len();
        if length > MAXIMUM_SOURCE {
            return Err(Error::resource_exhausted(format!(
                "the template has {length} bytes, which exceed the limit of {MAXIMUM_SOURCE}"
            )))
            .context(|| "chat template");
        }
        let mut environment = Environment::new();
        // The settings of the Python package transformers, which templates are written for.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| converted(&error))?);
        environment.set_unknown_method_callback(method);
        environment.add_function("raise_exception", raise_exception);
        if HAS_CLOCK {
            set_clock(&mut environment, SystemTime::now);
        }
        environment.add_filter("tojson", tojson);
        environment.add_filter(namespaces::FILTER, namespaces::detached);
        let template = namespaces::guarded(source);
        let compile = move || {
            let added = environment.add_template_owned(NAME, template).map_err(|error| converted(&error));
            added.map(|()| environment)
        };
        let environment = bounded(source.len() as u64 * STACK_PER_BYTE, compile).context(|| "chat template")?;
        Ok(ChatTemplate {
            environment,
            begin: begin.to_owned(),
            end: end.to_owned(),
            has_overrun: AtomicBool::new(false),
        })
    }

    /// Sets the clock whose time the function `strftime_now` of templates formats, by default that of the system. `wasm32-unknown-unknown` has
    /// none: there, templates have the function only with a clock.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// use incarnate_text::ChatTemplate;
    ///
    /// let template = ChatTemplate::new("Today is {{ strftime_now('%d %b %Y') }}.", "", "")?;
    /// let template = template.with_clock(|| UNIX_EPOCH + Duration::from_secs(86_400));
    /// assert_eq!(template.render(&[], false)?, "Today is 02 Jan 1970.");
    /// # Ok::<(), incarnate_bytecode::Error>(())
    /// ```
    #[must_use]
    pub fn with_clock(mut self, clock: fn() -> SystemTime) -> ChatTemplate {
        set_clock(&mut self.environment, clock);
        self
    }

    /// Returns the text of a conversation, in which special tokens stand as text. `add_generation_prompt` adds the start of an answer.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the message of a template that calls `raise_exception`, or for an operation that fails; UNIMPLEMENTED for a filter,
    /// a function or a method that is unknown; RESOURCE_EXHAUSTED if the rendering takes too many steps or too much memory; DEADLINE_EXCEEDED if it takes longer than ten
    /// seconds, and from then on.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        self.rendered(messages, add_generation_prompt).context(|| "chat template")
    }

    fn rendered(&self, messages: &[Message], add_generation_prompt: bool) -> Result<String> {
        let message =
            |message: &Message| context! { role => message.role.as_str(), content => message.content.as_str() };
        let variables = context! {
            messages => messages.iter().map(message).collect::<Vec<Value>>(),
            add_generation_prompt => add_generation_prompt,
            bos_token => self.begin.as_str(),
            eos_token => self.end.as_str(),
            // Templates compare these with none.
            tools => (),
            documents => (),
        };
        let bytes: usize = messages.iter().map(|message| message.role.len() + message.content.len()).sum();
        let fuel = BASE_FUEL + messages.len() as u64 * FUEL_OF_MESSAGE + bytes as u64 / BYTES_OF_MESSAGE_PER_FUEL;
        let fuel = fuel.min(MAXIMUM_FUEL);
        if self.has_overrun.load(Ordering::Relaxed) {
            return Err(Error::deadline_exceeded("an earlier rendering took too long"));
        }
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        let render = move || {
            let mut prompt = Prompt(Vec::new());
            let template = environment.get_template(NAME).map_err(|error| converted(&error))?;
            template.render_captured_to(variables, &mut prompt).map_err(|error| converted(&error))?;
            String::from_utf8(prompt.0).map_err(|_| Error::internal("the rendered text is not UTF-8"))
        };
        let prompt = bounded(fuel * STACK_PER_FUEL, render);
        if prompt.as_ref().is_err_and(|error| error.code() == StatusCode::DeadlineExceeded) {
            self.has_overrun.store(true, Ordering::Relaxed);
        }
        prompt
    }
}

/// Returns the template of a value: it is a text, or an array of templates with names.
fn default_template(value: &serde_json::Value) -> Option<&str> {
    let is_default = |template: &&serde_json::Value| template.get("name").is_some_and(|name| name == "default");
    let of_array = || value.as_array()?.iter().find(is_default)?.get("template")?.as_str();
    value.as_str().or_else(of_array)
}

/// Runs a function on a thread with a stack of so many bytes, and waits for it until the time is over. The stack takes memory only as far as it is
/// used: the template engine recurses into expressions and values. Time is limited because some operations of the engine cost no fuel.
///
/// Without threads, it runs on the calling one.
fn bounded<T: Send + 'static>(bytes: u64, run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    /// For templates and values that are not nested.
    const BASE: u64 = 1 << 21;
    if !HAS_THREADS {
        return run();
    }
    let bytes =
        usize::try_from(bytes + BASE).map_err(|_| Error::resource_exhausted("the stack exceeds the address space"))?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let send = move || {
        // The receiver is gone when the time is over.
        let _ = sender.send(run());
    };
    std::thread::Builder::new().stack_size(bytes).spawn(send)?;
    receiver.recv_timeout(MAXIMUM_TIME).unwrap_or_else(|error| {
        Err(match error {
            mpsc::RecvTimeoutError::Timeout => {
                Error::deadline_exceeded(format!("it took longer than {MAXIMUM_TIME:?}"))
            }
            mpsc::RecvTimeoutError::Disconnected => Error::internal("the template engine panicked"),
        })
    })
}

/// Calls a method of a Python type, except that `format` with a width of more than three digits is refused: it would allocate the width.
fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, minijinja::Error> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let has_width = |text: &str| text.as_bytes().windows(4).any(|bytes| bytes.iter().all(is_digit));
    if name == "format" && value.as_str().is_some_and(has_width) {
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, "a width of 'format' exceeds 999"));
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, arguments)
}

/// The output of a rendering.
struct Prompt(Vec<u8>);

impl io::Write for Prompt {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAXIMUM_OUTPUT {
            return Err(io::Error::other(format!("the output exceeds {MAXIMUM_OUTPUT} bytes")));
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn converted(error: &minijinja::Error) -> Error {
    let line = error.line().map(|line| format!("line {line}: ")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {}", shown(detail))).unwrap_or_default();
    let message = format!("{line}{}{detail}", error.kind());
    match error.kind() {
        ErrorKind::OutOfFuel | ErrorKind::WriteFailure => Error::resource_exhausted(message),
        ErrorKind::UnknownFilter | ErrorKind::UnknownFunction | ErrorKind::UnknownMethod | ErrorKind::UnknownTest => {
            Error::unimplemented(message)
        }
        _ => Error::invalid_argument(message),
    }
}

fn raise_exception(message: Cow<'_, str>) -> Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message.into_owned()))
}

fn set_clock(environment: &mut Environment<'static>, clock: fn() -> SystemTime) {
    let strftime_now = move |format: Cow<'_, str>| strftime(&format, clock());
    environment.add_function("strftime_now", strftime_now);
}

/// Formats a time, in UTC.
fn strftime(format: &str, time: SystemTime) -> Result<String, minijinja::Error> {
    let failed = |message| minijinja::Error::new(ErrorKind::InvalidOperation, message);
    if format.len() > MAXIMUM_FORMAT {
        return Err(failed(format!("the format of strftime_now exceeds {MAXIMUM_FORMAT} bytes")));
    }
    let time = Timestamp::try_from(time).map_err(|error| failed(error.to_string()))?;
    strtime::format(format.as_bytes(), time).map_err(|error| failed(error.to_string()))
}

/// Converts a value to JSON as Python does: without the escapes for HTML of the built-in filter.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<Value, minijinja::Error> {
    // An option of Python's. The text is never escaped to ASCII.
    let _: Option<bool> = options.get("ensure_ascii")?;
    let indent = match indent {
        Some(indent) => Some(indent),
        None => options.get("indent")?,
    };
    options.assert_all_used()?;
    let escaped = minijinja::filters::tojson(value, indent, Kwargs::from_iter::<[(&str, Value); 0]>([]))?;
    let mut rest = escaped.as_str().unwrap_or_default();
    let mut json = String::new();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        json.push_str(before);
        let html = [("\\u003c", "<"), ("\\u003e", ">"), ("\\u0026", "&"), ("\\u0027", "'")];
        let found = html.iter().find_map(|(text, character)| Some((escape.strip_prefix(text)?, *character)));
        let (behind, text) = found.unwrap_or_else(|| {
            // A backslash and the character behind it, which may be a backslash.
            let (pair, behind) = escape.split_at(escape.len().min(2));
            (behind, pair)
        });
        json.push_str(text);
        rest = behind;
    }
    json.push_str(rest);
    Ok(Value::from(json))
}
