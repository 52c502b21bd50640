//! Workgroup coarsening: one call of a kernel runs several workgroups.
//!
//! Compilers divide a dispatch into workgroups of some thousand operations, and around those of each are the loads of its operands, the
//! checks of its nests and the plans of its contractions. Workgroups run in no particular order, so those that follow each other along
//! one dimension may be iterations of one more loop, and that loop may stand around each nest instead of around the kernel (loop
//! distribution). What each workgroup has for itself, a buffer that the kernel allocates, becomes as many times as long.

use alloc::vec::Vec;

use smallvec::smallvec;

use super::function::{BlockData, Definition, Function, Inst, Positions};
use super::graph::Graph;
use super::loops::Loops;
use super::nest::{Affine, Element, Nest, Nests, View};
use super::op::{Edge, Op, Terminator};
use super::value::{Block, Type, Value};
use crate::index_map::IndexMap;
use crate::isa::Opcode;
use crate::semantics;
use crate::trip_count::is_injective;

/// The bytes that workgroups of one call write: half of a small L2 cache, so that a nest finds what the one before has written.
const BYTES: u64 = 256 << 10;
/// The most workgroups of a call. Powers of two divide what is run between two readings of the clock.
const MOST: u64 = 64;
/// The most nests of a kernel, each of which gets a copy of what is computed from the position. Those of compilers have some ten.
const MAX_NESTS: usize = 32;

/// The arguments of a kernel that coarsening depends on, by position.
#[derive(Clone, Copy, Debug)]
pub struct KernelArguments {
    /// A buffer of constants, which nothing writes to.
    pub constants: usize,
    /// The list of bindings.
    pub bindings: usize,
    /// The position of the workgroup, an `i32`, in the dimension along which it is coarsened.
    pub position: usize,
}

/// A kernel that runs several workgroups.
#[derive(Clone, Debug)]
pub struct Coarsened {
    /// The kernel, with a further argument, an `i64`: the number of workgroups that follow each other from the position on. Positions must
    /// not pass `i32::MAX`.
    pub function: Function,
    /// The most workgroups that one call should run, at least 2.
    pub coarsening: u32,
    /// Positions below this may share calls; `u32::MAX` where all may. The tile of a workgroup behind may be shorter, so that it needs a call
    /// of its own.
    pub alike: u32,
}

impl Function {
    /// Coarsens a kernel; it must be simplified, with arithmetic. None for kernels that do anything besides nests, whose nests are others
    /// in each workgroup (but for shorter tiles of the last), and for those that write so much that there is nothing to gain.
    #[must_use]
    pub fn coarsened(&self, arguments: &KernelArguments) -> Option<Coarsened> {
        if let Some((function, coarsening)) = self.coarsened_for_all(arguments) {
            return Some(Coarsened { function, coarsening, alike: u32::MAX });
        }
        let tiles = Tiles::of(self, arguments).filter(|tiles| tiles.alike > 1)?;
        // Calls for several workgroups are for whole tiles, so that what holds of the kernel with their sizes holds of those. In calls for
        // one, the loops around nests change nothing.
        let (_, coarsening) = tiles.of_whole(self).coarsened_for_all(arguments)?;
        let (function, _) = Parts::of(self, arguments, &tiles.sizes)?.surround(self)?;
        Some(Coarsened { function, coarsening, alike: tiles.alike })
    }

    /// Coarsens a kernel of which all workgroups may share calls, and returns how many may at most.
    fn coarsened_for_all(&self, arguments: &KernelArguments) -> Option<(Function, u32)> {
        let parts = Parts::of(self, arguments, &IndexMap::default())?;
        let most = (BYTES / parts.values.bytes_written(self, &parts.nests)?.max(1)).min(MOST);
        if most < 2 {
            return None;
        }
        let (function, nests) = parts.surround(self)?;
        Some((function, most_apart(&nests, most)? as u32))
    }
}

/// The sizes of tiles that are the same up to a position, and shorter behind: `min(size, length - step * position)`, where `step` mostly is the
/// size.
struct Tiles {
    /// What computes them, and the size of a whole one.
    sizes: IndexMap<Value, u64>,
    /// The number of workgroups whose tiles are all whole, the first ones.
    alike: u32,
}

