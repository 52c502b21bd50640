//! SPIR-V, as far as a loader looks at it: header, lengths of instructions, what a module requires, and entry points.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::{Error, Result};

const MAGIC: u32 = 0x0723_0203;
const MAGIC_SWAPPED: u32 = 0x0302_2307;
/// The greatest version that is read: 1.6.
const NEWEST: u32 = 0x0001_0600;
/// The greatest bound of ids that the specification requires consumers to take.
const GREATEST_BOUND: u32 = 0x3F_FFFF;
const HEADER: usize = 5;

const OP_EXTENSION: u32 = 10;
const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;
const OP_CAPABILITY: u32 = 17;
const MODEL_GL_COMPUTE: u32 = 5;
const MODE_LOCAL_SIZE: u32 = 17;

/// What a module requires and contains.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Major and minor version.
    pub version: (u8, u8),
    /// The numbers of its capabilities; see [`capability_name`].
    pub capabilities: Vec<u32>,
    /// The names of its extensions.
    pub extensions: Vec<String>,
    /// The compute entry points.
    pub entry_points: Vec<EntryPoint>,
}

/// A compute entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPoint {
    /// The id of the function.
    pub id: u32,
    /// The name.
    pub name: String,
    /// The size of workgroups; zeros if it is not declared by a literal.
    pub workgroup_size: [u32; 3],
}

impl Analysis {
    /// Checks the header and that the instructions fill the module, and collects the facts.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for malformed modules; INCOMPATIBLE for a newer version.
    pub fn of(words: &[u32]) -> Result<Analysis> {
        let &[magic, version, _, bound, schema] = words.first_chunk::<HEADER>().ok_or_else(|| {
            Error::invalid_argument(format!("SPIR-V of {} words is shorter than its header", words.len()))
        })?;
        if magic != MAGIC {
            let order = if magic == MAGIC_SWAPPED { ", but in the other byte order" } else { "" };
            return Err(Error::invalid_argument(format!("code begins with 0x{magic:08X} and is not SPIR-V{order}")));
        }
        let [_, minor, major, zero] = version.to_le_bytes();
        if zero != 0 || version > NEWEST {
            return Err(Error::incompatible(format!("SPIR-V of version {major}.{minor}; this build reads up to 1.6")));
        }
        if bound == 0 || bound > GREATEST_BOUND || schema != 0 {
            return Err(Error::invalid_argument(format!("SPIR-V header with a bound of {bound} and schema {schema}")));
        }
        let mut analysis = Analysis { version: (major, minor), ..Analysis::default() };
        let mut rest = words.get(HEADER..).unwrap_or_default();
        while let Some(&first) = rest.first() {
            let length = (first >> 16) as usize;
            let (Some(operands), Some(next)) = (rest.get(1..length), rest.get(length..)) else {
                let position = words.len() - rest.len();
                return Err(Error::invalid_argument(format!(
                    "SPIR-V instruction at word {position} is {length} words long, and {} are left",
                    rest.len()
                )));
            };
            analysis.add(first & 0xFFFF, operands)?;
            rest = next;
        }
        Ok(analysis)
    }

    fn add(&mut self, opcode: u32, operands: &[u32]) -> Result<()> {
        match (opcode, operands) {
            (OP_CAPABILITY, &[capability]) => self.capabilities.push(capability),
            (OP_EXTENSION, name) => self.extensions.push(text(name)?),
            (OP_ENTRY_POINT, &[MODEL_GL_COMPUTE, id, ref name @ ..]) => {
                let name = text(name)?;
                if self.entry_point(&name).is_some() {
                    return Err(Error::invalid_argument("SPIR-V has two entry points of the same name"));
                }
                self.entry_points.push(EntryPoint { id, name, workgroup_size: [0; 3] });
            }
            (OP_EXECUTION_MODE, &[function, MODE_LOCAL_SIZE, x, y, z]) => {
                let named = self.entry_points.iter_mut().filter(|entry_point| entry_point.id == function);
                named.for_each(|entry_point| entry_point.workgroup_size = [x, y, z]);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the compute entry point of a name.
    #[must_use]
    pub fn entry_point(&self, name: &str) -> Option<&EntryPoint> {
        self.entry_points.iter().find(|entry_point| entry_point.name == name)
    }
}

/// The text at the start of an instruction's operands, which ends in a NUL.
fn text(words: &[u32]) -> Result<String> {
    let mut bytes = Vec::new();
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        if byte == 0 {
            return String::from_utf8(bytes).map_err(|_| Error::invalid_argument("text in SPIR-V is not UTF-8"));
        }
        bytes.push(byte);
    }
    Err(Error::invalid_argument("text in SPIR-V has no end"))
}

/// The names of capabilities that compilers of compute shaders declare, by number.
const CAPABILITIES: &[(u32, &str)] = &[
    (0, "Matrix"),
    (1, "Shader"),
    (5, "Linkage"),
    (9, "Float16"),
    (10, "Float64"),
    (11, "Int64"),
    (12, "Int64Atomics"),
    (22, "Int16"),
    (39, "Int8"),
    (61, "GroupNonUniform"),
    (62, "GroupNonUniformVote"),
    (63, "GroupNonUniformArithmetic"),
    (64, "GroupNonUniformBallot"),
    (65, "GroupNonUniformShuffle"),
    (66, "GroupNonUniformShuffleRelative"),
    (67, "GroupNonUniformClustered"),
    (4433, "StorageBuffer16BitAccess"),
    (4434, "UniformAndStorageBuffer16BitAccess"),
    (4435, "StoragePushConstant16"),
    (4437, "DeviceGroup"),
    (4441, "VariablePointersStorageBuffer"),
    (4442, "VariablePointers"),
    (4448, "StorageBuffer8BitAccess"),
    (4449, "UniformAndStorageBuffer8BitAccess"),
    (4450, "StoragePushConstant8"),
    (4464, "DenormPreserve"),
    (4465, "DenormFlushToZero"),
    (4466, "SignedZeroInfNanPreserve"),
    (4467, "RoundingModeRTE"),
    (4468, "RoundingModeRTZ"),
    (5116, "BFloat16TypeKHR"),
    (5117, "BFloat16DotProductKHR"),
    (5118, "BFloat16CooperativeMatrixKHR"),
    (5345, "VulkanMemoryModel"),
    (5346, "VulkanMemoryModelDeviceScope"),
    (5347, "PhysicalStorageBufferAddresses"),
    (6016, "DotProductInputAll"),
    (6017, "DotProductInput4x8Bit"),
    (6018, "DotProductInput4x8BitPacked"),
    (6019, "DotProduct"),
    (6022, "CooperativeMatrixKHR"),
];

/// Returns the name of a capability, if compilers of compute shaders declare it.
#[must_use]
pub fn capability_name(capability: u32) -> Option<&'static str> {
    CAPABILITIES.iter().find(|row| row.0 == capability).map(|row| row.1)
}
