//! A translated module as the text of files, each of bounded size.

use std::path::PathBuf;

use incarnate_bytecode::{Error, Result, ResultExt};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::comments;
use crate::output::{Items, Nested, Output, allowed};

/// The size in bytes at which a file of functions is split; a single function may exceed it.
const FILE_SIZE: usize = 100 << 10;
/// One level of indentation.
const INDENTATION: &str = "    ";

/// Keeps rustfmt from reformatting an item: prettyplease breaks lines differently, and generated code that is checked in must pass
/// `rustfmt --check`.
const SKIP: &str = "#[rustfmt::skip]\n";

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The path relative to the folder of the main file.
    pub path: PathBuf,
    /// The bytes of the file.
    pub contents: Vec<u8>,
}

impl Output {
    /// The files of the Rust module `stem`: `stem.rs`, `stem.constants.bin` if there are constants, and
    /// `stem.chunks/functions_0.rs` and so on if the functions are long. Programs use the first file, as `mod stem;` or by
    /// `include!`; it includes the others relative to itself.
    ///
    /// # Errors
    /// INTERNAL if the generated code is not Rust.
    pub fn files(&self, stem: &str) -> Result<Vec<File>> {
        let mut files = Vec::new();
        let mut text = format!("// {}\n\n", self.header);
        for item in &self.interface {
            text.push_str(SKIP);
            text.push_str(&format(item)?);
            text.push('\n');
        }
        let (mut inner, functions) = self.module.format()?;
        let executables = self.executables.iter().map(|executable| executable.items.format());
        let executables = executables.collect::<Result<Vec<_>>>()?;
        if self.included {
            let path = format!("{stem}.constants.bin");
            let doc = " The constants of the module, at the offsets in `MODULE`.";
            inner.insert(
                2,
                format(&quote!(#[doc = #doc] static CONSTANTS: &[u8] = support::include_constants!(#path);))?,
            );
            files.push(File { path: path.into(), contents: self.constants().to_vec() });
        }
        let all = functions.iter().chain(executables.iter().flat_map(|executable| &executable.1));
        let is_large = all.map(String::len).sum::<usize>() > FILE_SIZE;
        let mut write_functions = |functions: Vec<String>, prefix: &str, inner: &mut Vec<String>| -> Result<()> {
            if !is_large {
                inner.extend(functions);
                return Ok(());
            }
            let functions = functions.into_iter().map(|function| format!("{SKIP}{function}")).collect();
            for (index, chunk) in chunks(functions).into_iter().enumerate() {
                let name = format_ident!("functions_{index}");
                let path = format!("{stem}.chunks/{prefix}{name}.rs");
                inner.push(format(&quote! {
                    mod #name {
                        use super::*;
                        include!(#path);
                    }
                })?);
                inner.push(format(&quote!(pub use #name::*;))?);
                let contents = format!("// {}\n\n{chunk}", self.header).into_bytes();
                files.push(File { path: path.into(), contents });
            }
            Ok(())
        };
        write_functions(functions, "", &mut inner)?;
        for (Nested { ident, doc, .. }, (mut own, functions)) in self.executables.iter().zip(executables) {
            write_functions(functions, &format!("{ident}_"), &mut own)?;
            inner.push(nested(&quote!(#[doc = #doc] mod #ident {}), &own)?);
        }
        let allowed = allowed();
        text.push_str(SKIP);
        text.push_str(&nested(&quote!(#allowed mod translated {}), &inner)?);
        files.insert(0, File { path: format!("{stem}.rs").into(), contents: text.into_bytes() });
        Ok(files)
    }
}

impl Items {
    /// The text of the tables and of the functions.
    fn format(&self) -> Result<(Vec<String>, Vec<String>)> {
        let tables = self.tables.iter().map(format).collect::<Result<_>>()?;
        Ok((tables, self.functions.iter().flatten().map(format).collect::<Result<_>>()?))
    }
}

/// Adds items to an empty module.
fn nested(module: &TokenStream, items: &[String]) -> Result<String> {
    let empty = format(module)?;
    let open = empty.trim_end().strip_suffix('}').ok_or_else(|| Error::internal("a module ends in a brace"))?;
    let mut text = open.trim_end().to_owned();
    text.push('\n');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        // Literals escape line ends, so every line may be indented.
        for line in item.lines() {
            if !line.is_empty() {
                text.push_str(INDENTATION);
                text.push_str(line);
            }
            text.push('\n');
        }
    }
    text.push_str("}\n");
    Ok(text)
}

/// Splits functions into chunks for files.
fn chunks(functions: Vec<String>) -> Vec<String> {
    let mut chunks: Vec<String> = Vec::new();
    for function in functions {
        match chunks.last_mut() {
            Some(chunk) if chunk.len() + function.len() <= FILE_SIZE => {
                chunk.push('\n');
                chunk.push_str(&function);
            }
            _ => chunks.push(function),
        }
    }
    chunks
}

/// Formats an item by prettyplease.
fn format(item: &TokenStream) -> Result<String> {
    let file = syn::parse2(item.clone())
        .map_err(|error| Error::internal(format!("generated code is not Rust: {error}")))
        .context(|| "formatting generated code")?;
    let text = prettyplease::unparse(&file);
    let text = comments::convert(&text);
    Ok(if text.contains("\nimpl ") { spaced(&text) } else { text.into_owned() })
}

/// Inserts empty lines between the methods of an implementation.
fn spaced(text: &str) -> String {
    let end = format!("{INDENTATION}}}");
    let mut spaced = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        spaced.push_str(line);
        spaced.push('\n');
        if line == end && lines.peek().is_some_and(|next| *next != "}") {
            spaced.push('\n');
        }
    }
    spaced
}
