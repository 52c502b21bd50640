//! The Rust types of tensor elements.

use incarnate_bytecode::ElementType;
use proc_macro2::TokenStream;
use quote::quote;

/// The Rust type of an element, as `support` names it.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) rust: TokenStream,
}

/// The Rust type of an element type; None for elements narrower than a byte and for those without a Rust type.
pub(super) fn element(element: ElementType) -> Option<Element> {
    let rust = match element {
        ElementType::INT_8 | ElementType::SINT_8 => quote!(i8),
        ElementType::INT_16 | ElementType::SINT_16 => quote!(i16),
        ElementType::INT_32 | ElementType::SINT_32 => quote!(i32),
        ElementType::INT_64 | ElementType::SINT_64 => quote!(i64),
        ElementType::UINT_8 => quote!(u8),
        ElementType::UINT_16 => quote!(u16),
        ElementType::UINT_32 => quote!(u32),
        ElementType::UINT_64 => quote!(u64),
        ElementType::FLOAT_32 => quote!(f32),
        ElementType::FLOAT_64 => quote!(f64),
        ElementType::BOOL_8 => quote!(bool),
        ElementType::FLOAT_16 => quote!(F16),
        ElementType::BFLOAT_16 => quote!(BF16),
        ElementType::COMPLEX_FLOAT_64 => quote!([f32; 2]),
        ElementType::COMPLEX_FLOAT_128 => quote!([f64; 2]),
        ElementType::FLOAT_8_E5M2 => quote!(F8E5M2),
        ElementType::FLOAT_8_E4M3_FN => quote!(F8E4M3FN),
        ElementType::FLOAT_8_E5M2_FNUZ => quote!(F8E5M2FNUZ),
        ElementType::FLOAT_8_E4M3_FNUZ => quote!(F8E4M3FNUZ),
        ElementType::FLOAT_8_E8M0_FNU => quote!(F8E8M0FNU),
        _ => return None,
    };
    Some(Element { rust })
}
