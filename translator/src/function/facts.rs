//! Facts about functions that their callers need, computed over the call graph.

use std::collections::HashSet;

use incarnate_bytecode::VerifiedModule;
use incarnate_bytecode::index_map::IndexMap;
use incarnate_bytecode::ir::nest::Order;
use incarnate_bytecode::ir::{Block, Call, Callee, Definition, Function, Op, Terminator, Type, Use, Value, ownership};
use incarnate_bytecode::semantics;
use incarnate_bytecode::{Budget, Error, Result, ResultExt};

use super::imports::Imports;
use super::metering::bulk_work;
use super::outline::Needs;
use super::suspend::suspensions;
use super::types::Types;
use super::{Analysis, FunctionFacts, STATIC_LOCATION_ROWS};
use crate::kernels::Kernel;
use crate::names::FunctionName;
use crate::options::Options;

/// The number of call levels between two guarded functions of a chain without recursion: the frames between two guards must
/// fit on the host's stack.
const GUARD_LEVELS: u32 = 64;

/// Builds the IR of all functions and computes the facts of each; untrusted code counts iterations and calls.
pub(super) fn analyze<'m>(
    module: &'m VerifiedModule,
    names: Vec<FunctionName>,
    options: &Options,
    is_executable: bool,
) -> Result<Analysis<'m>> {
    let Options { untrusted, reassociate, unfuse, no_std, .. } = *options;
    if names.len() != module.function_count() as usize {
        return Err(Error::internal("the numbers of names and functions differ"));
    }
    let imports = Imports::new(module);
    let mut budgets: Vec<Budget> =
        (0..module.function_count()).map(|ordinal| Budget::of_function(module, ordinal)).collect();
    let mut bodies = (0..)
        .zip(&mut budgets)
        .map(|(ordinal, budget)| Function::unsimplified(module, ordinal, budget))
        .collect::<Result<Vec<Function>>>()?;
    bodies.iter_mut().for_each(|body| imports.update_calls(body));
    let yields = yields(&bodies, &imports);
    for body in &mut bodies {
        body.place_suspensions(|callee, yieldable| match callee {
            Callee::Internal(ordinal) => yields[ordinal as usize],
            Callee::Import(import) => imports.may_yield(import, yieldable),
        });
        if unfuse {
            body.unfuse();
        }
        body.simplify(Some(semantics::fold));
        super::deferred_fences::defer(body, &imports);
    }
    let kernels = if is_executable { kernels(module, &mut bodies, reassociate) } else { vec![None; bodies.len()] };
    for (body, budget) in bodies.iter_mut().zip(&mut budgets) {
        ownership(body, budget).context(|| format!("function @{}", module.function_name(body.ordinal)))?;
    }
    let size = size(module, &bodies);
    let calls: Vec<Vec<u32>> = bodies.iter().map(internal_callees).collect();
    let guarded = guards(&calls);
    let borrowed = borrowed_arguments(module, &bodies, &calls, &imports, &mut budgets)?;
    let taken: HashSet<String> = names.iter().map(|name| name.ident.to_string()).collect();
    let functions = names
        .into_iter()
        .zip(&bodies)
        .zip(yields.iter().zip(guarded))
        .zip(borrowed.into_iter().zip(kernels))
        .map(|(((name, body), (yields, is_guarded)), (borrowed, kernel))| FunctionFacts {
            borrowed,
            resume: yields.then(|| super::fresh(&taken, &format!("{}_resume", super::stem(&name.ident)))),
            ident: name.ident,
            docs: name.docs,
            arguments: body.arguments().iter().map(|value| body.ty(*value)).collect(),
            results: body.results.clone(),
            needs_state: *yields,
            // The stack counts fuel.
            needs_stack: *yields || is_guarded || untrusted,
            is_guarded,
            is_inlined: false,
            kernel,
        })
        .collect();
    let types = Types::new(module, &bodies);
    let has_static_locations = table_rows(module, &bodies) >= STATIC_LOCATION_ROWS;
    let mut analysis = Analysis {
        module,
        functions,
        bodies,
        imports,
        types,
        taken,
        untrusted,
        order: (!no_std).then_some(if reassociate { Order::Any } else { Order::Bytecode }),
        target_features: 0,
        size,
        is_executable,
        recovered: IndexMap::default(),
        has_static_locations,
    };
    needs(&mut analysis, &calls);
    Ok(analysis)
}

