//! Texts of constraints: each that ends has the form that was asked for, whatever a model takes for likely.

use serde_json::{Value, json};

use super::{byte_level, sentence_piece};
use crate::generation::{Conversation, Finish, Generated, Generation, LanguageModel};
use crate::{Constraint, ConstraintCompiler, Sampler, SamplerOptions, StopTexts, Tokenizer};

/// Logits that differ from position to position, without any sense.
struct Babbler {
    logits: Vec<f32>,
    seed: usize,
}

impl LanguageModel for Babbler {
    fn context(&self) -> usize {
        2000
    }

    fn logits(&mut self, _: usize, tokens: &[u32], position: usize) -> incarnate_bytecode::Result<&mut [f32]> {
        let start = (self.seed + position + tokens.len()) * 104_729;
        self.logits
            .iter_mut()
            .enumerate()
            .for_each(|(token, logit)| *logit = ((start + token * 7919) % 97) as f32 / 20.0);
        Ok(&mut self.logits)
    }
}

fn babble(tokenizer: &Tokenizer, constraint: &Constraint, seed: usize) -> (Generated, String) {
    // More logits than tokens, as some models have them.
    let mut model = Babbler { logits: vec![0.0; tokenizer.token_count() + 7], seed };
    let options = SamplerOptions { seed: seed as u64, ..SamplerOptions::default() };
    let generation = Generation {
        tokenizer,
        sampler: Sampler::new(options),
        stop: StopTexts::new::<String>([]),
        limit: 700,
        constraint: Some(constraint.clone()),
        log_probabilities: None,
    };
    let mut text = String::new();
    let generated = Conversation::new().generate(&mut model, &[5], generation, |part| {
        text.push_str(part);
        Ok(core::ops::ControlFlow::Continue(()))
    });
    (generated.unwrap(), text)
}

fn tokenizers() -> [Tokenizer; 2] {
    [byte_level("gpt-2"), sentence_piece()].map(|metadata| metadata.tokenizer().unwrap())
}

#[test]
fn texts_follow_a_schema() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 5},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "price": {"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 9},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "minItems": 1, "maxItems": 3},
            "day": {"type": "string", "pattern": "^[0-3][0-9]$"}
        },
        "required": ["name", "age", "price", "tags", "day"],
        "additionalProperties": false,
        "$defs": {"tag": {"enum": ["a", "b", 7, null]}}
    });
    for tokenizer in tokenizers() {
        let constraint = ConstraintCompiler::new(&tokenizer).unwrap().json_schema(&schema.to_string()).unwrap();
        for seed in 0..8 {
            let (generated, text) = babble(&tokenizer, &constraint, seed);
            assert_eq!(generated.finish, Finish::End, "{text}");
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            let fields = value.as_object().unwrap();
            assert_eq!(fields.len(), 5, "{text}");
            assert!(fields["name"].as_str().unwrap().chars().count() <= 5, "{text}");
            assert!(fields["age"].as_u64().unwrap() <= 120, "{text}");
            let price = fields["price"].as_f64().unwrap();
            assert!((0.0..=9.0).contains(&price) && price * 4.0 == (price * 4.0).trunc(), "{text}");
            let tags = fields["tags"].as_array().unwrap();
            let is_tag = |tag: &Value| [json!("a"), json!("b"), json!(7), Value::Null].contains(tag);
            assert!((1..=3).contains(&tags.len()) && tags.iter().all(is_tag), "{text}");
            let day = fields["day"].as_str().unwrap().as_bytes();
            assert!(matches!(day, [b'0'..=b'3', b'0'..=b'9']), "{text}");
        }
    }
}

