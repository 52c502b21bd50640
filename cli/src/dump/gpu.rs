//! The text of executables for GPUs.

use std::fmt;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use incarnate_runtime::Result;
use incarnate_runtime::bytecode::gpu_executable::spirv::{Analysis, capability_name};
use incarnate_runtime::bytecode::gpu_executable::{KernelExecutable, Pipeline, VulkanExecutable};
use incarnate_runtime::bytecode::{Escaped, EscapedLines, VerifiedModule};

use super::program::Executable;

/// Prints the functions and the code of an executable for a GPU; nothing for others.
pub(super) fn write(f: &mut fmt::Formatter<'_>, module: &VerifiedModule, executable: &Executable) -> fmt::Result {
    let bytes = executable.data.and_then(|ordinal| module.rodata_bytes(ordinal)).unwrap_or_default();
    if bytes.starts_with(VulkanExecutable::IDENTIFIER.as_bytes()) {
        return or_error(f, VulkanExecutable::read(&bytes), write_vulkan);
    }
    if KernelExecutable::IDENTIFIERS.iter().any(|identifier| bytes.starts_with(identifier.as_bytes())) {
        return or_error(f, KernelExecutable::read(&bytes), write_kernels);
    }
    Ok(())
}

fn or_error<T>(
    f: &mut fmt::Formatter<'_>,
    read: Result<T>,
    write: impl FnOnce(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    match read {
        Ok(executable) => write(f, &executable),
        Err(error) => writeln!(f, "        {error}"),
    }
}

fn write_vulkan(f: &mut fmt::Formatter<'_>, executable: &VulkanExecutable) -> fmt::Result {
    for (index, words) in executable.shader_modules.iter().enumerate() {
        // The executable was read, so its modules are well formed.
        let Ok(analysis) = Analysis::of(words) else { continue };
        let (major, minor) = analysis.version;
        write!(f, "        shader module {index}: SPIR-V {major}.{minor}, {} bytes, capabilities", words.len() * 4)?;
        for capability in &analysis.capabilities {
            match capability_name(*capability) {
                Some(name) => write!(f, " {name}")?,
                None => write!(f, " {capability}")?,
            }
        }
        analysis.extensions.iter().try_for_each(|name| write!(f, " {}", Escaped(name)))?;
        writeln!(f)?;
        for entry_point in &analysis.entry_points {
            let [x, y, z] = entry_point.workgroup_size;
            writeln!(f, "          entry point @{}, workgroups of {x}x{y}x{z}", Escaped(&entry_point.name))?;
        }
    }
    executable
        .pipelines
        .iter()
        .enumerate()
        .try_for_each(|(index, pipeline)| write_pipeline(f, executable, index, pipeline))
}

/// Prints the shader modules of a module's executables for Vulkan as comments of the assembler's text.
pub(super) fn shaders(module: &VerifiedModule, out: &mut dyn Write) -> io::Result<()> {
    for ordinal in 0..module.rodata_count() {
        let bytes =
            module.rodata_bytes(ordinal).filter(|bytes| bytes.starts_with(VulkanExecutable::IDENTIFIER.as_bytes()));
        let Some(Ok(executable)) = bytes.map(|bytes| VulkanExecutable::read(&bytes)) else { continue };
        for (index, words) in executable.shader_modules.iter().enumerate() {
            writeln!(out, "\n// Shader module {index} of .rodata[{ordinal}]:")?;
            match disassembled(words) {
                Ok(text) => text.lines().try_for_each(|line| writeln!(out, "//   {}", Escaped(line)))?,
                Err(error) => writeln!(out, "//   no text form, which spirv-dis of the SPIR-V tools writes: {error}")?,
            }
        }
    }
    Ok(())
}

/// Returns the text form of a shader module, which the SPIR-V tools write.
fn disassembled(words: &[u32]) -> io::Result<String> {
    let mut command = Command::new("spirv-dis");
    command
        .args(["--no-color", "--no-header", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tool = command.spawn()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let input = tool.stdin.take();
    // The tool reads all of its input before it writes.
    let written = input.map_or(Ok(()), |mut input| input.write_all(&bytes));
    let output = tool.wait_with_output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("it fails: {}", message.lines().next().unwrap_or_default())));
    }
    written?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn write_pipeline(
    f: &mut fmt::Formatter<'_>,
    executable: &VulkanExecutable,
    index: usize,
    pipeline: &Pipeline,
) -> fmt::Result {
    write!(
        f,
        "        pipeline {index} @{} of shader module {}: ",
        Escaped(&pipeline.entry_point),
        pipeline.shader_module
    )?;
    match &pipeline.addresses {
        Some(layout) => write!(
            f,
            "{} device addresses, root at byte {}, {} constants at byte {} of the push constants",
            layout.binding_count, layout.root_offset, layout.constant_count, layout.constants_offset
        )?,
        None => {
            let bytes =
                executable.pipeline_layouts.get(pipeline.layout).map_or(0, |layout| layout.push_constant_bytes());
            write!(f, "{bytes} bytes of push constants, descriptors")?;
            for (set, binding) in executable.descriptors(pipeline) {
                let kind = if binding.is_uniform { "uniform" } else { "storage" };
                write!(f, " {set}.{}:{kind}", binding.binding)?;
                if binding.count > 1 {
                    write!(f, "[{}]", binding.count)?;
                }
            }
        }
    }
    if pipeline.subgroup_size > 0 {
        write!(f, ", subgroups of {}", pipeline.subgroup_size)?;
    }
    writeln!(f)
}

fn write_kernels(f: &mut fmt::Formatter<'_>, executable: &KernelExecutable) -> fmt::Result {
    for kernel in &executable.kernels {
        let [x, y, z] = kernel.block_size;
        writeln!(
            f,
            "        kernel @{} of image {}: blocks of {x}x{y}x{z}, {} bytes of shared memory, {} constants, {} bindings",
            Escaped(&kernel.name),
            kernel.image,
            kernel.shared_memory_size,
            kernel.constant_count,
            kernel.binding_count
        )?;
    }
    for (index, image) in executable.images.iter().enumerate() {
        match std::str::from_utf8(image) {
            Ok(text) => {
                writeln!(f, "        image {index}: PTX, {} bytes", image.len())?;
                let text = EscapedLines(text.trim_end_matches('\0')).to_string();
                text.lines().try_for_each(|line| writeln!(f, "          {line}"))?;
            }
            Err(_) => writeln!(f, "        image {index}: machine code, {} bytes", image.len())?,
        }
    }
    Ok(())
}
