//! Named constants for arguments of native functions that are flags or types of the HAL ABI.

use incarnate_bytecode::abi::NAMED;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// Arguments that are flags or types: the import, and pairs of an argument's index and the module of its names in
/// [`incarnate_bytecode::abi`]. All versions of a function agree on them.
const ARGUMENTS: &[(&str, &[(usize, &str)])] = &[
    ("hal.allocator.allocate", &[(2, "memory_type"), (3, "buffer_usage")]),
    ("hal.allocator.import", &[(3, "memory_type"), (4, "buffer_usage")]),
    ("hal.allocator.select", &[(0, "memory_type"), (1, "buffer_usage")]),
    ("hal.buffer.assert", &[(4, "memory_type"), (5, "buffer_usage")]),
    ("hal.buffer_view.assert", &[(2, "element_type"), (3, "encoding_type")]),
    ("hal.buffer_view.create", &[(3, "element_type"), (4, "encoding_type")]),
    ("hal.command_buffer.create", &[(1, "command_buffer_mode"), (2, "command_category")]),
    ("hal.command_buffer.execution_barrier", &[(1, "execution_stage"), (2, "execution_stage")]),
    ("hal.device.queue.alloca", &[(5, "memory_type"), (6, "buffer_usage")]),
    ("hal_inline.buffer_view.assert", &[(2, "element_type"), (3, "encoding_type")]),
    ("hal_inline.buffer_view.create", &[(3, "element_type"), (4, "encoding_type")]),
];

/// The named form of a constant argument: one name or several joined by `|`; None if the argument is neither a flag nor a type,
/// or if some of its bits have no name.
pub(super) fn named(import: &str, argument: usize, value: i32) -> Option<TokenStream> {
    let arguments = ARGUMENTS.iter().find(|row| row.0 == import)?.1;
    let module = arguments.iter().find(|row| row.0 == argument)?.1;
    let names = NAMED.iter().find(|row| row.0 == module)?.1;
    let path = |name: &str| {
        let (module, name) = (format_ident!("{module}"), format_ident!("{name}"));
        quote!(abi::#module::#name)
    };
    if let Some((name, _)) = names.iter().find(|row| row.1 == value) {
        return Some(path(name));
    }
    if module.ends_with("_type") && module != "memory_type" {
        return None;
    }
    // Sets of several bits come first in the tables.
    let (mut rest, mut found) = (value, Vec::new());
    for (name, bits) in names.iter().filter(|row| row.1 != 0) {
        if rest & bits == *bits {
            rest &= !bits;
            found.push(path(name));
        }
    }
    (rest == 0 && !found.is_empty()).then(|| quote!(#(#found)|*))
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn flags_are_unions_of_names_and_types_are_single_names() {
        let text =
            |import, argument, value| named(import, argument, value).map(|tokens| tokens.to_string().replace(' ', ""));
        assert_eq!(
            text("hal.buffer.assert", 5, 3075).as_deref(),
            Some("abi::buffer_usage::TRANSFER|abi::buffer_usage::DISPATCH_STORAGE")
        );
        assert_eq!(text("hal.buffer.assert", 4, 48).as_deref(), Some("abi::memory_type::DEVICE_LOCAL"));
        assert_eq!(text("hal.buffer_view.assert", 2, 0x2100_0020).as_deref(), Some("abi::element_type::FLOAT_32"));
        // Values without a name, and arguments that are plain numbers.
        assert_eq!(text("hal.buffer_view.assert", 2, 0x2100_0021), None);
        assert_eq!(text("hal.buffer.assert", 5, 1 << 30), None);
        assert_eq!(text("hal.command_buffer.create", 1, 0), None);
        assert_eq!(text("hal.buffer.assert", 3, 3075), None);
        assert_eq!(text("user.buffer.assert", 5, 3075), None);
    }
}
