//! Examples in the help of each command; a test checks that they are valid.

pub(super) const RUN: &str = "Examples:
  incarnate run mul.vmfb --function=mul --input=4xf32=1,2,3,4 --input=4xf32=2
  incarnate run net.onnx --input=@image.npy
  incarnate run --module=mlp.vmfb --input=@x.npy --expected_output=@y.npy --device=local-task
  incarnate run --module=model.vmfb --parameters=model=weights.safetensors --input=@x.npy --output=@y.npy
  incarnate run --module=anyones.vmfb --untrusted --input=1x8xf32=0
  incarnate run --module=mlp.vmfb --input=@x.npy --profile=trace.json";

pub(super) const CHAT: &str = "Examples:
  incarnate chat model.gguf
  incarnate chat SmolLM2-135M-Instruct/
  incarnate chat model.gguf --prompt='Why is the sky blue?' --temperature=0 --max-tokens=100
  incarnate build model.gguf --with-weights -o talk && ./talk chat";

pub(super) const SERVE: &str = "Examples:
  incarnate serve model.gguf
  incarnate serve model.gguf --listen=0.0.0.0:8000 --name=assistant --slots=8 --context=8192
  incarnate build model.gguf --slots=8 --feature=serve -o talk && ./talk serve model.gguf";

pub(super) const COMPILE: &str = "Examples:
  incarnate compile net.onnx -o net.vmfb
  incarnate compile --setup
  incarnate compile model.mlir -o model.vmfb --target=both
  incarnate compile model.mlir -o model.vmfb --target=aarch64-unknown-linux-gnu:cortex-a72 -- --iree-opt-level=O2";

pub(super) const BENCH: &str = "Examples:
  incarnate bench --module=mlp.vmfb --function=mlp --input=8x32xf32=1
  incarnate bench --module=mlp.vmfb --input=@x.npy --benchmark_min_time=2s --benchmark_format=json
  incarnate bench --module=mlp.vmfb --input=@x.npy --compare
  incarnate bench --module=vmvx.vmfb --against=llvm-cpu.vmfb --input=8x32xf32=1 --compare";

pub(super) const CHECK: &str = "Examples:
  incarnate check tests.vmfb
  incarnate check build/tests --jobs=8 --junit=report.xml --device=local-task";

pub(super) const DUMP: &str = "Examples:
  incarnate dump model.vmfb --output=metadata
  incarnate dump model.vmfb --function=predict
  incarnate dump model.vmfb --output=graph | dot -Tsvg -o model.svg";

pub(super) const DIFF: &str = "The exit status is 0 if the modules are equal and 1 if they differ.

Examples:
  incarnate diff before.vmfb after.vmfb --brief";

pub(super) const ASSEMBLE: &str = "Examples:
  incarnate assemble model.vmasm -o model.vmfb";

pub(super) const CONVERT: &str = "Examples:
  incarnate convert old.bmod -o new.vmfb";

pub(super) const TRANSLATE: &str = "Examples:
  incarnate translate model.vmfb -o src/model.rs
  incarnate translate model.vmfb -o src/model.rs --static-library=model.o";

pub(super) const WEB: &str = "\
Examples:
  incarnate web digits.vmfb -o digits
  incarnate web model.onnx -o model --reassociate";

pub(super) const BUILD: &str = "Examples:
  incarnate build model.vmfb -o model
  incarnate build model.vmfb -o model --target-cpu=x86-64-v3
  incarnate build model.mlir -o model --target=aarch64-unknown-linux-gnu --prefer=portable
  incarnate build model.vmfb -o model --static-library=model.o=model_linked_library_query";

pub(super) const PARAMETERS: &str = "Examples:
  incarnate parameters list model=weights.gguf --extract=model::layer.bias=bias.bin
  incarnate parameters convert weights.safetensors --rename=old=new --exclude=unused -o weights.irpa
  incarnate parameters convert weights.irpa --strip -o zeros.irpa
  incarnate parameters create --data=a=@array.npy --data=b=4xf32=1,2,3,4 --splat=c=4096xf32=0.5 -o made.irpa";

pub(super) const COMPLETIONS: &str = "Examples:
  incarnate completions bash
  incarnate completions zsh";

pub(super) const MAN: &str = "Examples:
  incarnate man
  incarnate man --output=man1";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::command_line::CommandLine;

    #[test]
    fn examples_are_valid() {
        let commands = [
            super::RUN,
            super::COMPILE,
            super::BENCH,
            super::CHECK,
            super::DUMP,
            super::ASSEMBLE,
            super::CONVERT,
            super::DIFF,
            super::TRANSLATE,
            super::BUILD,
            super::WEB,
            super::PARAMETERS,
            super::COMPLETIONS,
            super::MAN,
        ];
        for text in commands {
            let examples: Vec<&str> = text.lines().filter(|line| line.starts_with("  incarnate ")).collect();
            assert!(!examples.is_empty(), "{text}");
            for example in examples {
                let example = example.split(" | ").next().unwrap_or_default();
                let parsed = CommandLine::try_parse_from(example.split_whitespace());
                assert!(parsed.is_ok(), "{example}: {parsed:?}");
            }
        }
    }
}
