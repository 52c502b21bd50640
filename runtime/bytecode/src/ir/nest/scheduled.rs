//! Nests as back ends run them: what is checked before, in which form the iterations run, and which loops are one.

use alloc::vec::Vec;
use core::fmt;

use super::merged::Merged;
use super::{Access, Affine, Needed, Nest, Order, Schedule, Strips};
use crate::ir::function::Function;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};

/// What must hold before a nest runs. Where it does not, the nest changes nothing, and the loops of the bytecode run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// One of the [`conditions`](Nest::conditions) stays within its range in all iterations.
    Bounded(usize),
    /// The elements of a view are within its buffer in all iterations.
    InRange(usize),
    /// The elements of one of the [`gathers`](Nest::gathers) are not stored.
    Kept(usize),
    /// Iterations of the loops that move a view have different elements of it.
    Distinct(usize),
    /// A stored view and another one have no byte in common.
    Disjoint(usize, usize),
    /// A stored view and a loaded one have no byte in common, or the same element in each iteration.
    DisjointOrSame(usize, usize),
    /// A loop has an iteration.
    NotEmpty(usize),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Bounded(condition) => write!(f, "condition {condition}"),
            Check::InRange(view) => write!(f, "view {view} in range"),
            Check::Kept(gather) => write!(f, "gather {gather} kept"),
            Check::Distinct(view) => write!(f, "view {view} distinct"),
            Check::Disjoint(store, other) => write!(f, "views {store} and {other} disjoint"),
            Check::DisjointOrSame(store, load) => write!(f, "views {store} and {load} disjoint or same"),
            Check::NotEmpty(at) => write!(f, "loop {at} not empty"),
        }
    }
}

/// The least iterations of a row that is worth a strip: the narrowest vectors have so many lanes.
const LEAST_ROW: u64 = 4;

/// A nest with all that back ends need to run it. They decide neither what is checked nor in which order iterations run.
#[derive(Clone, Debug)]
pub struct ScheduledNest<'n> {
    /// The function that contains it.
    pub function: &'n Function,
    /// Its loops and accesses.
    pub nest: &'n Nest,
    /// The values that it computes.
    pub needed: Needed,
    /// The form of the iterations, without the loops that are merged with others.
    pub schedule: Schedule,
    /// What must hold so that no access fails, in the order in which it is checked.
    pub checks: Vec<Check>,
    /// What must hold besides so that strips may run instead of the loops.
    pub independence: Vec<Check>,
    merged: Merged,
}

