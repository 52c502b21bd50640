//! Chat templates of models, and hostile ones.

use incarnate_bytecode::StatusCode;

use super::{Data, byte_level};
use crate::{ChatTemplate, Message};

fn conversation() -> Vec<Message> {
    [("system", "Be brief."), ("user", " 1 < 2? "), ("assistant", "Yes & no."), ("user", "Why?")]
        .map(|(role, content)| Message::new(role, content))
        .to_vec()
}

fn render(source: &str) -> String {
    ChatTemplate::new(source, "<s>", "</s>").unwrap().render(&conversation(), true).unwrap()
}

fn error(source: &str) -> (StatusCode, String) {
    let error =
        ChatTemplate::new(source, "", "").and_then(|template| template.render(&conversation(), true)).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 400, "{text}");
    (error.code(), text)
}

/// The template of SmolLM2-135M-Instruct.
const SMOLLM_2: &str = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

#[test]
fn a_template_of_a_file_is_rendered() {
    let metadata = byte_level("smollm").set("tokenizer.chat_template", Data::Text(SMOLLM_2.into()));
    let template = ChatTemplate::from_gguf(&metadata.file().unwrap()).unwrap();
    let system = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n";
    let prompt = template.render(&[Message::new("user", "Hi")], true).unwrap();
    assert_eq!(prompt, format!("{system}<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"));
    let prompt = template.render(&conversation()[..2], false).unwrap();
    assert_eq!(prompt, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n 1 < 2? <|im_end|>\n");
    let tokens = metadata.tokenizer().unwrap().encode(&prompt, true);
    assert_eq!(tokens.iter().filter(|token| **token < 4).collect::<Vec<_>>(), [&1, &2, &1, &2]);
    let metadata = metadata.set("tokenizer.chat_template", Data::Text("{{ bos_token }}|{{ eos_token }}".into()));
    let template = ChatTemplate::from_gguf(&metadata.file().unwrap()).unwrap();
    assert_eq!(template.render(&[], false).unwrap(), "<|im_start|>|<|im_end|>");
}

#[test]
fn features_of_published_templates_work() {
    // Llama 2: namespaces, exceptions, methods, inline conditions.
    let llama_2 = "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}";
    assert_eq!(
        render(llama_2),
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n 1 < 2? [/INST] Yes & no. </s><s>[INST] Why? [/INST]"
    );
    // Blocks take their line; tools are none.
    assert_eq!(
        render(
            "{%- if not tools is defined %}\n  never\n{%- endif %}\n  {% if tools is none %}\nno tools\n  {% endif %}\nend\n"
        ),
        "no tools\nend"
    );
    assert_eq!(
        render(
            "{% set ns = namespace(n=0) %}{% for m in messages %}{% if m.role.startswith('a') %}{% continue %}{% endif %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}"
        ),
        "3"
    );
    assert_eq!(render("{{ messages[1].content.strip().split(' ')[-1] ~ messages[-1]['content'].upper() }}"), "2?WHY?");
    assert_eq!(
        render("{{ messages[1].content | tojson }}{{ {'a\\\\u003c': \"it's\"} | tojson(ensure_ascii=false) }}"),
        "\" 1 < 2? \"{\"a\\\\u003c\": \"it's\"}"
    );
    assert_eq!(
        render("{%- macro f(x) -%}{{ x }}!{%- endmacro -%}{{ f(messages|length) }}{{ messages[0].none is defined }}"),
        "4!False"
    );
    let date = render("{{ strftime_now('%d %b %Y') }}");
    assert!(date.len() == 11 && date.ends_with(|digit: char| digit.is_ascii_digit()), "{date}");
}

#[test]
fn errors_are_lines_with_their_code() {
    let (code, text) = error("a\n{{ raise_exception('Only user\n and assistant roles!') }}");
    assert_eq!(code, StatusCode::InvalidArgument);
    assert!(text.contains("line 2") && text.contains("Only user\\n and assistant roles!"), "{text}");
    assert_eq!(error("{% if %}").0, StatusCode::InvalidArgument);
    assert_eq!(error("{{ messages.a.b.c }}").0, StatusCode::InvalidArgument);
    assert_eq!(error("{{ unknown() }}").0, StatusCode::Unimplemented);
    assert_eq!(error("{{ 'x' | unknown }}").0, StatusCode::Unimplemented);
    assert_eq!(error("{{ strftime_now('%!') }}").0, StatusCode::InvalidArgument);
    assert_eq!(error(&format!("{{{{ raise_exception('{}') }}}}", "x".repeat(10_000))).0, StatusCode::InvalidArgument);
    let missing = ChatTemplate::from_gguf(&byte_level("smollm").file().unwrap()).unwrap_err();
    assert_eq!(missing.code(), StatusCode::NotFound);
}

#[test]
fn loops_and_long_texts_are_bounded() {
    let double = "{% set ns = namespace(x='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    for source in [
        double,
        &double.replace("ns.x ~ ns.x", "ns.x + ns.x"),
        &double.replace("ns.x ~ ns.x", "ns.x.replace('x', 'xxxxxxxx')"),
        &double.replace("ns.x ~ ns.x", "[ns.x, ns.x] | join"),
        &double.replace("ns.x ~ ns.x", "[ns.x, ns.x] | tojson"),
        &double.replace("ns.x ~ ns.x", "[ns.x, ns.x]"),
        "{{ 'x' * 99999999 }}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ messages[0].content }}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ '%999999999d' | format(1) }}",
        "{{ strftime_now('%999999999Y') }}",
        "{{ '{:>999999999}'.format('x') }}",
        "{{ '{:>{}}'.format('x', 999999999) }}",
    ] {
        let (code, text) = error(source);
        assert!(
            matches!(code, StatusCode::ResourceExhausted | StatusCode::InvalidArgument | StatusCode::Unimplemented),
            "{text}"
        );
    }
    assert_eq!(error(&"x".repeat(1 << 19)).0, StatusCode::ResourceExhausted);
}

