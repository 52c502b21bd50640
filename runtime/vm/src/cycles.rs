//! Lists that lead back to themselves.
//!
//! A program can put a list into itself, directly or through others. Counted references never free such a list. So a context
//! remembers the lists of its program that can hold lists, and when it ends, the references by which a list leads back to itself
//! become null. No compiler creates such lists.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;

use super::ledger::Ledger;

/// The ledger of a context, whose lists lead back to themselves no more when this is dropped.
#[derive(Debug)]
pub(super) struct BrokenCycles(pub(super) Ledger);

impl Drop for BrokenCycles {
    fn drop(&mut self) {
        self.0.break_cycles();
    }
}

/// A list, as the search sees it: whoever creates lists names the search, and it names none.
pub(super) trait Node: Send + Sync + 'static {
    /// Finds the first list among the elements, from an index; returns its index, too.
    fn next(&self, from: usize) -> Option<(usize, Arc<Self>)>;

    /// Sets a reference among the elements to null.
    fn set_null(&self, at: usize);
}

/// Searches depth first: a reference to a list on the path to it closes a cycle.
pub(super) fn break_cycles<N: Node>(objects: Vec<Arc<dyn Any + Send + Sync>>) {
    let lists: Vec<Arc<N>> = objects.into_iter().filter_map(|object| Arc::downcast(object).ok()).collect();
    // True for a list on the path, false for one whose nested lists are all searched.
    let mut is_on_path = BTreeMap::new();
    for list in &lists {
        if is_on_path.contains_key(&Arc::as_ptr(list)) {
            continue;
        }
        is_on_path.insert(Arc::as_ptr(list), true);
        let mut path = vec![(Arc::clone(list), 0)];
        while let Some((list, from)) = path.last_mut() {
            let Some((at, nested)) = list.next(*from) else {
                is_on_path.insert(Arc::as_ptr(list), false);
                path.pop();
                continue;
            };
            *from = at + 1;
            match is_on_path.get(&Arc::as_ptr(&nested)) {
                None => {
                    is_on_path.insert(Arc::as_ptr(&nested), true);
                    path.push((nested, 0));
                }
                Some(true) => list.set_null(at),
                Some(false) => {}
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::list::List;
    use crate::testing::Random;
    use crate::{Ref, Value, ValueType};

    const TYPES: [ValueType; 3] = [ValueType::Any, ValueType::AnyRef, ValueType::Ref(List::TYPE)];

    fn push(list: &Arc<List>, element: &Arc<List>) {
        list.push(Value::Ref(Ref::List(Arc::clone(element)))).unwrap();
    }

    #[test]
    fn lists_are_freed_whatever_they_hold() {
        let mut random = Random(5);
        let mut below = |limit: usize| random.below(limit as u64) as usize;
        for _ in 0..300 {
            let ledger = Ledger::new(u64::MAX, u64::MAX);
            let context = ledger.of_context();
            let count = 1 + below(12);
            let mut lists: Vec<_> =
                (0..count).map(|at| List::new(TYPES[at % TYPES.len()], 0, Some(&context)).unwrap()).collect();
            for _ in 0..below(2 * count) {
                push(&lists[below(count)], &lists[below(count)]);
            }
            let kept: Vec<_> = (0..count).filter(|_| below(4) == 0).map(|at| Arc::clone(&lists[at])).collect();
            let lengths: Vec<_> = kept.iter().map(|list| list.len()).collect();
            lists.clear();
            drop(BrokenCycles(context));
            assert!(kept.iter().zip(lengths).all(|(list, length)| list.len() == length));
            drop(kept);
            assert_eq!((ledger.objects(), ledger.bytes()), (0, 0));
        }
    }

    #[test]
    fn a_list_of_the_host_can_be_part_of_a_cycle() {
        let ledger = Ledger::new(u64::MAX, u64::MAX);
        let context = ledger.of_context();
        let own = List::new(ValueType::Any, 0, Some(&context)).unwrap();
        let host = List::new(ValueType::Any, 0, None).unwrap();
        push(&own, &host);
        push(&host, &own);
        let host = Arc::downgrade(&{ host });
        drop(own);
        assert!(host.upgrade().is_some());
        drop(BrokenCycles(context));
        assert!(host.upgrade().is_none() && ledger.objects() == 0);
    }

    #[test]
    fn only_cycles_of_the_own_context_are_broken() {
        let ledger = Ledger::new(u64::MAX, u64::MAX);
        let (context, other) = (ledger.of_context(), ledger.of_context());
        let create = |ledger| List::new(ValueType::Any, 0, Some(ledger)).unwrap();
        let (own, shared, foreign) = (create(&context), create(&context), create(&other));
        for (list, element) in [(&own, &own), (&own, &shared), (&own, &shared), (&foreign, &foreign)] {
            push(list, element);
        }
        drop(BrokenCycles(context));
        let is_list = |list: &Arc<List>, at| matches!(list.get(at).unwrap(), Value::Ref(Ref::List(_)));
        assert_eq!([0, 1, 2].map(|at| is_list(&own, at)), [false, true, true]);
        assert!(is_list(&foreign, 0));
        drop(BrokenCycles(other));
        assert!(!is_list(&foreign, 0));
    }
}
