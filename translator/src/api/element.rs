//! The Rust types of tensor elements.

use proc_macro2::TokenStream;
use quote::quote;

/// The Rust type of an element, as `support` names it.
#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) rust: TokenStream,
}

/// The type of an element in a declaration; None for elements narrower than a byte and for those without a Rust type.
pub(super) fn element(text: &str) -> Option<Element> {
    let rust = match text {
        "i8" | "si8" => quote!(i8),
        "i16" | "si16" => quote!(i16),
        "i32" | "si32" => quote!(i32),
        "i64" | "si64" | "index" => quote!(i64),
        "ui8" => quote!(u8),
        "ui16" => quote!(u16),
        "ui32" => quote!(u32),
        "ui64" => quote!(u64),
        "f32" => quote!(f32),
        "f64" => quote!(f64),
        "i1" => quote!(I1),
        "f16" => quote!(F16),
        "bf16" => quote!(BF16),
        "complex<f32>" => quote!([f32; 2]),
        "complex<f64>" => quote!([f64; 2]),
        "f8E5M2" => quote!(F8E5M2),
        "f8E4M3FN" => quote!(F8E4M3FN),
        "f8E5M2FNUZ" => quote!(F8E5M2FNUZ),
        "f8E4M3FNUZ" => quote!(F8E4M3FNUZ),
        "f8E8M0FNU" => quote!(F8E8M0FNU),
        _ => return None,
    };
    Some(Element { rust })
}
