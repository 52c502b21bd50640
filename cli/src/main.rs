//! The `incarnate` command line.

fn main() -> std::process::ExitCode {
    incarnate_cli::main(std::env::args_os())
}
