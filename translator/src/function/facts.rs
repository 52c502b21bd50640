//! What functions need to be called, found over the call graph.

use std::collections::HashSet;

use incarnate_runtime::bytecode::VerifiedModule;
use incarnate_runtime::ir::{Call, Callee, Function, Op, Terminator, Type, Use, Value, ownership};
use incarnate_runtime::vm::semantics;
use incarnate_runtime::{Error, Result};

use super::imports::Imports;
use super::outline::Needs;
use super::suspend::suspensions;
use super::types::Types;
use super::{Analysis, FunctionFacts, FunctionName, STATIC_PLACES};

/// Levels of calls between guards of functions that do not call themselves: what lies between two of them is to fit on the
/// host's stack.
const GUARD_LEVELS: u32 = 64;

/// Makes the IR of all functions and what is known of each; `untrusted` code counts turns and calls.
pub(super) fn analyze(module: &VerifiedModule, names: Vec<FunctionName>, untrusted: bool) -> Result<Analysis<'_>> {
    if names.len() != module.function_count() as usize {
        return Err(Error::internal("there are not as many names as functions"));
    }
    let imports = Imports::new(module);
    let mut bodies = (0..module.function_count())
        .map(|ordinal| Function::unsimplified(module, ordinal))
        .collect::<Result<Vec<Function>>>()?;
    let yields = yields(&bodies, &imports);
    for body in &mut bodies {
        body.place_suspensions(|callee, yieldable| match callee {
            Callee::Internal(ordinal) => yields[ordinal as usize],
            Callee::Import(import) => imports.may_yield(import, yieldable),
        });
        body.simplify(Some(semantics::fold));
        super::fences::leave(body, &imports);
        ownership(body);
    }
    let calls: Vec<Vec<u32>> = bodies.iter().map(internal_callees).collect();
    let guarded = guards(&calls);
    let lent = lent(&bodies, &imports);
    let taken: HashSet<String> = names.iter().map(|name| name.ident.to_string()).collect();
    let functions = names
        .into_iter()
        .zip(&bodies)
        .zip(yields.iter().zip(guarded))
        .zip(lent)
        .map(|(((name, body), (yields, is_guarded)), lent)| FunctionFacts {
            lent,
            resume: yields.then(|| super::fresh(&taken, &format!("{}_resume", super::stem(&name.ident)))),
            ident: name.ident,
            docs: name.docs,
            arguments: body.arguments().iter().map(|value| body.ty(*value)).collect(),
            results: body.results.clone(),
            needs_state: *yields,
            // Fuel is counted in it.
            needs_stack: *yields || is_guarded || untrusted,
            is_guarded,
            is_inlined: false,
        })
        .collect();
    let types = Types::new(module, &bodies);
    let has_static_places = table_rows(module, &bodies) >= STATIC_PLACES;
    let mut analysis =
        Analysis { module, functions, bodies, imports, types, taken, untrusted, versions: 0, has_static_places };
    needs(&mut analysis, &calls);
    Ok(analysis)
}

/// About how many rows a module's tables have.
fn table_rows(module: &VerifiedModule, bodies: &[Function]) -> usize {
    let instructions = bodies.iter().flat_map(|body| &body.blocks).map(|block| block.instructions.len());
    let locations = if module.has_source_locations() { instructions.sum() } else { 0 };
    bodies.len() + module.rodata_count() as usize + locations
}

/// The calls of a function, those that may yield among them.
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

/// Which functions may yield: those that do, or call an import that may, and those that call such a function.
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

