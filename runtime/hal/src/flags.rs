//! How flags are shown: by the names of those that are set.

use core::fmt;

/// Shows flags as `READ | WRITE`; those without a name as a number.
///
/// All types of flags share this code, which programs contain as part of every object that can be debugged. What `bitflags`
/// derives is code for each type.
pub(crate) struct Names {
    bits: u64,
    names: &'static [(&'static str, u64)],
}

impl Names {
    pub(crate) const fn new(bits: u64, names: &'static [(&'static str, u64)]) -> Names {
        Names { bits, names }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.bits;
        let mut separator = "";
        for (name, flag) in self.names {
            if !name.is_empty() && self.bits & flag == *flag && rest & flag != 0 {
                write!(f, "{separator}{name}")?;
                separator = " | ";
                rest &= !flag;
            }
        }
        if rest != 0 || separator.is_empty() { write!(f, "{separator}0x{rest:X}") } else { Ok(()) }
    }
}

/// Implements `Debug` for types of flags, and `names`.
macro_rules! show_by_name {
    ($($flags:ident),*) => {$(
        impl $flags {
            /// Shows the flags that are set by their names.
            pub(crate) fn names(self) -> $crate::flags::Names {
                const FLAGS: &[bitflags::Flag<$flags>] = <$flags as bitflags::Flags>::FLAGS;
                const NAMES: [(&str, u64); FLAGS.len()] = {
                    let mut names = [("", 0); FLAGS.len()];
                    let mut index = 0;
                    while index < FLAGS.len() {
                        names[index] = (FLAGS[index].name(), FLAGS[index].value().bits() as u64);
                        index += 1;
                    }
                    names
                };
                $crate::flags::Names::new(u64::from(self.bits()), &NAMES)
            }
        }

        impl core::fmt::Debug for $flags {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($flags), "({})"), self.names())
            }
        }
    )*};
}
pub(crate) use show_by_name;

#[cfg(test)]
mod tests {
    use crate::{BufferUsage, MemoryAccess, MemoryType};
    use alloc::format;

    #[test]
    fn flags_are_shown_by_name() {
        let local = MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE;
        assert_eq!(local.names().to_string(), "HOST_VISIBLE | HOST_COHERENT | HOST_LOCAL | DEVICE_VISIBLE");
        assert_eq!(format!("{local:?}"), format!("MemoryType({})", local.names()));
        assert_eq!(MemoryAccess::empty().names().to_string(), "0x0");
        assert_eq!(MemoryAccess::from_bits_retain(1 << 1 | 1 << 30).names().to_string(), "WRITE | 0x40000000");
        assert_eq!(BufferUsage::TRANSFER.names().to_string(), "TRANSFER_SOURCE | TRANSFER_TARGET");
    }
}
