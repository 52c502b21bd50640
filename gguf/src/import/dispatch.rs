//! Operations of small tensors that run in one dispatch: what workgroups and barriers between them cost would be more than they save.

use incarnate_mlir::{Builder, Extent, Iterator, Map, Value};

/// A dispatch of one workgroup while its operations are built. Only on VMVX; elsewhere the compiler divides operations into dispatches.
pub(super) struct Dispatch {
    is_portable: bool,
    is_empty: bool,
}

impl Dispatch {
    /// Begins a dispatch. Its operations may read all values that were built before.
    pub(super) fn begin(b: &mut Builder, is_portable: bool) -> Dispatch {
        if is_portable {
            b.open_region();
        }
        Dispatch { is_portable, is_empty: true }
    }

    /// [`Builder::generic_single`].
    pub(super) fn generic(
        &mut self,
        b: &mut Builder,
        operands: (&[Value], Value),
        maps: &[Map],
        iterators: &[Iterator],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Value {
        let is_first = core::mem::replace(&mut self.is_empty, false);
        match self.is_portable {
            true => b.whole_generic(operands, maps, iterators, is_first, body),
            false => b.generic_single(operands.0, operands.1, maps, iterators, body),
        }
    }

    /// Ends it. Returns the results, whose extents are given, for later operations.
    pub(super) fn end<const N: usize>(self, b: &mut Builder, results: [(Value, &[Extent]); N]) -> [Value; N] {
        let values = results.map(|(value, _)| value);
        if !self.is_portable {
            return values;
        }
        let extents = results.map(|(_, extents)| extents.to_vec());
        let region = b.close_region();
        let results = b.dispatch_region(&extents, (region, values.to_vec()));
        <[Value; N]>::try_from(results).unwrap_or(values)
    }
}
