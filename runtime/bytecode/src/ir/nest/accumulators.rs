//! Accumulators: memory that a function allocates, and of which it reads nothing before a contraction has written it. So it need not be
//! cleared, if the contraction takes the elements for zeros and writes all of them.
//!
//! The forms of a nest say which elements it accesses, but the loops of the bytecode may run instead of the nest, or go on where it ends.
//! Where the writer does not run as a contraction, the memory is cleared. What loads later has to load the elements that its forms say in
//! its loops as well, whatever values they have at run time: see [`Nest::is_kept_by_its_loops`]. A contraction without iterations does not run, so
//! where it did, all its trip counts are positive.

use alloc::vec::Vec;

use super::zeros::allocations;
use super::{Affine, Counted, Nest, Nests, Schedule, Term, View};
use crate::index_map::IndexMap;
use crate::ir::function::Function;
use crate::ir::graph::Graph;
use crate::ir::op::Op;
use crate::ir::value::{Block, Value};

/// How deep the instructions are followed that compute values of two nests: trip counts are products of a few.
const MAX_DEPTH: usize = 4;

/// The accumulators of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accumulators {
    /// Each buffer, and the contraction that writes it, as an index into [`Nests::found`].
    found: Vec<(Value, usize)>,
}

/// What a function does with a buffer that it allocates.
#[derive(Default)]
struct Uses {
    /// The contraction that adds to its zeros: the nest, and the view.
    writer: Option<(usize, usize)>,
    /// Views that are loaded, of a nest each.
    readers: Vec<(usize, usize)>,
    /// It does something else.
    has_others: bool,
}

/// The buffers that a function allocates.
struct Allocated {
    /// For each buffer, an index into the uses.
    buffers: IndexMap<Value, usize>,
    uses: Vec<Uses>,
}

impl Accumulators {
    /// Finds the accumulators of a function. `schedule` says how a nest runs, by its index in [`Nests::found`].
    #[must_use]
    pub fn of(function: &Function, nests: &Nests, schedule: impl Fn(usize) -> Schedule) -> Accumulators {
        // Most functions have none, and nothing further is done.
        if !nests.found.iter().any(|nest| nest.views.iter().any(|view| view.zeros)) {
            return Accumulators::default();
        }
        let mut allocated = Allocated::of(function);
        for (at, nest) in nests.found.iter().enumerate() {
            if nest.views.iter().any(|view| allocated.uses(view.buffer).is_some()) {
                allocated.add((at, nest), &schedule(at));
            }
        }
        allocated.add_others(function, nests);
        let dominators = Graph::of(function).dominators();
        let header = |at: usize| nests.found[at].loops[0].header.0;
        let writer_of = |uses: &Uses| {
            let (writer, written) = uses.writer.filter(|_| !uses.has_others)?;
            let reads_what_is_written = |(reader, read): &(usize, usize)| {
                let pair = Pair { function, nests: [&nests.found[writer], &nests.found[*reader]] };
                *reader != writer
                    && dominators.dominates(header(writer), header(*reader))
                    && pair.covers([written, *read])
            };
            let ends = nests.found[writer].ends_with_its_test(function);
            (ends && uses.readers.iter().all(reads_what_is_written)).then_some(writer)
        };
        let found =
            allocated.buffers.iter().filter_map(|(buffer, at)| Some((buffer, writer_of(&allocated.uses[*at])?)));
        Accumulators { found: found.collect() }
    }

    /// Whether a buffer is one of them.
    #[must_use]
    pub fn contains(&self, buffer: Value) -> bool {
        self.found.iter().any(|(found, _)| *found == buffer)
    }

    /// The one that a nest writes first, by its index in [`Nests::found`]. Where the nest's contraction does not run, the memory must be cleared
    /// before the loops of the bytecode.
    #[must_use]
    pub fn output_of(&self, nest: usize) -> Option<Value> {
        self.found.iter().find(|(_, writer)| *writer == nest).map(|(buffer, _)| *buffer)
    }
}

impl Allocated {
    fn of(function: &Function) -> Allocated {
        let mut allocated = Allocated { buffers: IndexMap::default(), uses: Vec::new() };
        for (_, buffer) in allocations(function) {
            allocated.buffers.insert(buffer, allocated.uses.len());
            allocated.uses.push(Uses::default());
        }
        allocated
    }