/// Makes kernels of the functions that an executable exports; those that it calls itself stay as they are.
fn kernels(module: &VerifiedModule, bodies: &mut [Function], reassociate: bool) -> Vec<Option<Kernel>> {
    let called: HashSet<u32> = bodies.iter().flat_map(internal_callees).collect();
    let mut kernels = vec![None; bodies.len()];
    for export in module.exports().map(|export| export.function) {
        let kernel: &mut Option<Kernel> = &mut kernels[export as usize];
        if kernel.is_none() {
            let may_change = !called.contains(&export);
            *kernel = Kernel::prepare(module, &mut bodies[export as usize], may_change, reassociate);
        }
    }
    kernels
}

/// The size of a module's code: its instructions, operands and arguments of edges. A function and an export are about as
/// long as [`FUNCTION_SIZE`] operands.
fn size(module: &VerifiedModule, bodies: &[Function]) -> usize {
    let mut size = (bodies.len() + module.exports().len()).saturating_mul(FUNCTION_SIZE);
    for block in bodies.iter().flat_map(|body| &body.blocks) {
        for inst in &block.instructions {
            size += 1 + inst.results.len();
            inst.op.visit(|_| size += 1);
        }
        block.terminator.visit(|_| size += 1);
        block.terminator.visit_edges(|edge| size += 1 + edge.arguments.len() + edge.drops.len());
    }
    size
}

/// The operands that are as long in the emitted code as a function around its body.
const FUNCTION_SIZE: usize = 32;

/// An estimate of the number of rows in a module's tables.
fn table_rows(module: &VerifiedModule, bodies: &[Function]) -> usize {
    let instructions = bodies.iter().flat_map(|body| &body.blocks).map(|block| block.instructions.len());
    let locations = if module.has_source_locations() { instructions.sum() } else { 0 };
    bodies.len() + module.rodata_count() as usize + locations
}

/// Calls `f` with each call of a function, and whether it may yield.
fn each_call<'f>(body: &'f Function, mut f: impl FnMut(&'f Call, bool)) {
    for block in &body.blocks {
        for inst in &block.instructions {
            if let Op::Call(call) = &inst.op {
                f(call, false);
            }
        }
        if let Terminator::CallYieldable { call, .. } = &block.terminator {
            f(call, true);
        }
    }
}

fn internal_callees(body: &Function) -> Vec<u32> {
    let mut callees = Vec::new();
    each_call(body, |call, _| {
        if let Callee::Internal(ordinal) = call.callee {
            callees.push(ordinal);
        }
    });
    callees.sort_unstable();
    callees.dedup();
    callees
}

/// The functions that may yield: those that yield or call an import that may, and their callers.
fn yields(bodies: &[Function], imports: &Imports) -> Vec<bool> {
    let mut callers: Vec<Vec<u32>> = vec![Vec::new(); bodies.len()];
    let mut yields = vec![false; bodies.len()];
    let mut found = Vec::new();
    for (ordinal, body) in bodies.iter().enumerate() {
        let mut own = body.blocks.iter().any(|block| matches!(block.terminator, Terminator::Yield(_)));
        each_call(body, |call, yieldable| match call.callee {
            Callee::Internal(callee) => callers[callee as usize].push(ordinal as u32),
            Callee::Import(import) => own |= imports.may_yield(import, yieldable),
        });
        if own {
            yields[ordinal] = true;
            found.push(ordinal as u32);
        }
    }
    while let Some(ordinal) = found.pop() {
        for &caller in &callers[ordinal as usize] {
            if !core::mem::replace(&mut yields[caller as usize], true) {
                found.push(caller);
            }
        }
    }
    yields
}