#[test]
fn texts_are_objects_or_follow_a_grammar() {
    for tokenizer in tokenizers() {
        let compiler = ConstraintCompiler::new(&tokenizer).unwrap();
        let object = compiler.json_object().unwrap();
        let ended = (0..8)
            .map(|seed| babble(&tokenizer, &object, seed))
            .filter(|(generated, _)| generated.finish == Finish::End);
        let ended: Vec<String> = ended.map(|(_, text)| text).collect();
        assert!(!ended.is_empty());
        for text in ended {
            match serde_json::from_str::<Value>(&text) {
                Ok(value) => assert!(value.is_object(), "{text}"),
                // JSON's numbers have no bounds; those of the crate have.
                Err(error) => assert!(error.to_string().contains("number out of range"), "{error}: {text}"),
            }
        }
        let sum = compiler.grammar("start: term (\"+\" term)*\nterm: /[0-9]{1,3}/ | \"(\" start \")\"\n").unwrap();
        for seed in 0..8 {
            let (generated, text) = babble(&tokenizer, &sum, seed);
            let opened = text.matches('(').count();
            let is_sum = text.chars().all(|character| "0123456789+()".contains(character)) && !text.contains("++");
            assert!(is_sum, "{text}");
            if generated.finish == Finish::End {
                assert_eq!(text.matches(')').count(), opened, "{text}");
            }
        }
        // The text that ends is known to end without a token for it.
        let (generated, text) = babble(&tokenizer, &compiler.grammar("start: \"yes\" | \"no\"\n").unwrap(), 1);
        assert!(text == "yes" || text == "no", "{text}");
        assert_eq!(generated.finish, Finish::End);
    }
}

#[test]
fn tokens_that_may_not_follow_are_errors() {
    let [tokenizer, _] = tokenizers();
    let mut constraint = ConstraintCompiler::new(&tokenizer).unwrap().grammar("start: \"ab\" <|im_end|>\n").unwrap();
    let token = |text: &str| tokenizer.encode(text, false)[0];
    let allowed = |constraint: &mut Constraint| {
        let mut logits = vec![0.0; tokenizer.token_count()];
        constraint.mask(&mut logits).unwrap();
        (0..).zip(logits).filter(|(_, logit)| *logit == 0.0).map(|(token, _)| token).collect::<Vec<u32>>()
    };
    let first = allowed(&mut constraint);
    assert!(first.contains(&token("a")) && first.iter().all(|token| b"ab".starts_with(tokenizer.token_bytes(*token))));
    constraint.advance(token("a")).unwrap();
    let mut other = constraint.clone();
    assert_eq!(allowed(&mut constraint), [token("b")]);
    // A control token that the grammar names.
    constraint.advance(token("b")).unwrap();
    assert_eq!(allowed(&mut constraint), tokenizer.encode("<|im_end|>", true));
    let error = other.advance(token("x")).unwrap_err().to_string();
    assert!(error.contains("the constraint of the text") && !error.contains('\n'), "{error}");
    assert!(other.mask(&mut [0.0; 3]).is_err() && !other.is_complete());
}

/// A chain of rules, in each of which the next one stands.
fn chain(count: usize, rule: impl Fn(usize) -> String) -> String {
    let rules: String = (0..count).map(|index| format!("T{index}: {}\n", rule(index))).collect();
    format!("start: T0\n{rules}T{count}: \"x\"\n")
}

