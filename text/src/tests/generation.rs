//! Generations of a model whose answers are known.

use core::ops::ControlFlow;

use incarnate_bytecode::{Error, Result};

use super::byte_level;
use crate::generation::{Conversation, Finish, Generation, LanguageModel};
use crate::{Sampler, SamplerOptions, StopTexts, Tokenizer};

/// Answers with the tokens of a script, by position, and notes what it reads.
struct Scripted {
    script: Vec<u32>,
    context: usize,
    reads: Vec<(usize, usize)>,
    logits: Vec<f32>,
    fails_at: Option<usize>,
}

impl LanguageModel for Scripted {
    fn context(&self) -> usize {
        self.context
    }

    fn logits(&mut self, _: usize, tokens: &[u32], position: usize) -> Result<&mut [f32]> {
        if self.fails_at == Some(position) {
            return Err(Error::resource_exhausted("no memory"));
        }
        self.reads.push((position, tokens.len()));
        self.logits.fill(0.0);
        let next = self.script[(position + tokens.len()) % self.script.len()];
        self.logits[next as usize] = 1.0;
        Ok(&mut self.logits)
    }
}

fn generate(
    model: &mut Scripted,
    tokenizer: &Tokenizer,
    conversation: &mut Conversation,
    prompt: &[u32],
    (limit, stop): (usize, &[&str]),
) -> (Result<crate::generation::Generated>, String) {
    let mut sampler = Sampler::new(SamplerOptions { temperature: 0.0, ..SamplerOptions::default() });
    let stop = StopTexts::new(stop.iter().copied());
    let mut text = String::new();
    let generation =
        Generation { tokenizer, sampler: &mut sampler, stop, limit, constraint: None, log_probabilities: None };
    let generated = conversation.generate(model, prompt, generation, |part| {
        text.push_str(part);
        Ok(if text.contains('!') { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    (generated, text)
}

fn scripted(tokenizer: &Tokenizer, script: &str) -> Scripted {
    let mut script = tokenizer.encode(script, false);
    script.push(tokenizer.end_tokens()[0]);
    let logits = vec![0.0; tokenizer.token_count()];
    Scripted { script, context: 64, reads: Vec::new(), logits, fails_at: None }
}

#[test]
fn a_generation_ends_where_it_should() {
    let tokenizer = byte_level("smollm").tokenizer().unwrap();
    let prompt = tokenizer.encode("one", false)[..1].to_vec();
    let whole = "one two three four";
    let length = tokenizer.encode(whole, false).len();
    for (script, limit, stop, context, finish, text) in [
        (whole, 100, &[][..], 64, Finish::End, whole.strip_prefix(&tokenizer.decode(&prompt)).unwrap()),
        (whole, 1, &[], 64, Finish::Length, ""),
        (whole, 100, &["three"], 64, Finish::Stop, ""),
        (whole, 100, &[], 3, Finish::Context, ""),
        ("one two! three", 100, &[], 64, Finish::Interrupted, ""),
    ] {
        let mut model = scripted(&tokenizer, script);
        model.context = context;
        let mut conversation = Conversation::new();
        let (generated, written) = generate(&mut model, &tokenizer, &mut conversation, &prompt, (limit, stop));
        let generated = generated.unwrap();
        assert_eq!(generated.finish, finish, "{script}: {written}");
        match finish {
            Finish::End => assert_eq!((&*written, generated.written), (text, length)),
            Finish::Length => assert_eq!(generated.written, 1),
            Finish::Stop => assert!(written.ends_with("two ") && !written.contains("three"), "{written}"),
            Finish::Context => assert_eq!(conversation.tokens().len(), 3),
            Finish::Interrupted => assert!(written.contains('!') && !written.contains("three"), "{written}"),
        }
    }
}

#[test]
fn a_prompt_is_read_from_where_it_differs() {
    let tokenizer = byte_level("smollm").tokenizer().unwrap();
    let mut model = scripted(&tokenizer, "one two");
    let mut conversation = Conversation::new();
    let long: Vec<u32> = (0..40).map(|index| index % 7).collect();
    model.script = vec![1];
    let (generated, _) = generate(&mut model, &tokenizer, &mut conversation, &long, (2, &[]));
    assert_eq!(generated.unwrap().read, 40);
    // The same prompt again: only its last token is read.
    model.reads.clear();
    let (generated, _) = generate(&mut model, &tokenizer, &mut conversation, &long, (1, &[]));
    assert_eq!((generated.unwrap().read, &model.reads[..]), (1, &[(39, 1)][..]));
    let mut other = long.clone();
    other[30] = 6;
    model.reads.clear();
    generate(&mut model, &tokenizer, &mut conversation, &other, (1, &[])).0.unwrap();
    assert_eq!(model.reads, [(30, 10)]);
    // After an error, the conversation has what the model read.
    model.fails_at = Some(20);
    other[20] = 1;
    let (generated, text) = generate(&mut model, &tokenizer, &mut conversation, &other, (1, &[]));
    assert!(generated.unwrap_err().to_string().contains("no memory") && text.is_empty());
    assert_eq!(conversation.tokens(), &other[..20]);
    model.fails_at = None;
    assert!(generate(&mut model, &tokenizer, &mut conversation, &other, (1, &[])).0.is_ok());
    for prompt in [vec![], vec![1; 64]] {
        let error = generate(&mut model, &tokenizer, &mut conversation, &prompt, (1, &[])).0.unwrap_err();
        assert!(error.to_string().contains("for a context of 64"), "{error}");
    }
}

#[test]
fn long_prompts_are_read_in_parts() {
    let tokenizer = byte_level("smollm").tokenizer().unwrap();
    let mut model = scripted(&tokenizer, "one");
    (model.context, model.script) = (1000, vec![1]);
    let prompt = vec![2; 600];
    generate(&mut model, &tokenizer, &mut Conversation::new(), &prompt, (1, &[])).0.unwrap();
    assert_eq!(model.reads, [(0, 128), (128, 128), (256, 128), (384, 128), (512, 88)]);
}