/// The reference arguments that functions borrow: those that they neither store, return nor move. The caller keeps its
/// reference, so the call does not change the reference count.
///
/// # Errors
/// Those of [`suspensions`].
fn borrowed_arguments(
    module: &VerifiedModule,
    bodies: &[Function],
    calls: &[Vec<u32>],
    imports: &Imports,
    budgets: &mut [Budget],
) -> Result<Vec<Vec<bool>>> {
    let mut borrowed: Vec<Vec<bool>> =
        bodies.iter().map(|body| body.arguments().iter().map(|value| body.ty(*value) == Type::Ref).collect()).collect();
    // A suspended function owns the values that it saves.
    for ((body, borrowed), budget) in bodies.iter().zip(&mut borrowed).zip(budgets) {
        let suspensions =
            suspensions(body, budget).context(|| format!("function @{}", module.function_name(body.ordinal)))?;
        let saved = suspensions.into_iter().flat_map(|suspension| suspension.saved);
        take_arguments(borrowed, body, saved.collect());
    }
    // An argument that is passed on is borrowed only if the callee borrows it: callers follow the callees that changed.
    let mut callers: Vec<Vec<u32>> = vec![Vec::new(); bodies.len()];
    for (caller, callees) in (0..).zip(calls) {
        callees.iter().for_each(|callee| callers[*callee as usize].push(caller));
    }
    let mut pending: Vec<u32> = (0..bodies.len() as u32).rev().collect();
    let mut is_pending = vec![true; bodies.len()];
    while let Some(ordinal) = pending.pop() {
        let body = &bodies[ordinal as usize];
        is_pending[ordinal as usize] = false;
        let escaping = escaping(body, &borrowed, imports);
        if take_arguments(&mut borrowed[ordinal as usize], body, escaping) {
            for &caller in &callers[ordinal as usize] {
                if !core::mem::replace(&mut is_pending[caller as usize], true) {
                    pending.push(caller);
                }
            }
        }
    }
    Ok(borrowed)
}

/// Marks arguments as owned. Returns whether one was borrowed before.
fn take_arguments(borrowed: &mut [bool], body: &Function, values: Vec<Value>) -> bool {
    values.into_iter().fold(false, |changed, value| match body.definition(value) {
        Definition::Parameter(Block::ENTRY, position) => core::mem::take(&mut borrowed[position as usize]) || changed,
        _ => changed,
    })
}

/// The values that a function stores, returns, or passes to a callee that takes ownership.
fn escaping(body: &Function, borrowed: &[Vec<bool>], imports: &Imports) -> Vec<Value> {
    let mut escaping = Vec::new();
    for data in &body.blocks {
        for inst in &data.instructions {
            match &inst.op {
                Op::Call(Call { callee: Callee::Import(import), .. }) if imports.direct(*import).is_some() => {}
                Op::Call(Call { callee: Callee::Internal(ordinal), operands, .. }) => {
                    let borrowed = borrowed.get(*ordinal as usize).map_or(&[][..], |borrowed| borrowed);
                    let is_owned = |at: usize| !borrowed.get(at).is_some_and(|borrowed| *borrowed);
                    let owned = operands.iter().enumerate().filter(|(at, _)| is_owned(*at));
                    escaping.extend(owned.map(|(_, operand)| operand.value));
                }
                op => op.visit(|operand| {
                    if let Use::Take(operand) = operand {
                        escaping.push(operand.value);
                    }
                }),
            }
        }
        data.terminator.visit(|operand| {
            if let Use::Take(operand) = operand {
                escaping.push(operand.value);
            }
        });
        data.terminator.visit_edges(|edge| escaping.extend(edge.arguments.iter().map(|operand| operand.value)));
    }
    escaping
}

/// The functions that check the depth of the host's stack: recursive ones, and in other chains one every [`GUARD_LEVELS`].
fn guards(calls: &[Vec<u32>]) -> Vec<bool> {
    let mut guarded = vec![false; calls.len()];
    let mut levels = vec![0u32; calls.len()];
    for component in components(calls) {
        let calls_itself = component.len() > 1 || calls[component[0] as usize].contains(&component[0]);
        let below =
            component.iter().flat_map(|node| &calls[*node as usize]).map(|callee| levels[*callee as usize]).max();
        let level = below.unwrap_or(0) + 1;
        for &node in &component {
            levels[node as usize] = level;
            guarded[node as usize] = calls_itself || level.is_multiple_of(GUARD_LEVELS);
        }
    }
    guarded
}