impl<'n> ScheduledNest<'n> {
    /// Schedules a nest of a function, with float operations in an order; `None` for targets without vectors and without memory for
    /// kernels, where iterations run as they are.
    #[must_use]
    pub fn of(function: &'n Function, nest: &'n Nest, order: Option<Order>) -> ScheduledNest<'n> {
        let needed = Needed::of(function, nest);
        let mut schedule = order.map_or(Schedule::SCALAR, |order| Schedule::of(function, nest, &needed, order));
        let merged = Merged::of(function, nest, &needed, &schedule);
        if let Schedule::Strips(strips) = &mut schedule {
            // A loop that others are merged with moves the same stored views as they do.
            strips.outer.retain(|at| !merged.is_outer(*at));
            strips.jammed = strips.jammed.filter(|at| !merged.is_outer(*at) && merged.count(*at).is_none());
            strips.reductions.retain(|at| !merged.is_outer(*at));
        }
        let (checks, independence) = (Vec::new(), Vec::new());
        let mut scheduled = ScheduledNest { function, nest, needed, schedule, checks, independence, merged };
        scheduled.checks = scheduled.checks();
        if let Schedule::Strips(Strips { stores, non_aliasing, reductions, .. }) = &scheduled.schedule {
            let in_place = reductions.is_empty() && nest.gathers.is_empty();
            let mut independence = scheduled.independent(stores, non_aliasing, reductions, in_place);
            independence.retain(|check| !scheduled.checks.contains(check));
            scheduled.independence = independence;
        }
        scheduled
    }

    fn checks(&self) -> Vec<Check> {
        let nest = self.nest;
        let mut checks: Vec<Check> = (0..nest.conditions.len()).map(Check::Bounded).collect();
        // A kernel checks its operands itself. Loads without uses are checked, too.
        let by_kernel = |view: &usize| matches!(self.schedule, Schedule::Contraction(_)) && self.is_used(*view);
        checks.extend((0..nest.views.len()).filter(|view| !by_kernel(view)).map(Check::InRange));
        checks.extend((0..nest.gathers.len()).map(Check::Kept));
        // Where an index is out of range, the loops of the bytecode run after the nest, and load what it has loaded.
        if !nest.gathers.is_empty() {
            let used = (0..nest.views.len()).filter(|view| self.is_used(*view));
            let (stores, loads): (Vec<usize>, Vec<usize>) = used.partition(|view| nest.views[*view].written);
            checks.extend(self.separate(&stores, &loads, false));
        }
        checks
    }

    /// What must hold so that strips compute the same as the loops: iterations store distinct elements, no other iteration loads what is
    /// stored, and reductions are not empty. With `in_place`, an iteration loads all of its elements before it stores: they may be those
    /// that it stores.
    #[must_use]
    pub fn independent(&self, stores: &[usize], loads: &[usize], reductions: &[usize], in_place: bool) -> Vec<Check> {
        let mut checks: Vec<Check> = stores.iter().copied().map(Check::Distinct).collect();
        checks.extend(self.separate(stores, loads, in_place));
        checks.extend(reductions.iter().copied().map(Check::NotEmpty));
        checks
    }

    /// What is stored overlaps neither loads nor other stores.
    fn separate(&self, stores: &[usize], loads: &[usize], in_place: bool) -> Vec<Check> {
        let mut checks = Vec::new();
        for (at, store) in stores.iter().enumerate() {
            let stored = &self.nest.views[*store];
            checks.extend(loads.iter().map(|load| {
                let loaded = &self.nest.views[*load];
                let is_alike = loaded.element.width() == stored.element.width()
                    && self.axes(&loaded.index) == self.axes(&stored.index);
                if in_place && is_alike { Check::DisjointOrSame(*store, *load) } else { Check::Disjoint(*store, *load) }
            }));
            checks.extend(stores[..at].iter().map(|other| Check::Disjoint(*store, *other)));
        }
        checks
    }

    /// Whether each iteration computes elements of its own from elements at affine indices: the loops may run as they are, too.
    #[must_use]
    pub fn is_elementwise(&self) -> bool {
        matches!(&self.schedule, Schedule::Strips(strips) if strips.reductions.is_empty() && self.nest.gathers.is_empty())
    }

    /// Whether an elementwise nest consists of several rows of a known length, all of whose elements are adjacent, or of stride 2, or of 4 if they
    /// are bytes, and are computed without divisions. As loops, LLVM would unroll such rows before it makes vectors, and move single elements.
    fn has_short_rows(&self) -> bool {
        let Schedule::Strips(strips) = &self.schedule else { return false };
        let is_adjacent = |view: &usize| self.nest.views[*view].index.constant_stride(strips.lanes) == Some(1);
        let is_dense = |view: &usize| {
            let view = &self.nest.views[*view];
            let strides = if view.element.width() == 1 { &[0, 1, 2, 4][..] } else { &[0, 1, 2] };
            view.index.constant_stride(strips.lanes).is_some_and(|stride| strides.contains(&stride))
        };
        let computes =
            |(block, position): (Block, usize)| match &self.nest.instruction(self.function, block, position).op {
                Op::Eval { opcode, .. } => opcode.info().effects.fails && self.includes(block, position),
                _ => false,
            };
        self.is_elementwise()
            && !strips.outer.is_empty()
            && self.nest.path(strips.innermost).into_iter().rfind(|at| !self.is_merged(*at)) == Some(strips.lanes)
            && self.trip_count(strips.lanes).is_some_and(|count| count >= LEAST_ROW)
            && strips.stores.iter().all(is_adjacent)
            && strips.non_aliasing.iter().all(is_dense)
            && !self.nest.instructions().any(computes)
            && self.nest.loops.iter().all(|counted| counted.divisor.is_none())
    }

    /// Whether vectors are worth strips where a compiler vectorises loops: elements are reduced or gathered, or their rows are short.
    #[must_use]
    pub fn runs_on_strips(&self) -> bool {
        matches!(self.schedule, Schedule::Strips(_)) && (!self.is_elementwise() || self.has_short_rows())
    }

    /// Whether an access of a view is needed.
    #[must_use]
    pub fn is_used(&self, view: usize) -> bool {
        self.nest.accesses.iter().any(|access| access.view == view && self.keeps(access))
    }

    /// Whether an access is needed.
    #[must_use]
    pub fn keeps(&self, access: &Access) -> bool {
        self.needed.keeps(self.function, self.nest, access)
    }

    /// Whether an instruction or access is needed.
    #[must_use]
    pub fn includes(&self, block: Block, position: usize) -> bool {
        self.needed.includes(self.function, self.nest, block, position)
    }

    /// Whether a needed instruction or a carried value reads a value.
    #[must_use]
    pub fn reads(&self, value: Value) -> bool {
        self.nest.reads(self.function, &self.needed, value)
    }

    /// Whether the loop within a loop runs its iterations.
    #[must_use]
    pub fn is_merged(&self, at: usize) -> bool {
        self.merged.is_outer(at)
    }

    /// The trip count of a loop that runs the iterations of others.
    #[must_use]
    pub fn merged_count(&self, at: usize) -> Option<u64> {
        self.merged.count(at)
    }

    /// The trip count of a loop and of those that are merged with it, if it is a constant that all processors can count to: programs for
    /// those of 32 bits compute longer ones, and find that they are too long.
    #[must_use]
    pub fn trip_count(&self, at: usize) -> Option<u64> {
        let own = || self.nest.loops[at].constant_trip_count();
        self.merged.count(at).or_else(own).filter(|count| u32::try_from(*count).is_ok())
    }

    /// The loops that a form depends on, without those whose iterations others run.
    #[must_use]
    pub fn axes(&self, form: &Affine) -> Vec<usize> {
        form.loops().into_iter().filter(|at| !self.is_merged(*at)).collect()
    }
}