impl Tiles {
    /// Finds them; None where there are none.
    fn of(kernel: &Function, arguments: &KernelArguments) -> Option<Tiles> {
        let mut tiles = Tiles { sizes: IndexMap::default(), alike: u32::MAX };
        let position = kernel.arguments().get(arguments.position).copied()?;
        let mut extensions: IndexMap<Value, ()> = IndexMap::default();
        // What is left of a length: the length, and the step that is multiplied by the position and added, a negative number.
        let mut left: IndexMap<Value, (i64, i64)> = IndexMap::default();
        let constant = |value: Value| kernel.constant_bits(value).map(u64::cast_signed);
        for inst in kernel.blocks.iter().flat_map(|data| &data.instructions) {
            let (Op::Eval { opcode, operands }, [result]) = (&inst.op, &inst.results[..]) else { continue };
            match (opcode, &operands[..]) {
                (Opcode::FmaI64, &[first, second, length]) => {
                    let (extension, step) = if extensions.contains(first) { (first, second) } else { (second, first) };
                    if extensions.contains(extension)
                        && let (Some(step @ ..0), Some(length)) = (constant(step), constant(length))
                    {
                        left.insert(*result, (length, step));
                    }
                }
                (Opcode::MinI64S, &[first, second]) => {
                    let (rest, size) = if left.contains(first) { (first, second) } else { (second, first) };
                    if let (Some((length, step)), Some(size)) = (left.get(rest), constant(size)) {
                        // Up to there what is left is between the size and the length, so that no operation wraps around.
                        let whole = (i128::from(*length) - i128::from(size)).div_euclid(-i128::from(*step)) + 1;
                        tiles.alike = tiles.alike.min(u32::try_from(whole.max(0)).unwrap_or(u32::MAX));
                        tiles.sizes.insert(*result, size.cast_unsigned());
                    }
                }
                _ if extends(&inst.op, position) => _ = extensions.insert(*result, ()),
                _ => {}
            }
        }
        (!tiles.sizes.is_empty()).then_some(tiles)
    }

    /// Returns the kernel with the sizes of whole tiles in the place of what computes them.
    fn of_whole(&self, kernel: &Function) -> Function {
        let mut kernel = kernel.clone();
        let constants: Vec<(Value, Value)> =
            self.sizes.iter().map(|(value, size)| (value, kernel.constant(Type::i64, *size))).collect();
        let mut replacements = kernel.identity();
        for (value, constant) in constants {
            replacements[value.index()] = constant;
        }
        kernel.replace(&replacements);
        kernel.simplify(Some(semantics::fold));
        kernel
    }
}

/// A kernel that consists of nests, and of what is computed for them.
struct Parts {
    nests: Nests,
    row: Row,
    values: Values,
}

impl Parts {
    /// Finds them; what is among `tiles` counts as the same in all workgroups.
    fn of(kernel: &Function, arguments: &KernelArguments, tiles: &IndexMap<Value, u64>) -> Option<Parts> {
        let nests = Nests::of(kernel);
        if !(1..=MAX_NESTS).contains(&nests.found.len()) || !nests.rejected.is_empty() {
            return None;
        }
        let graph = Graph::of(kernel);
        let loops = Loops::new(&graph, &graph.dominators());
        let row = Row::of(kernel, &loops, &nests)?;
        let values = Values::of(kernel, &row, arguments, tiles)?;
        Some(Parts { nests, row, values })
    }

    /// Returns the kernel with the loop over workgroups around each nest, and its nests. None where not all nests have become nests of one
    /// loop more.
    fn surround(&self, kernel: &Function) -> Option<(Function, Nests)> {
        let mut function = kernel.clone();
        let position = function.arguments().len() as u32;
        let count = function.value(Type::i64, Definition::Parameter(Block::ENTRY, position));
        function.blocks[Block::ENTRY.index()].parameters.push(count);
        for inner in &self.row.loops {
            self.values.surround(&mut function, inner, count)?;
        }
        self.values.lengthen(&mut function, count);
        function.simplify(Some(semantics::fold));
        let nests = Nests::of(&function);
        let is_coarse = |nest: &Nest| nest.loops[0].test.bound == Affine::invariant(count);
        let are_coarse = nests.rejected.is_empty()
            && nests.found.len() == self.nests.found.len()
            && nests.found.iter().all(is_coarse);
        are_coarse.then_some((function, nests))
    }
}