/// The strongly connected components of a graph by Tarjan's algorithm, each after its successors.
fn components(successors: &[Vec<u32>]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let count = successors.len();
    let (mut index, mut low) = (vec![NEW; count], vec![0u32; count]);
    let (mut on_stack, mut stack, mut found) = (vec![false; count], Vec::new(), Vec::new());
    let mut next = 0;
    for root in 0..count {
        if index[root] != NEW {
            continue;
        }
        let mut work: Vec<(usize, usize)> = vec![(root, 0)];
        while let Some((node, position)) = work.pop() {
            if position == 0 {
                index[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node as u32);
                on_stack[node] = true;
            } else {
                let child = successors[node][position - 1] as usize;
                low[node] = low[node].min(low[child]);
            }
            let mut at = position;
            let mut descends = false;
            while let Some(&child) = successors[node].get(at) {
                let child = child as usize;
                at += 1;
                if index[child] == NEW {
                    work.push((node, at));
                    work.push((child, 0));
                    descends = true;
                    break;
                }
                if on_stack[child] {
                    low[node] = low[node].min(index[child]);
                }
            }
            if descends || low[node] != index[node] {
                continue;
            }
            let mut component = Vec::new();
            while let Some(member) = stack.pop() {
                on_stack[member as usize] = false;
                component.push(member);
                if member as usize == node {
                    break;
                }
            }
            found.push(component);
        }
    }
    found
}

/// Computes which functions take the state and the stack.
fn needs(analysis: &mut Analysis<'_>, calls: &[Vec<u32>]) {
    for ordinal in 0..analysis.bodies.len() {
        let (mut state, mut stack) = (false, false);
        for inst in analysis.bodies[ordinal].blocks.iter().flat_map(|block| &block.instructions) {
            let needs = analysis.own_needs(&inst.op);
            state |= needs.0;
            stack |= needs.1;
        }
        analysis.functions[ordinal].needs_state |= state;
        analysis.functions[ordinal].needs_stack |= stack;
    }
    // Callees come first. In a component of mutually recursive functions, all need what one needs.
    for component in components(calls) {
        let (mut state, mut stack) = (false, false);
        for ordinal in component.iter().flat_map(|node| calls[*node as usize].iter().chain([node])) {
            state |= analysis.functions[*ordinal as usize].needs_state;
            stack |= analysis.functions[*ordinal as usize].needs_stack;
        }
        for &ordinal in &component {
            let facts = &mut analysis.functions[ordinal as usize];
            let calls_any = !calls[ordinal as usize].is_empty();
            facts.needs_state |= state && calls_any;
            facts.needs_stack |= stack && calls_any;
        }
    }
}

impl Analysis<'_> {
    /// Whether an operation other than an internal call takes the state, and whether it takes the stack.
    fn own_needs(&self, op: &Op) -> (bool, bool) {
        match op {
            Op::GlobalLoad { .. }
            | Op::GlobalStore { .. }
            | Op::GlobalLoadRef { .. }
            | Op::GlobalStoreRef { .. }
            | Op::Rodata { .. }
            | Op::ImportResolved { .. } => (true, false),
            Op::ListAlloc { .. }
            | Op::ListReserve { .. }
            | Op::ListResize { .. }
            | Op::BufferAlloc { .. }
            | Op::BufferClone { .. } => (false, true),
            Op::Call(call) => match call.callee {
                Callee::Internal(_) => (false, false),
                Callee::Import(_) => (true, true),
            },
            _ => (false, false),
        }
    }
}

impl Needs for Analysis<'_> {
    fn needs(&self, op: &Op) -> (bool, bool) {
        match op {
            Op::Call(Call { callee: Callee::Internal(ordinal), .. }) => {
                let facts = &self.functions[*ordinal as usize];
                (facts.needs_state, facts.needs_stack)
            }
            op => {
                let (state, stack) = self.own_needs(op);
                (state, stack || (self.untrusted && bulk_work(op).is_some()))
            }
        }
    }

    fn counts_iterations(&self) -> bool {
        self.untrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_follow_their_successors() {
        let graph = [vec![1], vec![2, 3], vec![1], vec![], vec![4, 3]];
        let mut found = components(&graph);
        found.iter_mut().for_each(|component| component.sort_unstable());
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4]]);
    }

    #[test]
    fn recursion_and_long_chains_are_guarded() {
        assert_eq!(guards(&[vec![1], vec![0], vec![2], vec![0]]), [true, true, true, false]);
        let chain: Vec<Vec<u32>> = (1..=200).map(|next| if next == 200 { vec![] } else { vec![next] }).collect();
        let guarded = guards(&chain);
        let levels: Vec<usize> = (0..200).filter(|index| guarded[*index]).collect();
        assert_eq!(levels, [8, 72, 136]);
    }
}
