//! Operations of IREE's dialects that keep other operations together, or apart.

use crate::builder::{Builder, Region, Value, list};
use crate::tensor::Extent;
use crate::types::{Element, Type};

impl Builder {
    /// `flow.dispatch.region`: operations that are one kernel. The region may use all values; it returns tensors, whose extents are given.
    pub fn dispatch_region(&mut self, extents: &[Vec<Extent>], mut region: (Region, Vec<Value>)) -> Vec<Value> {
        let types: Vec<Type> = region.1.iter().map(|value| self.type_of(*value).clone()).collect();
        if extents.len() != types.len() {
            self.fail(format!("flow.dispatch.region returns {} tensors, {} are expected", types.len(), extents.len()));
        }
        let results: Vec<String> = types.iter().zip(extents).map(|(ty, extents)| self.sized(ty, extents)).collect();
        self.terminate(&mut region.0, "flow.return", &region.1, &types);
        let header = format!("flow.dispatch.region -> ({}) ", list(&results));
        self.with_regions(&types, &header, &[("", &region.0)], "")
    }

    /// [`Builder::dispatch_region`] of the operations that `body` appends, which returns one tensor of these extents.
    pub fn dispatch(&mut self, extents: &[Extent], body: impl FnOnce(&mut Builder) -> Value) -> Value {
        self.open_region();
        let result = body(self);
        let region = self.close_region();
        let results = self.dispatch_region(&[extents.to_vec()], (region, vec![result]));
        results.first().copied().unwrap_or(result)
    }

    /// States whether the operations that follow are those of a region for [`Builder::dispatch_region`], whose tensors have no allocations.
    pub fn set_in_dispatch(&mut self, is_in_dispatch: bool) {
        self.is_in_dispatch = is_in_dispatch;
    }

    /// `util.optimization_barrier`: the same value, which the compiler neither folds nor drops.
    pub fn opaque(&mut self, x: Value) -> Value {
        let ty = self.type_of(x).clone();
        self.operation(ty.clone(), &format!("util.optimization_barrier {x} : {ty}"))
    }

    /// The type of a tensor with the values of its dynamic extents.
    fn sized(&mut self, ty: &Type, extents: &[Extent]) -> String {
        let is_index = |value: &Value| *self.type_of(*value) == Type::Scalar(Element::Index);
        let dynamic: Vec<Value> = extents
            .iter()
            .filter_map(|extent| match extent {
                Extent::Value(value) => Some(*value),
                Extent::Constant(_) => None,
            })
            .collect();
        let unknown = ty.extents().unwrap_or_default().iter().filter(|extent| extent.is_none()).count();
        if dynamic.len() != unknown || !dynamic.iter().all(is_index) {
            self.fail(format!("the extents of {ty} are {}", list(extents)));
        }
        if dynamic.is_empty() { ty.to_string() } else { format!("{ty}{{{}}}", list(&dynamic)) }
    }
}