/// Which arguments functions look at without keeping them: such a reference needs not be counted for the call.
fn lent(bodies: &[Function], imports: &Imports) -> Vec<Vec<bool>> {
    let mut lent: Vec<Vec<bool>> =
        bodies.iter().map(|body| body.arguments().iter().map(|value| body.ty(*value) == Type::Ref).collect()).collect();
    let keep = |lent: &mut Vec<bool>, body: &Function, values: Vec<Value>| {
        values.iter().fold(false, |changed, value| {
            let position = body.arguments().iter().position(|argument| argument == value);
            position.is_some_and(|position| core::mem::take(&mut lent[position])) || changed
        })
    };
    // What a function saves while it is suspended is its own.
    for (body, lent) in bodies.iter().zip(&mut lent) {
        keep(lent, body, suspensions(body).into_iter().flat_map(|suspension| suspension.saved).collect());
    }
    // What a function passes on is lent if the callee keeps it neither.
    loop {
        let mut changed = false;
        for (ordinal, body) in bodies.iter().enumerate() {
            let kept = kept(body, &lent, imports);
            changed |= keep(&mut lent[ordinal], body, kept);
        }
        if !changed {
            return lent;
        }
    }
}

/// The values that a function stores, returns, or passes to what takes them over.
fn kept(body: &Function, lent: &[Vec<bool>], imports: &Imports) -> Vec<Value> {
    let mut kept = Vec::new();
    for data in &body.blocks {
        for inst in &data.instructions {
            match &inst.op {
                Op::Call(Call { callee: Callee::Import(import), .. }) if imports.direct(*import).is_some() => {}
                Op::Call(Call { callee: Callee::Internal(ordinal), operands, .. }) => {
                    let lent = lent.get(*ordinal as usize).map_or(&[][..], |lent| lent);
                    let owned = operands.iter().enumerate().filter(|(at, _)| !lent.get(*at).is_some_and(|lent| *lent));
                    kept.extend(owned.map(|(_, operand)| operand.value));
                }
                op => op.visit(|operand| {
                    if let Use::Take(operand) = operand {
                        kept.push(operand.value);
                    }
                }),
            }
        }
        data.terminator.visit(|operand| {
            if let Use::Take(operand) = operand {
                kept.push(operand.value);
            }
        });
        data.terminator.visit_edges(|edge| kept.extend(edge.arguments.iter().map(|operand| operand.value)));
    }
    kept
}

/// Which functions guard the host's stack: those that may call themselves, and every so many levels one of the others.
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

/// The strongly connected components of a graph, each behind those that it leads to (Tarjan).
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

/// Finds which functions take the state and the stack.
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
    // Callees first; within a component of functions that call each other all need what one needs.
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
    /// What an operation takes, but for internal calls.
    fn own_needs(&self, op: &Op) -> (bool, bool) {
        match op {
            Op::GlobalLoad { .. }
            | Op::GlobalStore { .. }
            | Op::GlobalLoadRef { .. }
            | Op::GlobalStoreRef { .. }
            | Op::Rodata { .. }
            | Op::ImportResolved { .. } => (true, false),
            Op::ListAlloc { .. } | Op::BufferAlloc { .. } | Op::BufferClone { .. } => (false, true),
            Op::Call(call) => match call.callee {
                Callee::Internal(_) => (false, false),
                Callee::Import(_) => (true, true),
            },
            _ => (false, false),
        }
    }
}

/// What instructions do to many bytes, which counts against the fuel.
pub(super) enum Counted {
    /// So many bytes.
    Bytes(Value),
    /// So many elements, as of eight bytes each: that is the widest one, and narrower ones are not cheaper to fill.
    Elements(Value),
    /// So many elements of a list.
    ListElements(Value),
}

pub(super) fn counted(op: &Op) -> Option<Counted> {
    Some(match op {
        Op::BufferAlloc { length, .. }
        | Op::BufferClone { length, .. }
        | Op::BufferCopy { length, .. }
        | Op::BufferCompare { length, .. }
        | Op::BufferHash { length, .. } => Counted::Bytes(*length),
        Op::BufferFill { length, .. } => Counted::Elements(*length),
        Op::ListAlloc { capacity: count, .. }
        | Op::ListReserve { capacity: count, .. }
        | Op::ListResize { size: count, .. } => Counted::ListElements(*count),
        _ => return None,
    })
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
                (state, stack || (self.untrusted && counted(op).is_some()))
            }
        }
    }

    fn counts_turns(&self) -> bool {
        self.untrusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_come_behind_what_they_lead_to() {
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
