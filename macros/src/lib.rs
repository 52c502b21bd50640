//! The procedural macro that `incarnate::include_module!` wraps and documents.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_bytecode::Error;
use incarnate_bytecode::{Contents, VerifiedModule};
use incarnate_translator::{Constants, Options, Prefer, module_identifier};
use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// Translates a module file: `CRATE; [attributes] [visibility] [name =] "path" [, option]...`, where `CRATE` is the path of the crate
/// `incarnate`, and an error lists the options.
#[proc_macro]
pub fn include_module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let result = Invocation::parse(input.into()).and_then(|invocation| invocation.expand());
    result.unwrap_or_else(Failure::into_tokens).into()
}

/// A compile error and its span in the invocation.
struct Failure {
    span: Span,
    message: String,
}

impl Failure {
    fn new(span: Span, message: impl Into<String>) -> Failure {
        Failure { span, message: message.into() }
    }

    fn into_tokens(self) -> TokenStream {
        let message = self.message;
        quote_spanned!(self.span=> ::core::compile_error! { #message })
    }
}

/// The parsed input of the macro.
struct Invocation {
    crate_path: TokenStream,
    /// The attributes and visibility of the Rust module.
    prefix: TokenStream,
    name: Option<Ident>,
    literal: Literal,
    path: String,
    settings: Settings,
}

impl Invocation {
    fn parse(input: TokenStream) -> Result<Invocation, Failure> {
        let wrong =
            |span| Failure::new(span, "expected `\"FILE\"` or `NAME = \"FILE\"`, such as `digits = \"digits.vmfb\"`");
        let mut tokens = input.into_iter();
        let crate_path = tokens.by_ref().take_while(|token| !is_punctuation(token, ';')).collect();
        // What precedes the path contains no literal outside of groups.
        let mut before: Vec<TokenTree> = Vec::new();
        let literal = loop {
            match tokens.next() {
                Some(TokenTree::Literal(literal)) => break literal,
                Some(token) => before.push(token),
                None => return Err(wrong(before.last().map_or_else(Span::call_site, TokenTree::span))),
            }
        };
        let path =
            string(&literal).ok_or_else(|| Failure::new(literal.span(), "the path of a module file is a string"))?;
        let name = match before.pop() {
            None => None,
            Some(equals) if is_punctuation(&equals, '=') => match before.pop() {
                Some(TokenTree::Ident(name)) => Some(name),
                other => return Err(wrong(other.map_or(equals.span(), |other| other.span()))),
            },
            Some(other) => return Err(wrong(other.span())),
        };
        let settings = Settings::parse(tokens)?;
        Ok(Invocation { crate_path, prefix: before.into_iter().collect(), name, literal, path, settings })
    }

    fn expand(self) -> Result<TokenStream, Failure> {
        let path = PathBuf::from(&self.path);
        let file = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(root) => Path::new(&root).join(&path),
            None => path.clone(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(self.literal.span(), format!("translating '{}': {error}", path.display()))
        };
        let text = file.to_str().ok_or_else(|| failed(&"the path is not Unicode"))?.to_owned();
        // A device may have no end, and opening a pipe waits for a writer.
        if !std::fs::metadata(&file).map_err(|error| failed(&error))?.is_file() {
            return Err(failed(&"it is not a regular file"));
        }
        let bytes = std::fs::read(&file).map_err(|error| failed(&error))?;
        let module = VerifiedModule::load(Arc::new(Contents::from_vec(bytes))).map_err(|error| failed(&error))?;
        let options = Options {
            crate_path: self.crate_path.clone(),
            constants: Constants::ModuleFile(text.clone()),
            prefer: self.settings.prefer.unwrap_or_default(),
            static_libraries: self.settings.static_libraries,
            untrusted: self.settings.untrusted,
            ..Options::default()
        };
        let output = incarnate_translator::generate(&module, &options).map_err(|error| failed(&error))?;
        let name = self.name.unwrap_or_else(|| Ident::new(&module_identifier(&path), Span::call_site()));
        let doc = format!("Translated from `{}`.", path.display().to_string().replace('`', "'"));
        let (prefix, items) = (self.prefix, output.tokens());
        let visibility = prefix.is_empty().then(|| quote!(pub));
        Ok(quote! {
            #[doc = #doc]
            #prefix #visibility mod #name {
                // Rebuilds the program when the file changes.
                const _: &[u8] = include_bytes!(#text);
                #items
            }
        })
    }
}

/// The settings after the path.
#[derive(Default)]
struct Settings {
    prefer: Option<Prefer>,
    /// The query functions of kernel libraries that the program links.
    static_libraries: Vec<String>,
    untrusted: bool,
}

/// How an option of the macro is written, and what it sets.
enum Setting {
    /// `NAME = "VALUE"`: the form of the value with its quotes, and a function that parses it.
    Value(&'static str, fn(&mut Settings, String) -> Result<(), String>),
    /// `NAME`.
    Word(fn(&mut Settings)),
}

/// The options of the macro.
const OPTIONS: &[(&str, Setting)] = &[
    ("prefer", Setting::Value("\"native\" or \"portable\"", Settings::set_prefer)),
    ("static_library", Setting::Value("\"NAME_library_query\"", Settings::add_static_library)),
    ("untrusted", Setting::Word(|settings| settings.untrusted = true)),
];

impl Settings {
    fn set_prefer(&mut self, value: String) -> Result<(), String> {
        let value = value.parse().map_err(|error: Error| error.message().to_owned())?;
        match self.prefer.replace(value) {
            None => Ok(()),
            Some(_) => Err("`prefer` has a value already".to_owned()),
        }
    }

    fn add_static_library(&mut self, symbol: String) -> Result<(), String> {
        if symbol.is_empty() || !symbol.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("`{symbol}` is not the symbol of a query function"));
        }
        self.static_libraries.push(symbol);
        Ok(())
    }

    /// Lists the options.
    fn options() -> String {
        let option = |(name, setting): &(&str, Setting)| match setting {
            Setting::Value(form, _) => format!("`{name} = {form}`"),
            Setting::Word(_) => format!("`{name}`"),
        };
        OPTIONS.iter().map(option).collect::<Vec<_>>().join(", ")
    }

    /// Parses the tokens after the path: `, NAME` and `, NAME = "VALUE"`, and possibly a comma.
    fn parse(mut tokens: impl Iterator<Item = TokenTree>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let mut next = tokens.next();
        while let Some(comma) = next.take() {
            if !is_punctuation(&comma, ',') {
                return Err(Failure::new(comma.span(), format!("expected `,`, and one of {}", Settings::options())));
            }
            let name = match tokens.next() {
                Some(TokenTree::Ident(name)) => name,
                Some(other) => {
                    let message = format!("`{other}` is no option: expected one of {}", Settings::options());
                    return Err(Failure::new(other.span(), message));
                }
                None => break,
            };
            next = tokens.next();
            let value = match &next {
                Some(equals) if is_punctuation(equals, '=') => {
                    let value = tokens.next().unwrap_or_else(|| equals.clone());
                    next = tokens.next();
                    Some(value)
                }
                _ => None,
            };
            settings.set(&name, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &Ident, value: Option<TokenTree>) -> Result<(), Failure> {
        let failed = |message: String| Failure::new(value.as_ref().map_or(name.span(), TokenTree::span), message);
        let Some((_, setting)) = OPTIONS.iter().find(|row| name == row.0) else {
            let message = format!("there is no option `{name}`: expected one of {}", Settings::options());
            return Err(Failure::new(name.span(), message));
        };
        match (setting, &value) {
            (Setting::Word(set), None) => set(self),
            (Setting::Word(_), Some(_)) => return Err(failed(format!("`{name}` takes no value"))),
            (Setting::Value(form, set), value) => {
                let value = value.as_ref().and_then(|value| match value {
                    TokenTree::Literal(literal) => string(literal),
                    _ => None,
                });
                let value = value.ok_or_else(|| failed(format!("`{name}` takes a string: `{name} = {form}`")))?;
                set(self, value).map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn is_punctuation(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punctuation) if punctuation.as_char() == wanted)
}

/// The value of a string literal.
fn string(literal: &Literal) -> Option<String> {
    let text = literal.to_string();
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw.get(hashes..raw.len().checked_sub(hashes)?)?;
        return inner.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
    }
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut value = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            // Paths need only the escapes of backslashes and quotes.
            '\\' => value.push(chars.next().filter(|next| matches!(next, '\\' | '"' | '\''))?),
            _ => value.push(c),
        }
    }
    Some(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn expand(text: &str) -> Result<String, String> {
        let tokens = text.parse::<TokenStream>().unwrap();
        let expanded = Invocation::parse(tokens).and_then(Invocation::expand);
        expanded.map(|tokens| tokens.to_string()).map_err(|failure| failure.message)
    }

    #[test]
    fn modules_have_the_requested_name_and_visibility() {
        let path = "../tests/models/scalars/vmvx.vmfb";
        let start = |text: &str| {
            let tokens = expand(text).unwrap();
            tokens.split_once('{').unwrap().0.split_once(']').unwrap().1.trim().to_owned()
        };
        assert_eq!(start(&format!("::incarnate; {path:?}")), "pub mod vmvx");
        assert_eq!(start(&format!("::incarnate; numbers = {path:?},")), "pub mod numbers");
        assert_eq!(start(&format!("::incarnate; pub(crate) numbers = r#\"{path}\"#")), "pub (crate) mod numbers");
        let tokens = expand(&format!("::a::b; numbers = {path:?}")).unwrap();
        assert!(tokens.contains(":: a :: b :: runtime :: support") && !tokens.contains("incarnate ::"));
    }

    #[test]
    fn settings_follow_the_path() {
        let path = "../tests/static/kernels.vmfb";
        let text = format!(
            "::incarnate; m = {path:?}, static_library = \"a_query\", prefer = \"native\", static_library = \"b\","
        );
        let tokens = expand(&text).unwrap();
        assert!(tokens.contains("link_name = \"a_query\"") && tokens.contains("link_name = \"b\""), "{tokens}");
        assert!(tokens.contains("loaders : & [libraries :: LOADER]"), "{tokens}");
        assert!(!expand(&format!("::incarnate; m = {path:?}")).unwrap().contains("unsafe {"));
        for (setting, message) in [
            ("static_library = 5", "`static_library` takes a string: `static_library = \"NAME_library_query\"`"),
            ("static_library =", "`static_library` takes a string: `static_library = \"NAME_library_query\"`"),
            ("static_library", "`static_library` takes a string: `static_library = \"NAME_library_query\"`"),
            ("untrusted = \"yes\"", "`untrusted` takes no value"),
            (
                "limits = \"all\"",
                "there is no option `limits`: expected one of `prefer = \"native\" or \"portable\"`, `static_library = \
                 \"NAME_library_query\"`, `untrusted`",
            ),
            ("static_library = \"\"", "`` is not the symbol of a query function"),
            ("prefer = \"native\", prefer = \"native\"", "`prefer` has a value already"),
            ("prefer = \"both\"", "`both` is neither `native` nor `portable`"),
        ] {
            assert_eq!(expand(&format!("::incarnate; m = {path:?}, {setting}")).unwrap_err(), message);
        }
    }

    #[test]
    fn options_stand_between_commas() {
        let path = "../tests/models/scalars/vmvx.vmfb";
        let listed =
            "one of `prefer = \"native\" or \"portable\"`, `static_library = \"NAME_library_query\"`, `untrusted`";
        for (options, message) in [
            ("untrusted", format!("expected `,`, and {listed}")),
            (", untrusted prefer = \"native\"", format!("expected `,`, and {listed}")),
            (", \"native\"", format!("`\"native\"` is no option: expected {listed}")),
            (",,", format!("`,` is no option: expected {listed}")),
        ] {
            assert_eq!(expand(&format!("::incarnate; m = {path:?} {options}")).unwrap_err(), message);
        }
    }

    #[test]
    fn untrusted_modules_are_limited_and_have_no_machine_code() {
        let included = |path: &str, options: &str| expand(&format!("::incarnate; m = {path:?}{options}"));
        let path = "../tests/models/simple_mul/vmvx.vmfb";
        assert!(included(path, ", untrusted,").unwrap().contains("builder . untrusted ()"));
        assert!(!included(path, "").unwrap().contains("untrusted"));
        let error = included("../tests/models/simple_mul/llvm-cpu.vmfb", ", untrusted").unwrap_err();
        assert!(error.contains("PERMISSION_DENIED") && error.contains("machine code (embedded-elf-x86_64)"), "{error}");
        assert!(error.contains("--target=portable") && error.contains("--untrusted"), "{error}");
        let error = included("../tests/static/kernels.vmfb", ", static_library = \"q\", untrusted").unwrap_err();
        assert!(error.contains("machine code (static)"), "{error}");
    }

    #[test]
    fn invalid_modules_are_rejected() {
        let error = expand("::incarnate; \"Cargo.toml\"").unwrap_err();
        assert!(
            error.starts_with("translating 'Cargo.toml': INVALID_ARGUMENT; this is not a module but a text file"),
            "{error}"
        );
        assert_eq!(expand("::incarnate; \"a\\nb\"").unwrap_err(), "the path of a module file is a string");
        let error = expand("::incarnate; a = \"b\", prefer = \"both\"").unwrap_err();
        assert_eq!(error, "`both` is neither `native` nor `portable`");
    }

    #[test]
    fn string_literals_are_parsed() {
        let value = |text: &str| string(&text.parse::<Literal>().unwrap());
        assert_eq!(value(r#""a/b.vmfb""#).as_deref(), Some("a/b.vmfb"));
        assert_eq!(value(r#""a\\b""#).as_deref(), Some("a\\b"));
        assert_eq!(value("r\"a\\b\"").as_deref(), Some("a\\b"));
        assert_eq!(value("r##\"a\"b\"##").as_deref(), Some("a\"b"));
        assert_eq!((value("5"), value("b\"a\""), value("\"\\n\"")), (None, None, None));
    }
}