/// The most workgroups that a call may run, a power of two: so many, or fewer. Where workgroups write to the same elements, results depend
/// on their order.
fn most_apart(nests: &Nests, most: u64) -> Option<u64> {
    let write_apart = |most: &u64| {
        nests
            .found
            .iter()
            .all(|nest| nest.views.iter().filter(|view| view.written).all(|view| writes_apart(nest, view, *most)))
    };
    (1..=most.ilog2()).rev().map(|power| 1 << power).find(write_apart)
}

/// Whether iterations that differ in loops which move a view have different elements of it, the first loop among those.
fn writes_apart(nest: &Nest, view: &View, most: u64) -> bool {
    let moving = view.index.loops().into_iter().map(|at| {
        let count = if at == 0 { Some(most) } else { nest.loops[at].constant_trip_count() };
        Some((usize::try_from(count?).ok()?, view.index.constant_stride(at)?))
    });
    let moving: Option<Vec<(usize, i64)>> = moving.collect();
    view.index.moves_along(0) && moving.is_some_and(|moving| is_injective(&moving))
}

/// The blocks of a kernel that are no part of nests, and the outermost loops of the nests between them, in the order in which they run.
struct Row {
    blocks: Vec<Block>,
    loops: Vec<Outermost>,
}

/// The outermost loop of a nest.
struct Outermost {
    header: Block,
    /// Its blocks, in their order.
    blocks: Vec<Block>,
}

impl Row {
    /// Returns them where every block and every nest runs once, and only the nests' loops take arguments.
    fn of(kernel: &Function, loops: &Loops, nests: &Nests) -> Option<Row> {
        let mut row = Row { blocks: Vec::new(), loops: Vec::new() };
        let mut at = Block::ENTRY;
        loop {
            if at != Block::ENTRY && !kernel.block(at).parameters.is_empty() {
                return None;
            }
            row.blocks.push(at);
            let mut edge = match &kernel.block(at).terminator {
                Terminator::Return(_) => return (row.loops.len() == nests.found.len()).then_some(row),
                Terminator::Branch(edge) => edge,
                _ => return None,
            };
            while let Some(inner) = loops.innermost_index(edge.target.0) {
                nests.at(edge.target)?;
                let blocks = kernel.iter().map(|(block, _)| block).filter(|block| loops.contains(inner, block.0));
                let outermost = Outermost { header: edge.target, blocks: blocks.collect() };
                edge = outermost.leaving(kernel)?;
                row.loops.push(outermost);
            }
            at = edge.target;
        }
    }
}

impl Outermost {
    fn has(&self, block: Block) -> bool {
        self.blocks.binary_search(&block).is_ok()
    }

    /// The edge that leaves the loop.
    fn leaving<'f>(&self, function: &'f Function) -> Option<&'f Edge> {
        let mut leaving = None;
        for block in &self.blocks {
            function.block(*block).terminator.visit_edges(|edge| {
                if !self.has(edge.target) {
                    leaving = Some(edge);
                }
            });
        }
        leaving
    }

    /// Whether nothing but the loop uses what it defines.
    fn is_closed(&self, kernel: &Function) -> bool {
        let is_own = |value: Value| match kernel.definition(value) {
            Definition::Constant(_) => false,
            Definition::Parameter(block, _) | Definition::Result(block) => self.has(block),
        };
        let mut is_closed = true;
        for (_, data) in kernel.iter().filter(|(block, _)| !self.has(*block)) {
            data.visit_values(|value| is_closed &= !is_own(value));
        }
        let leaving = self.leaving(kernel).map_or(&[][..], |edge| &edge.arguments);
        is_closed && !leaving.iter().any(|operand| is_own(operand.value))
    }

    /// Lets an edge of the loop's header or of one of its exits lead elsewhere, and returns it as it was: the one to a block that comes
    /// from within the loop, or from outside.
    fn redirect(&self, function: &mut Function, target: Block, is_from_within: bool, to: &Edge) -> Option<Edge> {
        let mut old = None;
        for index in 0..function.blocks.len() {
            if self.has(Block(index as u32)) == is_from_within {
                function.blocks[index].terminator.visit_edges_mut(|edge| {
                    if edge.target == target {
                        old = Some(core::mem::replace(edge, to.clone()));
                    }
                });
            }
        }
        old
    }
}