/// Schemas that would take too much time, memory or stack, and wrong ones.
fn bad_schemas() -> Vec<(String, &'static str)> {
    let many = |count: usize, schema: fn(usize) -> Value| (0..count).map(schema).collect::<Value>();
    let properties = |count: usize| -> serde_json::Map<String, Value> {
        (0..count).map(|index| (format!("k{index}"), json!({"type": "string"}))).collect()
    };
    let option = |index: usize| json!({"anyOf": [{"properties": {format!("a{index}"): {}}}, {"required": [format!("b{index}")]}]});
    let patterns = many(50, |index| json!({"type": "string", "pattern": format!("a.{{{index}}}b")}));
    let names: serde_json::Map<String, Value> = (0..100).map(|index| (format!("^a.*{index}"), json!({}))).collect();
    vec![
        ("{".to_owned(), "EOF"),
        ("[".repeat(100_000), "recursion limit"),
        (format!("\"{}\"", "x".repeat(300_000)), "exceed the limit"),
        ("false".to_owned(), "Unsatisfiable"),
        (json!({"$ref": "#"}).to_string(), "no token"),
        (json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}).to_string(), "no token"),
        (json!({"$ref": "http://localhost/x"}).to_string(), "$ref"),
        (json!({"$ref": "file:///etc/passwd"}).to_string(), "$ref"),
        (json!({"not": {"type": "string"}}).to_string(), "not"),
        (json!({"oneOf": [{"type": "integer"}, {"type": "number"}]}).to_string(), "different types: use anyOf"),
        (json!({"items": {"oneOf": [{"minLength": 1}, {"maxLength": 2}]}}).to_string(), "different types: use anyOf"),
        (json!({"allOf": many(30, option)}).to_string(), "too large"),
        (json!({"allOf": patterns}).to_string(), "50 patterns and formats"),
        (json!({"patternProperties": names}).to_string(), "100 patternProperties"),
        (json!({"properties": properties(5000)}).to_string(), "5000 properties"),
        (json!({"type": "integer", "multipleOf": 99_999_989}).to_string(), "multipleOf"),
        (json!({"type": "number", "multipleOf": 1e-9}).to_string(), "multipleOf"),
        (json!([{"multipleOf": 317}, {"multipleOf": 3.31}]).to_string(), "multipleOf"),
        (json!({"type": "string", "pattern": "(".repeat(2000)}).to_string(), "regex"),
    ]
}

#[test]
fn hostile_schemas_and_grammars_are_errors() {
    let [tokenizer, _] = tokenizers();
    let compiler = ConstraintCompiler::new(&tokenizer).unwrap();
    for (schema, why) in bad_schemas() {
        let error = compiler.json_schema(&schema).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains('\n') && error.len() < 600, "{error}");
    }
    let doubled = |count| chain(count, |index| format!("T{0} T{0}", index + 1));
    let regexes: String = (0..20).map(|index| format!(" & /(.|\\n)*a(.|\\n){{{index}}}b(.|\\n)*/")).collect();
    for (grammar, why) in [
        (String::new(), "start"),
        ("start: start\n".to_owned(), "no token"),
        ("start: <nothing>\n".to_owned(), "special token"),
        (format!("start: {}\"a\"{}\n", "(".repeat(500), ")".repeat(500)), "nested"),
        ("start: %json {\"type\": \"string\"}\n".to_owned(), "%json"),
        (doubled(40), "too big"),
        (chain(5000, |index| format!("T{} \"x\"", index + 1)), "lines and brackets"),
        (format!("start: X\nX: /a/{regexes}\n"), "intersections"),
    ] {
        let error = compiler.grammar(&grammar).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains('\n') && error.len() < 600, "{error}");
    }
}

/// Schemas and grammars at the limits are compiled, on the stack that they have.
#[test]
fn deep_schemas_and_grammars_are_followed() {
    let [tokenizer, _] = tokenizers();
    let compiler = ConstraintCompiler::new(&tokenizer).unwrap();
    let array = |schema: Value| json!({"type": "array", "items": schema, "minItems": 1, "maxItems": 1});
    let deep = (0..60).fold(json!({"type": "null"}), |schema, _| array(schema));
    let (_, text) = babble(&tokenizer, &compiler.json_schema(&deep.to_string()).unwrap(), 3);
    assert_eq!(text.replace(char::is_whitespace, ""), format!("{}null{}", "[".repeat(60), "]".repeat(60)));
    let parts: [&dyn Fn(usize) -> String; 3] =
        [&|index| format!("\"a\" T{}? \"b\"", index + 1), &|index| format!("T{} \"x\"", index + 1), &|index| {
            format!("{}\"a\" T{}{}", "(".repeat(19), index + 1, ")".repeat(19))
        }];
    for (part, count) in parts.into_iter().zip([1900, 1900, 95]) {
        let mut constraint = compiler.grammar(&chain(count, part)).unwrap();
        constraint.mask(&mut vec![0.0; tokenizer.token_count()]).unwrap();
    }
}
