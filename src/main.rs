//! The `incarnate` command line.

fn main() -> std::process::ExitCode {
    incarnate::cli::main(std::env::args_os())
}
