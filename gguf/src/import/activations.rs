//! How vectors are rounded before they are multiplied with quantised weights.

use core::fmt;
use core::str::FromStr;

/// How vectors are rounded before they are multiplied with weights that are stored as blocks of quanta. With other weights they are not.
///
/// As many elements of a rounded vector as a block of the weight has (32 or 256) are integers times a scale, which is their greatest absolute
/// value divided by the largest integer. Products of one vector multiply these integers with the quanta, which is faster than products of floats.
/// All functions of a module round alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// They are not: products are those of the stored weights and `f32` vectors.
    #[default]
    F32,
    /// To integers of 14 bits, whose sums fit into 16.
    I16,
    /// To integers of 8 bits, as llama.cpp does.
    I8,
}

impl Activations {
    const ALL: [Activations; 3] = [Activations::F32, Activations::I16, Activations::I8];

    const fn name(self) -> &'static str {
        match self {
            Activations::F32 => "f32",
            Activations::I16 => "i16",
            Activations::I8 => "i8",
        }
    }

    /// The largest integer; `None` where vectors are not rounded.
    pub(super) fn largest(self) -> Option<i64> {
        match self {
            Activations::F32 => None,
            Activations::I16 => Some(0x1fff),
            Activations::I8 => Some(0x7f),
        }
    }
}

impl fmt::Display for Activations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Activations {
    type Err = String;

    /// Parses a name: `f32`, `i16` or `i8`.
    fn from_str(name: &str) -> Result<Activations, String> {
        let found = Activations::ALL.into_iter().find(|activations| activations.name() == name);
        found.ok_or_else(|| format!("'{name}' is none of {}", Activations::ALL.map(Activations::name).join(", ")))
    }
}
