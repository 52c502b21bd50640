//! Types of values.

use core::fmt;

/// The type of a scalar, and of the elements of a tensor. Integers have no sign: operations do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// The type of extents and positions.
    Index,
    /// An integer of this number of bits.
    Int(u8),
    /// The float of 8 bits that `f8E4M3FN` names.
    F8E4M3FN,
    /// The float of 8 bits that `f8E4M3FNUZ` names.
    F8E4M3FNUZ,
    /// The float of 8 bits that `f8E5M2` names.
    F8E5M2,
    /// The float of 8 bits that `f8E5M2FNUZ` names.
    F8E5M2FNUZ,
    /// IEEE's float of 16 bits.
    F16,
    /// The upper half of an `f32`.
    Bf16,
    /// IEEE's float of 32 bits.
    F32,
    /// IEEE's float of 64 bits.
    F64,
}

impl Element {
    /// Booleans.
    pub const I1: Element = Element::Int(1);
    /// Bytes.
    pub const I8: Element = Element::Int(8);
    /// Integers of 16 bits.
    pub const I16: Element = Element::Int(16);
    /// Integers of 32 bits.
    pub const I32: Element = Element::Int(32);
    /// Integers of 64 bits.
    pub const I64: Element = Element::Int(64);

    /// Returns true for floats of any width.
    #[must_use]
    pub fn is_float(self) -> bool {
        !matches!(self, Element::Index | Element::Int(_))
    }

    /// Returns the number of bits of an element; 64 for `index`.
    #[must_use]
    pub fn bits(self) -> u32 {
        match self {
            Element::Int(bits) => u32::from(bits),
            Element::F8E4M3FN | Element::F8E4M3FNUZ | Element::F8E5M2 | Element::F8E5M2FNUZ => 8,
            Element::F16 | Element::Bf16 => 16,
            Element::F32 => 32,
            Element::F64 | Element::Index => 64,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Element::Index => "index",
            Element::Int(bits) => return write!(f, "i{bits}"),
            Element::F8E4M3FN => "f8E4M3FN",
            Element::F8E4M3FNUZ => "f8E4M3FNUZ",
            Element::F8E5M2 => "f8E5M2",
            Element::F8E5M2FNUZ => "f8E5M2FNUZ",
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
            Element::F32 => "f32",
            Element::F64 => "f64",
        })
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A scalar.
    Scalar(Element),
    /// A tensor.
    Tensor {
        /// Extents; `None` where the extent is known when the module runs.
        extents: Vec<Option<u64>>,
        /// The type of its elements.
        element: Element,
    },
}

impl Type {
    /// Creates the type of a tensor.
    #[must_use]
    pub fn tensor(extents: &[Option<u64>], element: Element) -> Type {
        Type::Tensor { extents: extents.to_vec(), element }
    }

    /// Returns the type of a scalar, or of the elements of a tensor.
    #[must_use]
    pub fn element(&self) -> Element {
        match self {
            Type::Scalar(element) | Type::Tensor { element, .. } => *element,
        }
    }

    /// Returns the extents of a tensor; `None` for a scalar.
    #[must_use]
    pub fn extents(&self) -> Option<&[Option<u64>]> {
        match self {
            Type::Scalar(_) => None,
            Type::Tensor { extents, .. } => Some(extents),
        }
    }

    /// Returns the type with the extents that both tensors have.
    #[must_use]
    pub fn joined(&self, other: &Type) -> Type {
        match (self, other) {
            (Type::Tensor { extents, element }, Type::Tensor { extents: others, .. }) => {
                let extents = extents.iter().zip(others).map(|(a, b)| if a == b { *a } else { None });
                Type::Tensor { extents: extents.collect(), element: *element }
            }
            _ => self.clone(),
        }
    }

    /// Returns the type with another element type.
    #[must_use]
    pub fn with_element(&self, element: Element) -> Type {
        match self {
            Type::Scalar(_) => Type::Scalar(element),
            Type::Tensor { extents, .. } => Type::Tensor { extents: extents.clone(), element },
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(element) => write!(f, "{element}"),
            Type::Tensor { extents, element } => {
                f.write_str("tensor<")?;
                for extent in extents {
                    match extent {
                        Some(extent) => write!(f, "{extent}x")?,
                        None => f.write_str("?x")?,
                    }
                }
                write!(f, "{element}>")
            }
        }
    }
}
