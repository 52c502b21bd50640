//! Takes away what says nothing: jumps to where one is anyway, and blocks that nothing leaves.

use alloc::vec;
use alloc::vec::Vec;

use super::{Label, Statement};

/// A jump that is the same as coming to the end of a sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Jump {
    Break(Label),
    Continue(Label),
}

/// Tidies a whole with a number of labels.
pub(super) fn tidy(mut body: Vec<Statement>, labels: u32) -> Vec<Statement> {
    shorten(&mut body, &mut Vec::new());
    let mut uses = vec![0u32; labels as usize];
    count(&body, &mut uses);
    let mut renamed: Vec<Label> = (0..labels).map(Label).collect();
    let mut body = flatten(body, &uses, &mut renamed);
    rename(&mut body, &renamed);
    body
}

/// Removes jumps at ends of sequences that lead where those ends lead: `exits`.
fn shorten(body: &mut Vec<Statement>, exits: &mut Vec<Jump>) {
    let is_needless = |last: &Statement| match last {
        Statement::Break(label) => exits.contains(&Jump::Break(*label)),
        Statement::Continue(label) => exits.contains(&Jump::Continue(*label)),
        _ => false,
    };
    if body.last().is_some_and(is_needless) {
        body.pop();
    }
    let last = body.len().wrapping_sub(1);
    for (index, statement) in body.iter_mut().enumerate() {
        // Only the end of the last statement is the end of the sequence.
        let mut none = Vec::new();
        let exits = if index == last { &mut *exits } else { &mut none };
        match statement {
            Statement::Branch { arms, .. } | Statement::Dispatch { arms, .. } => {
                arms.iter_mut().for_each(|arm| shorten(arm, exits));
            }
            Statement::Block { label, body } => {
                exits.push(Jump::Break(*label));
                shorten(body, exits);
                exits.pop();
            }
            Statement::Loop { label, body } => shorten(body, &mut vec![Jump::Continue(*label)]),
            Statement::Run(_) | Statement::Select { .. } | Statement::Break(_) | Statement::Continue(_) => {}
        }
    }
}

/// Counts the jumps that leave each label.
fn count(body: &[Statement], uses: &mut [u32]) {
    for statement in body {
        match statement {
            Statement::Branch { arms, .. } | Statement::Dispatch { arms, .. } => {
                arms.iter().for_each(|arm| count(arm, uses));
            }
            Statement::Block { body, .. } | Statement::Loop { body, .. } => count(body, uses),
            Statement::Break(label) => uses[label.0 as usize] += 1,
            Statement::Run(_) | Statement::Select { .. } | Statement::Continue(_) => {}
        }
    }
}

/// Opens blocks that nothing leaves; for blocks that contain only a loop, leaving the loop is the same.
fn flatten(body: Vec<Statement>, uses: &[u32], renamed: &mut [Label]) -> Vec<Statement> {
    let mut flat = Vec::with_capacity(body.len());
    for statement in body {
        match statement {
            Statement::Branch { node, arms } => {
                let arms = arms.into_iter().map(|arm| flatten(arm, uses, renamed)).collect();
                flat.push(Statement::Branch { node, arms });
            }
            Statement::Dispatch { selector, arms } => {
                let arms = arms.into_iter().map(|arm| flatten(arm, uses, renamed)).collect();
                flat.push(Statement::Dispatch { selector, arms });
            }
            Statement::Block { label, body } => {
                let mut body = flatten(body, uses, renamed);
                if let [Statement::Loop { label: inner, .. }] = body[..] {
                    renamed[label.0 as usize] = inner;
                    flat.append(&mut body);
                } else if uses[label.0 as usize] == 0 {
                    flat.append(&mut body);
                } else {
                    flat.push(Statement::Block { label, body });
                }
            }
            Statement::Loop { label, body } => {
                flat.push(Statement::Loop { label, body: flatten(body, uses, renamed) });
            }
            other => flat.push(other),
        }
    }
    flat
}

fn rename(body: &mut [Statement], renamed: &[Label]) {
    for statement in body {
        match statement {
            Statement::Branch { arms, .. } | Statement::Dispatch { arms, .. } => {
                arms.iter_mut().for_each(|arm| rename(arm, renamed));
            }
            Statement::Block { body, .. } | Statement::Loop { body, .. } => rename(body, renamed),
            Statement::Break(label) => *label = renamed[label.0 as usize],
            Statement::Run(_) | Statement::Select { .. } | Statement::Continue(_) => {}
        }
    }
}