/// What the nests of a kernel depend on.
struct Values {
    /// The position, an `i32`.
    position: Value,
    /// What is computed from it, in order. Whatever uses the position itself extends it to 64 bits.
    computed: Vec<Inst>,
    /// The lengths of buffers that each workgroup has for itself, in bytes.
    temporaries: IndexMap<Value, u64>,
    /// The bindings.
    bindings: IndexMap<Value, ()>,
}

impl Values {
    /// Finds them; None where the kernel does anything outside of its nests that could differ between one call for several workgroups and
    /// a call for each.
    fn of(kernel: &Function, row: &Row, arguments: &KernelArguments, tiles: &IndexMap<Value, u64>) -> Option<Values> {
        let argument = |at: usize| kernel.arguments().get(at).copied();
        let (constants, bindings) = (argument(arguments.constants)?, argument(arguments.bindings)?);
        let position = argument(arguments.position).filter(|position| kernel.ty(*position) == Type::i32)?;
        let positions = Positions::of(kernel);
        let mut values =
            Values { position, computed: Vec::new(), temporaries: IndexMap::default(), bindings: IndexMap::default() };
        let mut differs: IndexMap<Value, ()> = IndexMap::default();
        for inst in row.blocks.iter().flat_map(|block| &kernel.block(*block).instructions) {
            let (mut uses_position, mut is_same) = (false, true);
            inst.op.visit(|operand| {
                uses_position |= operand.value() == position;
                is_same &= !differs.contains(operand.value());
            });
            match &inst.op {
                op if uses_position && !extends(op, position) => return None,
                op if uses_position || kernel.is_arithmetic(op, &positions) => {
                    let is_tile = inst.results.iter().any(|result| tiles.contains(*result));
                    if uses_position || !is_same && !is_tile {
                        inst.results.iter().for_each(|result| _ = differs.insert(*result, ()));
                        values.computed.push(inst.clone());
                    }
                }
                _ if !is_same => return None,
                Op::BufferLoad { buffer, .. } if *buffer == constants => {}
                Op::ListGetRef { list, take: false, .. } if *list == bindings => {
                    values.bindings.insert(*inst.results.first()?, ());
                }
                Op::BufferAlloc { length, .. } => {
                    values.temporaries.insert(*inst.results.first()?, kernel.constant_bits(*length)?);
                }
                _ => return None,
            }
        }
        // Branches do not pass the position, and loops do not use it.
        let mut is_extended = !values.computed.is_empty();
        kernel.blocks.iter().for_each(|data| data.terminator.visit_values(|value| is_extended &= value != position));
        for inner in &row.loops {
            let blocks = inner.blocks.iter().map(|block| kernel.block(*block));
            blocks.for_each(|data| data.visit_values(|value| is_extended &= value != position));
            is_extended &= inner.is_closed(kernel);
        }
        is_extended.then_some(values)
    }

    /// The bytes that a workgroup allocates and writes. None where those are not known, where it writes to anything but bindings and its own
    /// buffers, and where it may access elements outside of these: in a call for several, those would be another workgroup's.
    fn bytes_written(&self, kernel: &Function, nests: &Nests) -> Option<u64> {
        let mut written = self.temporaries.clone();
        // Indices that are computed are not known to be within a workgroup's own part.
        if nests.found.iter().flat_map(|nest| &nest.gathers).any(|gather| self.temporaries.contains(gather.buffer)) {
            return None;
        }
        for (nest, view) in nests.found.iter().flat_map(|nest| nest.views.iter().map(move |view| (nest, view))) {
            if let Some(length) = self.temporaries.get(view.buffer) {
                (is_within(nest, view, *length) && nest.is_kept_by_its_loops(kernel, &[])).then_some(())?;
            } else if view.written && !self.bindings.contains(view.buffer) {
                return None;
            }
            if view.written {
                let mut counts = view.index.loops().into_iter().map(|at| nest.loops[at].constant_trip_count());
                let bytes = counts.try_fold(view.element.width(), |bytes, count| bytes.checked_mul(count?))?;
                written.insert(view.buffer, bytes.max(written.get(view.buffer).copied().unwrap_or_default()));
            }
        }
        written.values().iter().try_fold(0u64, |sum, bytes| sum.checked_add(*bytes))
    }

