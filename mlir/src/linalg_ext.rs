//! Operations of the compiler's dialect `iree_linalg_ext`, whose iterations have an order.

use crate::builder::{Builder, Value, list};
use crate::types::{Element, Type};

impl Builder {
    /// `iree_linalg_ext.scatter`: combines slices of `updates` with those of `into` at positions along its first dimension, one behind
    /// the other, so that positions may occur several times.
    ///
    /// `updates` has the shape `N x ...`, `positions` `N x 1`, and `into` `M x ...`. Positions must be within `M`. The body gets an
    /// update and the element before, and returns the next.
    pub fn scatter(
        &mut self,
        updates: Value,
        positions: Value,
        into: Value,
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> Value {
        let ty = self.type_of(into).clone();
        let fits = self.rank(updates) == self.rank(into)
            && self.rank(positions) == 2
            && self.element_of(updates) == ty.element()
            && matches!(self.element_of(positions), Element::Int(32 | 64));
        if !fits {
            self.fail(format!("iree_linalg_ext.scatter of {}", self.types_of(&[updates, positions, into])));
        }
        let header = format!(
            "iree_linalg_ext.scatter dimension_map = [0] unique_indices(false) ins({}) outs({})",
            self.typed(&[updates, positions]),
            self.typed(&[into])
        );
        let results = self.ordered(&header, ty.element(), &[ty], body);
        results.first().copied().unwrap_or(into)
    }

    /// `iree_linalg_ext.scan` along the only dimension of a tensor: each element of the first result combines those up to it. The
    /// second result, which has no dimensions, as `initial` does not, combines all; it is `initial` for a tensor without elements.
    ///
    /// The body gets an element and the combination of those before, in any order.
    pub fn inclusive_scan(
        &mut self,
        x: Value,
        initial: Value,
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> (Value, Value) {
        let (ty, total) = (self.type_of(x).clone(), self.type_of(initial).clone());
        if self.rank(x) != 1 || self.rank(initial) != 0 || ty.element() != total.element() {
            self.fail(format!("iree_linalg_ext.scan of {}", self.types_of(&[x, initial])));
        }
        let extents = self.extents(x);
        let empty = self.empty(&extents, ty.element());
        let header = format!(
            "iree_linalg_ext.scan dimension(0) inclusive(true) ins({}) outs({})",
            self.typed(&[x]),
            self.typed(&[empty, initial])
        );
        let results = self.ordered(&header, ty.element(), &[ty, total], body);
        (results.first().copied().unwrap_or(x), results.get(1).copied().unwrap_or(initial))
    }

    /// An operation whose region has two elements of one type, and yields another.
    fn ordered(
        &mut self,
        header: &str,
        element: Element,
        types: &[Type],
        body: impl FnOnce(&mut Builder, Value, Value) -> Value,
    ) -> Vec<Value> {
        let ty = Type::Scalar(element);
        self.open_region();
        let (x, y) = (self.argument(ty.clone()), self.argument(ty.clone()));
        self.line_before_block(&[format!("{x}: {ty}"), format!("{y}: {ty}")]);
        let result = body(self, x, y);
        let mut region = self.close_region();
        self.terminate(&mut region, "iree_linalg_ext.yield", &[result], &[ty]);
        self.with_regions(types, header, &[(" ", &region)], &format!(" -> {}", list(types)))
    }
}
