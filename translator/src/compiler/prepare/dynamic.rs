//! Dynamic shapes of JAX (`jax.export.symbolic_shape`), as IREE's compiler accepts them.
//!
//! The compiler refuses a broadcast of a tensor with a dynamic extent, because that could be 1 where the result's is not, and reshapes
//! to dynamic shapes. JAX knows better: an extent that it broadcasts is 1 when the model is exported. Its modules say so by
//! `jax.uses_shape_polymorphism`. There
//!
//! - a broadcast that only adds extents of 1, and a reshape, become `tensor.reshape`, which takes the same operands;
//! - other broadcasts get the attribute `known_nonexpanding_dimensions`;
//! - checks of extents become [assertions](super::assertions) that the compiler keeps.

use incarnate_bytecode::split_tensor_type;

use super::Edit;
use super::assertions::{COMPARE, CUSTOM_CALL, Comparisons};
use super::header::Cursor;

/// What modules with dynamic shapes set to true.
const POLYMORPHISM: &[u8] = b"jax.uses_shape_polymorphism";
const BROADCAST: &[u8] = b"stablehlo.dynamic_broadcast_in_dim";
const RESHAPE: &[u8] = b"stablehlo.dynamic_reshape";

/// The broadcasts, reshapes and checks of extents of a text.
#[derive(Debug, Default)]
pub(super) struct Shapes<'t> {
    is_dynamic: bool,
    comparisons: Comparisons<'t>,
    edits: Vec<Edit>,
}

impl<'t> Shapes<'t> {
    /// Looks at a word of the text, and at what follows it.
    pub(super) fn visit(&mut self, word: &[u8], cursor: &mut Cursor<'t>) {
        let begin = cursor.at() - word.len();
        self.comparisons.define(cursor, begin);
        match word {
            POLYMORPHISM => self.is_dynamic |= cursor.expect(b"=").and_then(|()| cursor.expect(b"true")).is_some(),
            BROADCAST => self.edits.extend(broadcast(cursor, begin)),
            RESHAPE => self.edits.extend(reshape(cursor, begin)),
            COMPARE => drop(self.comparisons.compare(cursor, begin)),
            CUSTOM_CALL => self.edits.extend(self.comparisons.assertion(cursor, begin)),
            _ => {}
        }
    }

    /// Returns the changes of a text of JAX with dynamic shapes.
    pub(super) fn into_edits(self) -> Vec<Edit> {
        if self.is_dynamic { self.edits } else { Vec::new() }
    }
}

/// `stablehlo.dynamic_reshape %0, %6 : (...)` becomes `tensor.reshape %0(%6) : (...)`.
fn reshape(cursor: &mut Cursor<'_>, begin: usize) -> Option<Edit> {
    let (operand, shape) = operands(cursor)?;
    let end = cursor.at();
    cursor.expect(b":")?;
    Some(Edit { range: begin..end, text: format!("tensor.reshape {operand}({shape})") })
}

/// `stablehlo.dynamic_broadcast_in_dim %0, %6, dims = [0] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x3xf32>`.
fn broadcast(cursor: &mut Cursor<'_>, begin: usize) -> Option<Edit> {
    let (operand, shape) = operands(cursor)?;
    cursor.expect(b",")?;
    cursor.expect(b"dims")?;
    cursor.expect(b"=")?;
    cursor.expect(b"[")?;
    let dims = core::str::from_utf8(cursor.nested(b"]")?).ok()?;
    let dims: Vec<usize> =
        dims.split(',').map(str::trim).filter(|dim| !dim.is_empty()).map(str::parse).collect::<Result<_, _>>().ok()?;
    cursor.expect(b"]")?;
    let end = cursor.at();
    // Other attributes stand before the colon.
    cursor.expect(b":")?;
    cursor.expect(b"(")?;
    let from = extents(cursor.nested(b",")?)?;
    cursor.expect(b",")?;
    cursor.nested(b")")?;
    cursor.expect(b")")?;
    cursor.expect(b"->")?;
    let to = extents(cursor.tensor()?)?;
    let dynamic: Vec<String> =
        from.iter().enumerate().filter(|(_, extent)| **extent == "?").map(|(index, _)| index.to_string()).collect();
    if dynamic.is_empty() || dims.len() != from.len() {
        return None;
    }
    let added_are_one = (0..to.len()).all(|index| dims.contains(&index) || to.get(index) == Some(&"1"));
    let is_in_order = dims.is_sorted_by(|first, second| first < second);
    let is_kept = dims.iter().zip(&from).all(|(dim, extent)| to.get(*dim) == Some(extent));
    let (range, text) = match added_are_one && is_in_order && is_kept {
        true => (begin..end, format!("tensor.reshape {operand}({shape})")),
        false => (end..end, format!(" {{known_nonexpanding_dimensions = array<i64: {}>}}", dynamic.join(", "))),
    };
    Some(Edit { range, text })
}

/// Reads `%0, %1#2`.
fn operands<'t>(cursor: &mut Cursor<'t>) -> Option<(&'t str, &'t str)> {
    let first = cursor.operand()?;
    cursor.expect(b",")?;
    Some((first, cursor.operand()?))
}

/// Returns the extents of a tensor's type.
fn extents(ty: &[u8]) -> Option<Vec<&str>> {
    let inner = core::str::from_utf8(ty).ok()?.trim().strip_prefix("tensor<")?.strip_suffix('>')?;
    let (dims, _) = split_tensor_type(inner.split(',').next()?);
    Some(dims.map_or_else(Vec::new, |dims| dims.split('x').collect()))
}
