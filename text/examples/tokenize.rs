//! Prints the tokens of texts, one line for each text, and fails unless the tokens decode to the text again.
//!
//! ```console
//! $ cargo run -p incarnate-text --example tokenize -- model.gguf "Hello, world!"
//! $ cargo run -p incarnate-text --example tokenize -- --special model.gguf "<|im_start|>user"
//! ```

use std::sync::Arc;

use incarnate_bytecode::{Contents, Error, Result, ResultExt as _};
use incarnate_gguf::GgufFile;
use incarnate_text::Tokenizer;

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let parse_special = arguments.first().is_some_and(|argument| argument == "--special");
    if parse_special {
        arguments.remove(0);
    }
    let Some((path, texts)) = arguments.split_first() else {
        return Err(Error::invalid_argument("usage: tokenize [--special] MODEL TEXT..."));
    };
    let bytes = std::fs::read(path).context(|| path.clone())?;
    let tokenizer = Tokenizer::from_gguf(&GgufFile::read(Arc::new(Contents::from_vec(bytes)))?)?;
    let mut lost = 0;
    for text in texts {
        let tokens = tokenizer.encode(text, parse_special);
        println!("{}", tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
        // Special tokens have no text.
        if !parse_special && tokenizer.decode(&tokens) != *text {
            eprintln!("{text:?} became {:?}", tokenizer.decode(&tokens));
            lost += 1;
        }
    }
    match lost {
        0 => Ok(()),
        _ => Err(Error::data_loss(format!("{lost} texts are not those that their tokens decode to"))),
    }
}
