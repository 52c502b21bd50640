//! What `incarnate build` reports where it cannot build.

use std::fs;
use std::path::Path;

use crate::program;
use crate::scratch::Scratch;

#[test]
#[cfg(unix)]
fn build_reports_what_another_machine_needs() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new("build-target");
    let rustc = scratch.path("rustc");
    // Stands for rustc with a standard library at `library`.
    let build = |library: &str, more: &[&str]| {
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *unknown-target*) exit 1;; *libdir*) echo {library};; \
             *) echo 'target_arch=\"riscv64\"'; echo 'target_os=\"linux\"';; esac\n"
        );
        fs::write(&rustc, script).expect("a file");
        fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).expect("permissions");
        let mut command = program::incarnate();
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"));
        command.args(["build", "scalars/vmvx.vmfb", "-o", &scratch.path("program")]).args(more);
        command
            .env("XDG_CACHE_HOME", &scratch.0)
            .env("RUSTC", &rustc)
            .env("PATH", "/nowhere")
            .env("CARGO", "/bin/false");
        let linker = "CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER";
        let output = command.env_remove(linker).output().expect("the command line starts");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        error
    };
    let (here, target) = (scratch.path(""), "--target=riscv64gc-unknown-linux-gnu");
    for (library, arguments, what) in [
        (here.as_str(), &["--target=unknown-target"][..], "rustc knows no target `unknown-target`"),
        ("/nowhere", &[target], "is not installed: `rustup target add riscv64gc-unknown-linux-gnu`"),
        (
            &here,
            &[target],
            "riscv64-linux-gnu-gcc is not in PATH (Debian's package gcc-riscv64-linux-gnu); --linker names",
        ),
        (&here, &[target, "--linker=ld"], "cargo could not build"),
        (&here, &["--linker=ld"], "--linker=ld is for programs for another machine: --target=TRIPLE names it"),
        (&here, &["--target=portable"], "--target=portable is for models, and no file is one"),
    ] {
        let error = build(library, arguments);
        assert!(error.contains(what), "{arguments:?}: {error}");
    }
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "QEMU's user mode has no error for programs that do not exist")]
fn build_reports_missing_tools() {
    let scratch = Scratch::new("build-failures");
    let target = scratch.path("program");
    let build = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = program::incarnate();
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"));
        command.args(["build", "scalars/vmvx.vmfb", "-o", &target]).args(more);
        command.env("XDG_CACHE_HOME", &scratch.0).envs(variables.iter().copied());
        let output = command.output().expect("the command line starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = build(&[("CARGO", "/no/such/cargo")], &[]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cannot run '/no/such/cargo'") && error.contains("rustup.rs"), "{error}");
    let (code, error) = build(&[], &["--incarnate-source=/no/such/folder"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("'/no/such/folder' is not a workspace of incarnate"), "{error}");
    let (code, error) = build(&[], &["--target-cpu=no cpu"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("'no cpu' is not the name of a CPU"), "{error}");
    let cut = scratch.path("cut.vmfb");
    fs::write(&cut, b"no module").expect("a file");
    let (code, error) = build(&[], &[&cut]);
    assert_eq!(code, Some(1));
    assert!(error.lines().count() == 1 && error.contains(&cut), "{error}");
    // A program that every system has, and that fails with the arguments of cargo.
    let failing = if cfg!(windows) { "hostname" } else { "false" };
    let (code, error) = build(&[("CARGO", failing)], &[]);
    assert_eq!(code, Some(1));
    assert!(error.contains("cargo could not build"), "{error}");
    assert!(!Path::new(&target).exists());
}

/// Opening a project waits for the builds of other processes.
#[test]
#[cfg(unix)]
fn files_that_are_no_modules_are_refused_before_the_project_is_opened() {
    let scratch = Scratch::new("build-lock");
    let wrong = scratch.path("wrong.vmfb");
    fs::write(&wrong, b"no module").expect("a file");
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models/scalars/vmvx.vmfb");
    let module = module.to_str().expect("a path");
    let projects = scratch.0.join("incarnate/build");
    for (files, error_of, is_opened) in [
        (&[wrong.as_str()][..], "wrong.vmfb", false),
        (&[module, wrong.as_str()], "wrong.vmfb", false),
        (&["missing.vmfb"], "missing.vmfb", false),
        (&[module], "cargo could not build", true),
    ] {
        let mut command = program::incarnate();
        command.arg("build").args(files).args(["-o", &scratch.path("program")]);
        let output =
            command.env("XDG_CACHE_HOME", &scratch.0).env("CARGO", "false").output().expect("the command line");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && error.contains(error_of), "{files:?}: {error}");
        assert_eq!(projects.exists(), is_opened, "{files:?}");
    }
}

/// A cache is a help, and no condition: without one, programs are built in a temporary folder.
#[test]
#[cfg(unix)]
fn programs_are_built_without_a_cache() {
    use std::os::unix::fs::PermissionsExt;

    let scratch = Scratch::new("build-no-cache");
    let (cargo, temporary, file) = (scratch.path("cargo"), scratch.path("tmp"), scratch.path("file"));
    fs::create_dir(&temporary).expect("a folder");
    fs::write(&file, "where the cache should be").expect("a file");
    // Stands for cargo: writes the programs of `build` and of `web`.
    let script = "#!/bin/sh\n[ \"$1\" = metadata ] && exit\nfor name in release/incarnate-program \
                  wasm32-unknown-unknown/release/incarnate_web_program.wasm; do\n  mkdir -p \"target/${name%/*}\"\n  \
                  echo program > \"target/$name\"\ndone\n";
    fs::write(&cargo, script).expect("a file");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("permissions");
    for (command, output) in [("build", "program"), ("web", "package")] {
        for cache in [None, Some(&file)] {
            let mut program = program::incarnate();
            program.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models"));
            program.args([command, "scalars/vmvx.vmfb", "-o", &scratch.path(output)]);
            for name in ["XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"] {
                program.env_remove(name);
            }
            program.envs(cache.map(|file| ("XDG_CACHE_HOME", file)));
            let output = program.env("TMPDIR", &temporary).env("CARGO", &cargo).output().expect("the command line");
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && error.lines().count() == 1, "{command}: {error}");
            assert!(error.starts_with("note: compiled dependencies of programs are not kept: "), "{error}");
            assert_eq!(fs::read_dir(&temporary).expect("the folder").count(), 0);
        }
    }
    assert_eq!(fs::read_to_string(scratch.path("program")).expect("the program"), "program\n");
    assert_eq!(fs::read_to_string(scratch.path("package/package.wasm")).expect("the program"), "program\n");
}