/// Renders a template whatever it does, and returns whether it failed.
fn fails(source: &str) -> bool {
    ChatTemplate::new(source, "", "").and_then(|template| template.render(&[], false)).is_err()
}

#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    // No more than 150 levels of brackets and blocks are parsed.
    for (open, close) in [("(", ")"), ("[", "]"), ("{1:", "}")] {
        assert!(fails(&format!("{{{{ {}1{} }}}}", open.repeat(10_000), close.repeat(10_000))));
    }
    assert!(fails(&"{% if 1 %}".repeat(5_000)) && fails(&"{% for x in [1] %}".repeat(3_000)));
    for (first, rest) in [
        ("1", "+1"),
        ("1", "|abs"),
        ("x", ".x"),
        ("x", "[0]"),
        ("x", "()"),
        ("1", " if 1 else 1"),
        ("1", "**1"),
        ("1", "<1"),
        ("1", " is odd"),
        ("1", " and 1"),
    ] {
        fails(&format!("{{{{ {first}{} }}}}", rest.repeat(65_000 / rest.len())));
    }
    // Constants are folded in time that is quadratic in the length of the expression.
    fails(&format!("{{{{ 1{} }}}}", "~1".repeat(3_000)));
    fails(&format!("{{{{ {}1 }}}}", "-".repeat(65_000)));
    fails(&format!("{{{{ {}1 }}}}", "not ".repeat(16_000)));
    assert!(!fails(&format!("{{% if 0 %}}{}{{% endif %}}", "{%elif 0%}".repeat(6_500))));
}

#[test]
fn deep_values_do_not_overflow_the_stack() {
    let many = |set: &str, then: &str| {
        format!(
            "{{% set ns = namespace(x=[1], y=1) %}}{{% for i in range(99999) %}}{{%- {set} -%}}{{% endfor %}}{then}"
        )
    };
    for set in [
        "set ns.x = [ns.x]",
        "set ns.x={'a': ns.x}",
        "set ns.x = (ns.x, ns)",
        "set ns.x = ns",
        "set ns.y , ns.x = 1, [ns.x]",
    ] {
        for then in
            ["", "{{ ns }}", "{{ ns.x | tojson }}", "{{ ns.x == [ns.x] }}", "{{ ns.x ~ 'a' }}", "{{ [ns] | join }}"]
        {
            assert!(fails(&many(set, then)), "{set} {then}");
        }
    }
    // Values that are computed when they are used.
    for set in
        ["set ns.x = ns.x[0:]", "set ns.x = ns.x * 1", "set ns.x = ns.x | reverse", "set ns.x = ns.x | map('upper')"]
    {
        fails(&many(set, "{{ ns.x }}"));
    }
    // Values that grow from statement to statement, and from call to call.
    let sets = "{% set x = [[[[x]]]] %}".repeat(2_000);
    for then in ["", "{{ x }}", "{{ x | tojson }}", "{{ x == [x] }}"] {
        fails(&format!("{{% set x = 1 %}}{sets}{then}"));
        fails(&format!(
            "{{% macro f(x, n) %}}{sets}{{% if n %}}{{{{ f(x, n - 1) }}}}{{% else %}}{then}{{% endif %}}{{% endmacro %}}{{{{ f(1, 90) }}}}"
        ));
    }
}

#[test]
fn values_of_namespaces_are_copies() {
    let source = "{% set ns = namespace() %}{%- set ns.a = '%}=\\'' ~ {'k': [1, (2, 'x=y')]}.k|string -%}\n{{ ns.a }}
{% set ns.b = 1 if ns.a == 'q.=' else {'z': none, 'k': [true, messages[0]]} %}{{ ns.b.k[1].content }}{{ ns.b.z }}{{ {'a': {}} }}
{% raw %}{% set ns.c = [1 %}{{ {% endraw %}{# {% set ns.d = 1 %} '#}{% set x = 'a.b' == 'a.b' %}{{ x }}
{% set ns.e %}text{% endset %}{{ ns.e }}{{ \"{% set ns.f = 1 %}\" }}";
    assert_eq!(
        render(source),
        "%}='[1, (2, 'x=y')]\nBe brief.None{'a': {}}\n{% set ns.c = [1 %}{{ True\ntext{% set ns.f = 1 %}"
    );
}
