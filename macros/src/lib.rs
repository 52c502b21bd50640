//! The procedural macro that `incarnate::include_module!` wraps and documents.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use incarnate_bytecode::Error;
use incarnate_bytecode::{Contents, VerifiedModule};
use incarnate_translator::{Constants, Options, Prefer, module_identifier};
use proc_macro2::{Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

/// Translates a module file: `CRATE; [attributes] [visibility] [name =] "path" [, prefer = "kind"] [, static_library =
/// "symbol"]...`, where `CRATE` is the path of the crate `incarnate`.
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
        let mut rest: Vec<TokenTree> = tokens.collect();
        if rest.last().is_some_and(|last| is_punctuation(last, ',')) {
            rest.pop();
        }
        let settings = Settings::take(&mut rest)?;
        let end = rest.last().map_or_else(Span::call_site, TokenTree::span);
        let Some(TokenTree::Literal(literal)) = rest.pop() else { return Err(wrong(end)) };
        let path =
            string(&literal).ok_or_else(|| Failure::new(literal.span(), "the path of a module file is a string"))?;
        let name = match rest.pop() {
            None => None,
            Some(equals) if is_punctuation(&equals, '=') => match rest.pop() {
                Some(TokenTree::Ident(name)) => Some(name),
                other => return Err(wrong(other.map_or(equals.span(), |other| other.span()))),
            },
            Some(other) => return Err(wrong(other.span())),
        };
        Ok(Invocation { crate_path, prefix: rest.into_iter().collect(), name, literal, path, settings })
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
            prefer: self.settings.prefer,
            static_libraries: self.settings.static_libraries,
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
    prefer: Prefer,
    /// The query functions of kernel libraries that the program links.
    static_libraries: Vec<String>,
}

impl Settings {
    /// Removes all `, prefer = "KIND"` and `, static_library = "SYMBOL"` from the end of the tokens.
    fn take(tokens: &mut Vec<TokenTree>) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        while let [.., comma, TokenTree::Ident(name), equals, TokenTree::Literal(literal)] = &tokens[..] {
            if !is_punctuation(comma, ',') || !is_punctuation(equals, '=') {
                break;
            }
            let name = name.to_string();
            let failed = |message: String| Failure::new(literal.span(), message);
            let value = string(literal).ok_or_else(|| failed(format!("`{name}` takes a string")));
            match name.as_str() {
                "prefer" => {
                    settings.prefer = value?.parse().map_err(|error: Error| failed(error.message().to_owned()))?
                }
                "static_library" => {
                    let symbol = value?;
                    if symbol.is_empty() || !symbol.bytes().all(|byte| byte.is_ascii_graphic()) {
                        return Err(failed(format!("`{symbol}` is not the symbol of a query function")));
                    }
                    settings.static_libraries.insert(0, symbol);
                }
                _ => break,
            }
            tokens.truncate(tokens.len() - 4);
        }
        Ok(settings)
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
            ("static_library = 5", "`static_library` takes a string"),
            ("static_library = \"\"", "`` is not the symbol of a query function"),
            ("prefer = \"both\"", "`both` is neither `native` nor `portable`"),
        ] {
            assert_eq!(expand(&format!("::incarnate; m = {path:?}, {setting}")).unwrap_err(), message);
        }
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