    /// Makes the buffers that workgroups have for themselves longer.
    fn lengthen(&self, function: &mut Function, count: Value) {
        for index in 0..function.blocks.len() {
            let instructions = core::mem::take(&mut function.blocks[index].instructions);
            let mut lengthened = Vec::with_capacity(instructions.len());
            for mut inst in instructions {
                if let Op::BufferAlloc { length, .. } = &mut inst.op {
                    let product = function.result(Type::i64, Block(index as u32));
                    let own = core::mem::replace(length, product);
                    lengthened.push(evaluation(Opcode::MulI64, &[own, count], product, inst.offset));
                }
                lengthened.push(inst);
            }
            function.blocks[index].instructions = lengthened;
        }
    }

    /// Puts the loop over workgroups around a loop of the kernel.
    fn surround(&self, function: &mut Function, inner: &Outermost, count: Value) -> Option<()> {
        let first = function.blocks.len() as u32;
        let [outer, body, latch] = [0, 1, 2].map(|index| Block(first + index));
        let offset = function.block(inner.header).offset;
        let [zero, one] = [0, 1].map(|number| function.constant(Type::i64, number));
        let workgroup = function.value(Type::i64, Definition::Parameter(outer, 0));
        let (goes_on, next) = (function.result(Type::i32, outer), function.result(Type::i64, latch));
        let needed = self.needed(function, inner);
        let (instructions, computed) = of_workgroup(function, &needed, (self.position, workgroup), (body, offset));
        let to_outer = |argument: Value| Edge { arguments: alloc::vec![argument.into()], ..Edge::new(outer) };
        let mut entering = inner.redirect(function, inner.header, false, &to_outer(zero))?;
        for operand in &mut entering.arguments {
            rename(&computed, &mut operand.value);
        }
        let exit = inner.leaving(function)?.target;
        let leaving = inner.redirect(function, exit, true, &Edge::new(latch))?;
        self.move_accesses(function, inner, &computed, workgroup);
        let block = |parameters: Vec<Value>, instructions: Vec<Inst>, terminator: Terminator| BlockData {
            parameters,
            instructions,
            terminator,
            offset,
            entry: None,
        };
        let test = evaluation(Opcode::CmpLTI64S, &[workgroup, count], goes_on, offset);
        let branch = Terminator::CondBranch { condition: goes_on, if_true: Edge::new(body), if_false: leaving };
        let step = evaluation(Opcode::AddI64, &[workgroup, one], next, offset);
        function.blocks.extend([
            block(alloc::vec![workgroup], alloc::vec![test], branch),
            block(Vec::new(), instructions, Terminator::Branch(entering)),
            block(Vec::new(), alloc::vec![step], Terminator::Branch(to_outer(next))),
        ]);
        Some(())
    }

    /// What is computed from the position for a loop of the kernel, in order.
    fn needed(&self, function: &Function, inner: &Outermost) -> Vec<Inst> {
        let mut used: IndexMap<Value, ()> = IndexMap::default();
        for (block, data) in function.iter() {
            if inner.has(block) {
                data.visit_values(|value| _ = used.insert(value, ()));
                continue;
            }
            data.terminator.visit_edges(|edge| {
                let entering = edge.arguments.iter().filter(|_| edge.target == inner.header);
                entering.for_each(|operand| _ = used.insert(operand.value, ()));
            });
        }
        let mut needed: Vec<Inst> = Vec::new();
        for inst in self.computed.iter().rev() {
            if inst.results.iter().any(|result| used.contains(*result)) {
                inst.op.visit(|operand| _ = used.insert(operand.value(), ()));
                needed.push(inst.clone());
            }
        }
        needed.reverse();
        needed
    }

