//! Modules with assembled executables: the program `host.vmasm` around a kernel, translated as trusted and as
//! untrusted.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use incarnate_bytecode::assemble;
use incarnate_translator::Config;

/// The texts of the kernels.
const KERNELS: [&str; 5] = ["deep", "hoard", "pause", "race", "spin"];

/// Translates them, and writes `kernels.rs`: their modules, and a table of them. `source` is this folder.
pub(crate) fn translate(source: &Path, out_dir: &Path) {
    println!("cargo::rerun-if-changed={}", source.display());
    let read = |name: &str| fs::read_to_string(source.join(name)).unwrap();
    let host = read("host.vmasm");
    let (mut modules, mut table) = (String::new(), String::new());
    for kernel in KERNELS {
        let executable = assemble(&read(&format!("{kernel}.vmasm"))).unwrap();
        let executable: String = executable.iter().map(|byte| format!("{byte:02X}")).collect();
        let file = out_dir.join(format!("kernel_{kernel}.vmfb"));
        fs::write(&file, assemble(&host.replace("EXECUTABLE", &executable)).unwrap()).unwrap();
        for untrusted in [false, true] {
            let name = format!("kernel_{kernel}{}", if untrusted { "_untrusted" } else { "" });
            let written = Config::new().module_name(&name).untrusted(untrusted).compile(&file).unwrap();
            assert_eq!(written.executables, ["1 executable of format vmvx-bytecode-fb: translated"]);
            writeln!(modules, "mod {name} {{ include!({:?}); }}", out_dir.join(format!("{name}.rs"))).unwrap();
        }
        writeln!(
            table,
            "    Kernel {{ name: {kernel:?}, file: include_bytes!({file:?}), translated: || kernel_{kernel}::module(), \
             untrusted: || kernel_{kernel}_untrusted::module() }},"
        )
        .unwrap();
    }
    let kernels =
        format!("{modules}\n/// The kernels, by their names.\npub const KERNELS: &[Kernel] = &[\n{table}];\n");
    fs::write(out_dir.join("kernels.rs"), kernels).unwrap();
}