    fn uses(&mut self, buffer: Value) -> Option<&mut Uses> {
        self.buffers.get(buffer).map(|at| &mut self.uses[*at])
    }

    /// Adds what a nest does.
    fn add(&mut self, (at, nest): (usize, &Nest), schedule: &Schedule) {
        for (view, data) in nest.views.iter().enumerate() {
            let Some(uses) = self.uses(data.buffer) else { continue };
            match schedule {
                // They store nothing, or zeros.
                Schedule::Zeros => {}
                Schedule::Contraction(contraction)
                    if contraction.output == view && data.zeros && uses.writer.is_none() =>
                {
                    uses.writer = Some((at, view));
                }
                _ if !data.written => uses.readers.push((at, view)),
                _ => uses.has_others = true,
            }
        }
    }

    /// Adds what is done elsewhere than in nests.
    fn add_others(&mut self, function: &Function, nests: &Nests) {
        let accesses = nests.found.iter().flat_map(|nest| &nest.accesses);
        let mut accesses: Vec<(Block, usize)> = accesses.map(|access| (access.block, access.position)).collect();
        accesses.sort_unstable();
        let mut add = |value: Value| {
            if let Some(uses) = self.uses(value) {
                uses.has_others = true;
            }
        };
        for (block, data) in function.iter() {
            for (position, inst) in data.instructions.iter().enumerate() {
                if accesses.binary_search(&(block, position)).is_err() {
                    inst.op.visit(|operand| add(operand.value()));
                }
            }
            data.terminator.visit_values(&mut add);
        }
    }
}

/// A nest that writes, and one that reads later.
struct Pair<'a> {
    function: &'a Function,
    nests: [&'a Nest; 2],
}

