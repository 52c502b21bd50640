//! Comments in generated code. Tokens cannot hold comments, so the emitter writes a marker statement, which becomes a comment in
//! the text of files and is removed from the tokens of `include_module!`.

#[cfg(feature = "files")]
use std::borrow::Cow;

use proc_macro2::{Group, TokenStream, TokenTree};
use quote::quote;

/// The macro name of the marker.
const MARKER: &str = "__comment";

/// The marker statement of a comment.
pub(crate) fn comment(text: &str) -> TokenStream {
    let text = crate::names::line(text).replace('\\', "/").replace('"', "'");
    quote!(__comment!(#text);)
}

/// Removes the marker statements.
pub(crate) fn strip(tokens: TokenStream) -> TokenStream {
    let mut stripped: Vec<TokenTree> = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == MARKER => {
                // The marker's `!`, its text, and `;`.
                tokens.by_ref().take(3).for_each(drop);
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), strip(group.stream()));
                inner.set_span(group.span());
                stripped.push(inner.into());
            }
            token => stripped.push(token),
        }
    }
    stripped.into_iter().collect()
}

/// Converts the marker statements of formatted code to comments.
#[cfg(feature = "files")]
pub(crate) fn convert(text: &str) -> Cow<'_, str> {
    if !text.contains(MARKER) {
        return text.into();
    }
    let line = |line: &str| {
        let code = line.trim_start();
        let text = code.strip_prefix(MARKER).and_then(|rest| rest.strip_prefix("!(\"")?.strip_suffix("\");"));
        match text {
            Some(text) => format!("{}// {text}\n", &line[..line.len() - code.len()]),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_comments_in_text_and_vanish_from_tokens() {
        let marker = comment("a \"b\" \\ c.mlir:1:2");
        let tokens = quote!(f(|| { #marker g(); }););
        assert_eq!(strip(tokens).to_string(), quote!(f(|| { g(); });).to_string());
        #[cfg(feature = "files")]
        assert_eq!(convert("{\n    __comment!(\"a 'b' / c.mlir:1:2\");\n}\n"), "{\n    // a 'b' / c.mlir:1:2\n}\n");
    }
}
