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
    let mut converted = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        let indentation = &line[..line.len() - code.len()];
        let comment = match code.strip_prefix(MARKER) {
            // The formatter puts a long text on a line of its own.
            Some("!(") => {
                let text = lines.next().unwrap_or_default().trim();
                lines.next();
                text.strip_prefix('"').and_then(|text| text.strip_suffix('"'))
            }
            Some(rest) => rest.strip_prefix("!(\"").and_then(|text| text.strip_suffix("\");")),
            None => None,
        };
        match comment {
            Some(text) => converted.extend([indentation, "// ", text, "\n"]),
            None => converted.extend([line, "\n"]),
        }
    }
    converted.into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
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

    #[test]
    #[cfg(feature = "files")]
    fn long_markers_become_comments() {
        let long = "folder/".repeat(40);
        let marker = comment(&long);
        let file = syn::parse2(quote!(fn f() { g(); #marker g(); })).unwrap();
        let text = convert(&prettyplease::unparse(&file)).into_owned();
        assert_eq!(text, format!("fn f() {{\n    g();\n    // {long}\n    g();\n}}\n"));
    }
}