impl Pair<'_> {
    /// Whether the reader's view has no elements but those of the writer's, where both are of the same buffer. The writer has run, so all of its
    /// trip counts are known and its divisors positive; those of the reader have to be so as well, else its loops may compute other indices than its
    /// forms.
    fn covers(&self, views: [usize; 2]) -> bool {
        let [first, second] = [0, 1].map(|of| &self.nests[of].views[views[of]]);
        let loops = |of: usize, index: &Affine| -> Vec<usize> {
            let is_long = |at: &usize| self.nests[of].loops[*at].constant_trip_count() != Some(1);
            index.loops().into_iter().filter(is_long).collect()
        };
        let (of_first, of_second) = (loops(0, &first.index), loops(1, &second.index));
        first.element.width() == second.element.width()
            // Divisors of these loops are compared with the writer's below.
            && self.nests[1].is_kept_by_its_loops(self.function, &of_second)
            && self.has_same_terms(first.index.base(), second.index.base())
            && self.covers_loops([first, second], &of_first, of_second)
    }

    /// Whether each loop of the reader is covered by one of the writer which moves the view as far, in any order: a convolution of each channel by
    /// itself has the channels within the pixels.
    fn covers_loops(&self, views: [&View; 2], of_writer: &[usize], mut of_reader: Vec<usize>) -> bool {
        let covers = |writer: usize, reader: usize| {
            let [a, b] = [views[0].index.stride(writer), views[1].index.stride(reader)];
            self.covers_count(&self.nests[0].loops[writer], &self.nests[1].loops[reader]) && self.has_same_terms(a, b)
        };
        of_writer.len() == of_reader.len()
            && of_writer.iter().all(|writer| {
                let covered = of_reader.iter().position(|reader| covers(*writer, *reader));
                covered.map(|at| of_reader.swap_remove(at)).is_some()
            })
    }

    /// Whether a loop of the reader has the trip count of one of the writer.
    fn covers_count(&self, writer: &Counted, reader: &Counted) -> bool {
        let (of_writer, of_reader) = (writer.constant_trip_count(), reader.constant_trip_count());
        if of_writer.is_some() || of_reader.is_some() {
            return of_writer == of_reader;
        }
        let (a, b) = (&writer.test, &reader.test);
        (a.step, a.relation, a.ty, a.signed, writer.tested_last)
            == (b.step, b.relation, b.ty, b.signed, reader.tested_last)
            && self.is_same(&a.first, &b.first)
            && self.is_same(&a.bound, &b.bound)
            && match (&writer.divisor, &reader.divisor) {
                (None, None) => true,
                (Some(writer), Some(reader)) => self.is_same(writer, reader),
                _ => false,
            }
    }

    /// Whether loop-invariant forms are the same.
    fn is_same(&self, first: &Affine, second: &Affine) -> bool {
        first.is_invariant() && second.is_invariant() && self.has_same_terms(first.base(), second.base())
    }

    /// Whether terms are the same, but for the loops of which they have the iteration index.
    fn has_same_terms<'t>(
        &self,
        first: impl Iterator<Item = &'t Term>,
        second: impl Iterator<Item = &'t Term>,
    ) -> bool {
        let is_same = |(first, second): (&Term, &Term)| {
            let mut factors = first.factors.iter().zip(&second.factors);
            first.coefficient == second.coefficient
                && first.factors.len() == second.factors.len()
                && factors.all(|(first, second)| self.is_same_value([*first, *second], MAX_DEPTH))
        };
        let (first, second): (Vec<&Term>, Vec<&Term>) = (first.collect(), second.collect());
        first.len() == second.len() && first.into_iter().zip(second).all(is_same)
    }

    /// Whether loop-invariant values are the same: one value, or computed before both nests from the same values.
    fn is_same_value(&self, values: [Value; 2], depth: usize) -> bool {
        if values[0] == values[1] {
            // In the writer's forms it is what the loop begins with, in those of the reader what it ends with.
            let header = self.nests[0].loops[0].header;
            return !self.function.block(header).parameters.contains(&values[0]);
        }
        let constants =
            values.map(|value| self.function.constant_bits(value).map(|bits| (self.function.ty(value), bits)));
        if let [Some(first), Some(second)] = constants {
            return first == second;
        }
        let computed = |of: usize| {
            let nest = self.nests[of];
            let mut hoisted = nest.hoisted.iter().map(|(block, at)| nest.instruction(self.function, *block, *at));
            match hoisted.find(|inst| inst.results[..] == [values[of]])?.op {
                Op::Eval { opcode, ref operands } => Some((opcode, operands)),
                _ => None,
            }
        };
        let (Some((first, of_first)), Some((second, of_second))) = (computed(0), computed(1)) else { return false };
        let mut operands = of_first.iter().zip(of_second);
        first == second
            && of_first.len() == of_second.len()
            && depth != 0
            && operands.all(|(first, second)| self.is_same_value([*first, *second], depth - 1))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;
    use crate::ir::nest::tests::function;
    use crate::ir::nest::{Needed, Order};

    const ALLOCATION: &str = "  %r3 = vm.buffer.alloc %i0:1, %i4\n";
    /// Before the test of a loop: the trip count, computed anew.
    const COUNT: &str = "  %i32:33 = vm.mul.i64 %i2:3, %i0:1\n";
    const RETURN: &str = "  vm.return %i6:7\n";

    /// A loop whose header is a block with this number, and which computes before each test.
    fn counted(first: u32, (before, bound): (&str, &str), body: &str, after: &str) -> String {
        let [head, within, done] = [first, first + 1, first + 2];
        format!(
            "  vm.br ^bb{head}(%i6->%i12, %i7->%i13)\n\
             ^bb{head}:\n{before}  %i5 = vm.cmp.lt.i64.s %i12:13, {bound}\n  vm.cond_br %i5, ^bb{within}(), ^bb{done}()\n\
             ^bb{within}:\n{body}  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb{head}()\n^bb{done}:\n{after}"
        )
    }

    /// `r3[i] += r1[16 * i + j]`.
    fn sums(first: u32, count: (&str, &str), after: &str) -> String {
        let [head, within, done] = [first + 3, first + 4, first + 5];
        let rows = format!(
            "  vm.br ^bb{head}(%i6->%i16, %i7->%i17)\n\
             ^bb{head}:\n  %i5 = vm.cmp.lt.i64.s %i16:17, %i10:11\n  vm.cond_br %i5, ^bb{within}(), ^bb{done}()\n\
             ^bb{within}:\n  %i28:29 = vm.fma.i64 %i12:13, %i10:11, %i16:17\n  %i20 = vm.buffer.load.f32 %r1, %i28:29\n  \
             %i24 = vm.buffer.load.f32 %r3, %i12:13\n  %i24 = vm.add.f32 %i24, %i20\n  \
             vm.buffer.store.f32 %i24, %r3, %i12:13\n  %i16:17 = vm.add.i64 %i16:17, %i8:9\n  vm.br ^bb{head}()\n^bb{done}:\n"
        );
        counted(first, count, &rows, after)
    }

    /// `r2[i] = r3[index]`.
    fn copies(first: u32, count: (&str, &str), index: &str, after: &str) -> String {
        let body = format!(
            "  %i30:31 = vm.add.i64 %i12:13, %i8:9\n  %i24 = vm.buffer.load.f32 %r3, {index}\n  \
             vm.buffer.store.f32 %i24, %r2, %i12:13\n"
        );
        counted(first, count, &body, after)
    }

    /// How many accumulators a function has, which are those that its nests write.
    fn found(body: &str) -> usize {
        let function = function(body);
        let nests = Nests::of(&function);
        let schedule = |at: usize| {
            let nest = &nests.found[at];
            Schedule::of(&function, nest, &Needed::of(&function, nest), Order::Bytecode)
        };
        let is_sum = |at: usize| matches!(schedule(at), Schedule::Contraction(_));
        assert!((0..nests.found.len()).any(is_sum) && nests.rejected.is_empty(), "{function}");
        let accumulators = Accumulators::of(&function, &nests, schedule);
        for (buffer, nest) in &accumulators.found {
            assert!(is_sum(*nest));
            assert_eq!((accumulators.contains(*buffer), accumulators.output_of(*nest)), (true, Some(*buffer)));
        }
        accumulators.found.len()
    }

    #[test]
    fn what_is_written_before_it_is_read_need_not_be_cleared() {
        let same = ("", "%i2:3");
        let clear = |after: &str| {
            let zero = "  %i20 = vm.const.i32.zero\n  vm.buffer.store.i32 %i20, %r3, %i12:13\n";
            format!("{ALLOCATION}{}", counted(1, same, zero, after))
        };
        let sum_and_copy = |index: &str, count: (&str, &str)| sums(4, same, &copies(10, count, index, RETURN));
        assert_eq!(found(&clear(&sum_and_copy("%i12:13", same))), 1);
        assert_eq!(found(&format!("{ALLOCATION}{}", sum_and_copy("%i12:13", same))), 1);
        assert_eq!(found(&format!("{ALLOCATION}{}", sums(4, same, RETURN))), 1);
        // Other elements.
        for (index, bound) in [("%i30:31", "%i2:3"), ("%i12:13", "%i0:1"), ("%i12:13", "%i10:11"), ("%i6:7", "%i2:3")] {
            assert_eq!(found(&clear(&sum_and_copy(index, ("", bound)))), 0, "{index} {bound}");
        }
        // Before the sums, and in part; no nest; another sum.
        assert_eq!(found(&clear(&copies(4, same, "%i12:13", &sums(7, same, RETURN)))), 0);
        assert_eq!(found(&clear(&sums(4, same, &format!("  %i14:15 = vm.buffer.load.i64 %r3, %i6:7\n{RETURN}")))), 0);
        assert_eq!(found(&clear(&sums(4, same, &sums(10, same, RETURN)))), 0);
        // One of two ways leads past the sums.
        let way = format!("  vm.cond_br %i4, ^bb20(), ^bb6()\n^bb20:\n{}", sum_and_copy("%i12:13", same));
        assert_eq!(found(&clear(&way)), 0);
    }

    /// What the loops of the bytecode do when the nest is done, or runs not at all.
    #[test]
    fn forms_that_loops_do_not_keep_are_not_compared() {
        let same = ("", "%i2:3");
        let of = |sums: &str| found(&format!("{ALLOCATION}{sums}"));
        // Accesses before the test of the outermost loop run once more than it has iterations.
        let copy = "  %i24 = vm.buffer.load.f32 %r3, %i12:13\n  vm.buffer.store.f32 %i24, %r2, %i12:13\n";
        assert_eq!(of(&sums(4, same, &counted(10, (copy, "%i2:3"), "", RETURN))), 0);
        let row = sums(4, same, RETURN);
        let tested_last = row
            .replace(
                "^bb4:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i2:3\n  vm.cond_br %i5, ^bb5(), ^bb6()\n^bb5:\n",
                "^bb4:\n",
            )
            .replace(
                "^bb9:\n  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb4()\n",
                "^bb9:\n  %i5 = vm.cmp.lt.i64.s %i12:13, %i2:3\n  vm.cond_br %i5, ^bb5(), ^bb6()\n\
                 ^bb5:\n  %i12:13 = vm.add.i64 %i12:13, %i8:9\n  vm.br ^bb4()\n",
            );
        assert_ne!(row, tested_last);
        assert_eq!((of(&row), of(&tested_last)), (1, 0));
        // An index that begins with a parameter of the function ends elsewhere, where the next loop begins.
        let moved = |index: &str| {
            sums(4, ("", "%i10:11"), &copies(10, ("", "%i10:11"), index, RETURN))
                .replacen("(%i6->%i12, %i7->%i13)", "(%i6->%i12, %i7->%i13, %i0->%i34, %i1->%i35)", 1)
                .replace("%r3, %i12:13\n  %i24 = vm.add.f32", "%r3, %i34:35\n  %i24 = vm.add.f32")
                .replace("vm.buffer.store.f32 %i24, %r3, %i12:13", "vm.buffer.store.f32 %i24, %r3, %i34:35")
                .replacen(
                    "  %i12:13 = vm.add.i64 %i12:13",
                    "  %i34:35 = vm.add.i64 %i34:35, %i8:9\n  %i12:13 = vm.add.i64 %i12:13",
                    1,
                )
                .replace("  %i30:31 = vm.add.i64 %i12:13, %i8:9\n", "  %i30:31 = vm.add.i64 %i34:35, %i12:13\n")
        };
        assert_eq!(of(&moved("%i30:31")), 0);
        // Where a divisor is negative, the loop has another index.
        let divided = |divisor: &str| {
            let index = format!(
                "  %i36:37 = vm.rem.i64.s %i12:13, {divisor}\n  %i38:39 = vm.rem.i64.s %i36:37, %i10:11\n  \
                 %i40:41 = vm.add.i64 %i12:13, %i10:11\n  %i5 = vm.cmp.lt.i64.s {divisor}, %i6:7\n  \
                 %i30:31 = vm.select.i64 %i5 ? %i40:41 : %i38:39\n"
            );
            sums(4, ("", "%i10:11"), &copies(10, same, "%i30:31", RETURN))
                .replace("  %i30:31 = vm.add.i64 %i12:13, %i8:9\n", &index)
        };
        assert_eq!([of(&divided("%i0:1")), of(&divided("%i10:11"))], [0, 1]);
        // Numbers that differ, although neither is zero.
        let unequal = divided("%i10:11").replace(
            "  %i30:31 = vm.select",
            "  %i20 = vm.cmp.eq.i32 %i5, %i5\n  %i21 = vm.const.i32 2\n  %i5 = vm.cmp.ne.i32 %i20, %i21\n  %i30:31 = vm.select",
        );
        assert_eq!(of(&unequal), 0);
        // Then the index has no form.
        let nests = Nests::of(&function(&format!("{ALLOCATION}{unequal}"))).found;
        assert!(nests.last().is_some_and(|nest| nest.gathers.len() == 1));
    }

    #[test]
    fn trip_counts_are_compared_by_what_computes_them() {
        let with = |first: &str, second: &str| {
            let copy = copies(10, (second, "%i32:33"), "%i12:13", RETURN);
            found(&format!("{ALLOCATION}{}", sums(4, (first, "%i32:33"), &copy)))
        };
        assert_eq!(with(COUNT, COUNT), 1);
        let others = ["%i2:3, %i2:3", "%i0:1, %i10:11"].map(|operands| COUNT.replace("%i2:3, %i0:1", operands));
        assert_eq!(others.map(|other| with(COUNT, &other)), [0, 0]);
        let minimum = |operands: &str| format!("  %i32:33 = vm.min.i64.s {operands}\n");
        let (first, second) = (minimum("%i2:3, %i0:1"), minimum("%i0:1, %i2:3"));
        assert_eq!([with(&first, &first), with(&first, &second), with(COUNT, &first)], [1, 0, 0]);
    }

    /// Loops around a body, each with its register and its bound.
    fn nested(first: u32, loops: &[(u32, &str)], body: &str) -> String {
        let Some(((low, bound), inner)) = loops.split_first() else { return body.into() };
        let ([head, within, done], high) = ([first, first + 1, first + 2], low + 1);
        let body = nested(first + 3, inner, body);
        format!(
            "  vm.br ^bb{head}(%i6->%i{low}, %i7->%i{high})\n\
             ^bb{head}:\n  %i5 = vm.cmp.lt.i64.s %i{low}:{high}, {bound}\n  vm.cond_br %i5, ^bb{within}(), ^bb{done}()\n\
             ^bb{within}:\n{body}  %i{low}:{high} = vm.add.i64 %i{low}:{high}, %i8:9\n  vm.br ^bb{head}()\n^bb{done}:\n"
        )
    }

    /// Loops over the elements of four lines of `r3`, which are 16 apart: the loops, and what computes the index.
    type Lines<'a> = (&'a [(u32, &'a str)], &'a str);

    /// A function that sums to some lines of `r3` and copies others, after it has computed `before`.
    fn lines(before: &str, (written, writes): Lines<'_>, (read, reads): Lines<'_>) -> String {
        let sum = "  %i28:29 = vm.fma.i64 %i40:41, %i10:11, %i16:17\n  %i20 = vm.buffer.load.f32 %r1, %i28:29\n  \
            %i24 = vm.buffer.load.f32 %r3, %i40:41\n  %i24 = vm.add.f32 %i24, %i20\n  \
            vm.buffer.store.f32 %i24, %r3, %i40:41\n";
        let copy = "  %i24 = vm.buffer.load.f32 %r3, %i40:41\n  vm.buffer.store.f32 %i24, %r2, %i40:41\n";
        let sums = nested(1, written, &format!("{writes}{}", nested(20, &[(16, "%i10:11")], sum)));
        let copies = nested(30, read, &format!("{reads}{copy}"));
        format!("{ALLOCATION}  %i42:43 = vm.const.i64 4\n{before}{sums}{copies}{RETURN}")
    }

    #[test]
    fn loops_are_compared_in_any_order() {
        let index = "  %i40:41 = vm.fma.i64 %i12:13, %i10:11, %i14:15\n";
        let [by_lines, by_columns] = [[(12, "%i42:43"), (14, "%i2:3")], [(14, "%i2:3"), (12, "%i42:43")]];
        assert_eq!(found(&lines("", (&by_columns, index), (&by_lines, index))), 1);
        assert_eq!(found(&lines("", (&by_lines, index), (&by_columns, index))), 1);
        // Lines and columns exchanged, and a line for each column.
        let exchanged = "  %i40:41 = vm.fma.i64 %i14:15, %i10:11, %i12:13\n";
        assert_eq!(found(&lines("", (&by_columns, index), (&by_lines, exchanged))), 0);
        assert_eq!(found(&lines("", (&by_columns, index), (&[(12, "%i2:3"), (14, "%i2:3")], index))), 0);
    }

    /// Where a divisor does not divide the one before, as 5 and 6, the rests of both have the forms of the same loop, but are different.
    #[test]
    fn rests_of_divisors_that_do_not_divide_are_not_compared() {
        let constants = |divisor: u64| {
            format!(
                "  %i34:35 = vm.const.i64 5\n  %i44:45 = vm.const.i64 {divisor}\n  %i52:53 = vm.const.i64 {}\n  \
                 %i54:55 = vm.const.i64 2\n  %i56:57 = vm.const.i64 100\n",
                2 * divisor
            )
        };
        let index = "  %i40:41 = vm.fma.i64 %i12:13, %i34:35, %i14:15\n";
        let written: Lines<'_> = (&[(12, "%i54:55"), (14, "%i34:35")], index);
        let rests = "  %i36:37 = vm.div.i64.s %i18:19, %i44:45\n  %i38:39 = vm.rem.i64.s %i18:19, %i44:45\n  \
            %i46:47 = vm.rem.i64.s %i38:39, %i34:35\n  %i48:49 = vm.rem.i64.s %i18:19, %i34:35\n  \
            %i50:51 = vm.sub.i64 %i48:49, %i46:47\n  %i40:41 = vm.fma.i64 %i36:37, %i34:35, %i48:49\n  \
            %i40:41 = vm.fma.i64 %i50:51, %i56:57, %i40:41\n";
        let of = |divisor| found(&lines(&constants(divisor), written, (&[(18, "%i52:53")], rests)));
        assert_eq!([of(6), of(10)], [0, 1]);
    }
}