/// `strips of loop 1, reducing over 2; if view 0 in range, view 1 in range; vectors if view 0 distinct, views 0 and 1 disjoint`, with
/// `; loop 1 runs 0` where loops are merged.
impl fmt::Display for ScheduledNest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schedule {
            Schedule::Contraction(contraction) => write!(f, "contraction {:?}", contraction.operation),
            Schedule::Strips(strips) if self.is_elementwise() => write!(f, "elements along loop {}", strips.lanes),
            Schedule::Strips(strips) => {
                write!(f, "strips of loop {}", strips.lanes)?;
                let over = if strips.reductions.is_empty() { "" } else { ", reducing over" };
                f.write_str(over)?;
                strips.reductions.iter().try_for_each(|at| write!(f, " {at}"))?;
                strips.jammed.iter().try_for_each(|at| write!(f, ", {at} jammed"))
            }
            Schedule::InOrder(reason) => write!(f, "in order: {reason}"),
            Schedule::Zeros => f.write_str("nothing to do: the buffer has only zeros"),
        }?;
        for (checks, before) in [(&self.checks, "if"), (&self.independence, "vectors if")] {
            for (at, check) in checks.iter().enumerate() {
                match at {
                    0 => write!(f, "; {before} {check}"),
                    _ => write!(f, ", {check}"),
                }?;
            }
        }
        for at in (0..self.nest.loops.len()).filter(|at| self.is_merged(*at)) {
            write!(f, "; merged: loop {at}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::super::Nests;
    use super::super::tests::{function, nested, single};
    use super::*;

    /// The text of the only nest of a function's body.
    fn scheduled(body: &str) -> alloc::string::String {
        let function = function(body);
        let nests = Nests::of(&function);
        ScheduledNest::of(&function, &nests.found[0], Some(Order::Bytecode)).to_string()
    }

    const COPY: &str = "  %i20 = vm.buffer.load.i32 %r1, %i12:13\n  vm.buffer.store.i32 %i20, %r0, %i12:13\n";

    #[test]
    fn elements_may_be_those_that_are_stored() {
        let test = "vm.cmp.lt.i64.s %i12:13, %i10:11";
        let ranges = "elements along loop 0; if view 0 in range, view 1 in range; vectors if view 1 distinct, ";
        assert_eq!(scheduled(&single(0, 1, test, COPY)), format!("{ranges}views 1 and 0 disjoint or same"));
        // Other elements, and elements of another width.
        let reversed = COPY.replace("%r1, %i12:13", "%r1, %i18:19");
        let reversed = format!("  %i18:19 = vm.sub.i64 %i10:11, %i12:13\n{reversed}");
        assert_eq!(scheduled(&single(0, 1, test, &reversed)), format!("{ranges}views 1 and 0 disjoint or same"));
        let wide = COPY.replace("load.i32", "load.i8.s");
        assert_eq!(scheduled(&single(0, 1, test, &wide)), format!("{ranges}views 1 and 0 disjoint"));
    }

    #[test]
    fn loops_that_go_on_are_one() {
        // 16 rows of 16 elements, without gaps, and with.
        let rows = |stride: u64| {
            let index =
                format!("  %i30:31 = vm.const.i64 {stride}\n  %i18:19 = vm.fma.i64 %i12:13, %i30:31, %i16:17\n");
            nested(&format!("{index}  vm.buffer.store.i32 %i4, %r0, %i18:19\n"), "")
        };
        let one = "elements along loop 1; if view 0 in range; vectors if view 0 distinct";
        assert_eq!(scheduled(&rows(16)), format!("{one}; merged: loop 0"));
        assert_eq!(scheduled(&rows(17)), one);
        // A single row.
        let single = rows(17).replace("vm.cmp.lt.i64.s %i12:13, %i10:11", "vm.cmp.lt.i64.s %i12:13, %i8:9");
        assert_eq!(scheduled(&single), format!("{one}; merged: loop 0"));
        // Rows of one element: a column.
        let column = rows(1).replace("vm.cmp.lt.i64.s %i16:17, %i10:11", "vm.cmp.lt.i64.s %i16:17, %i8:9");
        assert_eq!(scheduled(&column), one.replace("loop 1", "loop 0") + "; merged: loop 1");
    }

    #[test]
    fn reductions_are_not_empty_and_load_no_results() {
        let maximum = "  %i20 = vm.buffer.load.i32 %r1, %i16:17\n  %i21 = vm.buffer.load.i32 %r0, %i12:13\n  \
            %i20 = vm.max.i32.s %i20, %i21\n  vm.buffer.store.i32 %i20, %r0, %i12:13\n";
        assert_eq!(
            scheduled(&nested(maximum, "")),
            "strips of loop 0, reducing over 1; if view 0 in range, view 1 in range; vectors if view 1 distinct, views 1 and 0 disjoint, \
             loop 1 not empty"
        );
    }

    /// Rows of sums whose loop has few iterations, and that load the same elements.
    #[test]
    fn rows_that_share_loads_are_jammed() {
        // Rows, elements of a row, iterations that add to each of them.
        let sums = |rows: u64, loaded: &str| {
            format!(
                "  %i32:33 = vm.const.i64 {rows}\n  %i12:13 = vm.const.i64.zero\n  vm.br ^bb1()\n\
                 ^bb1:\n  %i14:15 = vm.const.i64.zero\n  vm.br ^bb2()\n\
                 ^bb2:\n  %i16:17 = vm.const.i64.zero\n  vm.br ^bb3()\n\
                 ^bb3:\n  %i18:19 = vm.fma.i64 %i16:17, %i10:11, %i14:15\n  {loaded}\n\
                 %i20:21 = vm.fma.i64 %i12:13, %i10:11, %i14:15\n  %i25 = vm.buffer.load.f32 %r0, %i20:21\n\
                 %i25 = vm.add.f32 %i25, %i24\n  vm.buffer.store.f32 %i25, %r0, %i20:21\n\
                 %i16:17 = vm.add.i64 %i16:17, %i8:9\n  %i26 = vm.cmp.lt.i64.s %i16:17, %i10:11\n  vm.cond_br %i26, ^bb3(), ^bb4()\n\
                 ^bb4:\n  %i14:15 = vm.add.i64 %i14:15, %i8:9\n  %i26 = vm.cmp.lt.i64.s %i14:15, %i10:11\n  vm.cond_br %i26, ^bb2(), ^bb5()\n\
                 ^bb5:\n  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  %i26 = vm.cmp.lt.i64.s %i12:13, %i32:33\n  vm.cond_br %i26, ^bb1(), ^bb6()\n\
                 ^bb6:\n  vm.return %i12:13\n"
            )
        };
        let (load, number) = ("%i24 = vm.buffer.load.f32 %r1, %i18:19", "%i24 = vm.const.f32 1.5");
        // The bytecode runs the last row.
        for (rows, loaded, is_jammed) in [(3, load, true), (9, load, true), (10, load, false), (3, number, false)] {
            let scheduled = scheduled(&sums(rows, loaded));
            assert_eq!(scheduled.contains("reducing over 2, 0 jammed;"), is_jammed, "{rows}: {scheduled}");
        }
    }

    #[test]
    fn kernels_check_their_operands() {
        let product = "  %i20 = vm.buffer.load.f32 %r1, %i16:17\n  %i21 = vm.buffer.load.f32 %r0, %i12:13\n  \
            %i20 = vm.fma.f32 %i20, %i20, %i21\n  vm.buffer.store.f32 %i20, %r0, %i12:13\n";
        assert_eq!(scheduled(&nested(product, "")), "contraction FmaF32");
    }
}