    /// Puts a workgroup's values in the place of a single one's in a loop, and moves accesses of its buffers to its part of them.
    fn move_accesses(
        &self,
        function: &mut Function,
        inner: &Outermost,
        computed: &IndexMap<Value, Value>,
        workgroup: Value,
    ) {
        for &block in &inner.blocks {
            let data = &mut function.blocks[block.index()];
            data.terminator.visit_mut(|mut operand| rename(computed, operand.value_mut()));
            data.terminator.visit_edges_mut(|edge| {
                edge.arguments.iter_mut().for_each(|operand| rename(computed, &mut operand.value));
            });
            let mut moved = Vec::new();
            for mut inst in core::mem::take(&mut data.instructions) {
                inst.op.visit_mut(|mut operand| rename(computed, operand.value_mut()));
                if let Op::BufferLoad { opcode, buffer, offset } | Op::BufferStore { opcode, buffer, offset, .. } =
                    &mut inst.op
                    && let Some(length) = self.temporaries.get(*buffer)
                    && let Some(element) = Element::of(*opcode)
                {
                    let elements = function.constant(Type::i64, length / element.width());
                    let own = function.result(Type::i64, block);
                    let operands = [workgroup, elements, core::mem::replace(offset, own)];
                    moved.push(evaluation(Opcode::FmaI64, &operands, own, inst.offset));
                }
                moved.push(inst);
            }
            function.blocks[block.index()].instructions = moved;
        }
    }
}

/// What a workgroup of a loop computes from its position, and the values that stand for those of a single one.
fn of_workgroup(
    function: &mut Function,
    needed: &[Inst],
    (position, workgroup): (Value, Value),
    (body, offset): (Block, u32),
) -> (Vec<Inst>, IndexMap<Value, Value>) {
    let (mut instructions, mut computed) = (Vec::new(), IndexMap::default());
    for inst in needed {
        let mut own = inst.clone();
        own.offset = offset;
        for result in &mut own.results {
            let value = function.result(function.ty(*result), body);
            computed.insert(*result, value);
            *result = value;
        }
        if extends(&inst.op, position) {
            // Positions are numbers of 31 bits, so that the sum of 64 bits is the extension of theirs.
            instructions.push(evaluation(Opcode::AddI64, &[inst.results[0], workgroup], own.results[0], offset));
            continue;
        }
        own.op.visit_mut(|mut operand| rename(&computed, operand.value_mut()));
        instructions.push(own);
    }
    (instructions, computed)
}

fn rename(computed: &IndexMap<Value, Value>, value: &mut Value) {
    *value = computed.get(*value).copied().unwrap_or(*value);
}

/// Whether an operation extends an `i32` to 64 bits.
fn extends(op: &Op, value: Value) -> bool {
    matches!(op, Op::Eval { opcode: Opcode::ExtI32I64S | Opcode::ExtI32I64U, operands } if operands[..] == [value])
}

fn evaluation(opcode: Opcode, operands: &[Value], result: Value, offset: u32) -> Inst {
    Inst { op: Op::Eval { opcode, operands: operands.into() }, results: smallvec![result], offset }
}

/// Whether the elements that a nest accesses are within so many bytes.
fn is_within(nest: &Nest, view: &View, bytes: u64) -> bool {
    let range = || {
        let base = i128::from(view.index.as_constant_base()?);
        let (mut least, mut greatest) = (base, base);
        for at in view.index.loops() {
            let last = i128::from(nest.loops[at].constant_trip_count()?.checked_sub(1)?);
            let reach = i128::from(view.index.constant_stride(at)?).checked_mul(last)?;
            (least, greatest) = (least.checked_add(reach.min(0))?, greatest.checked_add(reach.max(0))?);
        }
        Some((least, greatest))
    };
    let width = view.element.width();
    bytes.is_multiple_of(width)
        && range().is_some_and(|(least, greatest)| least >= 0 && greatest < i128::from(bytes / width))
}
