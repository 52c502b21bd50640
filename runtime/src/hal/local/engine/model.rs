//! Model checks: every interleaving, and every value that relaxed loads may give, by loom. See "Tests and measurements" in
//! ARCHITECTURE.md for the command.
#![allow(clippy::unwrap_used, reason = "tests")]

use alloc::vec::Vec;
use core::ops::Range;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::crew::{Claim, Crew, DRIVER, Offer};
use super::graph::Graph;
use super::idle::IdleSet;
use super::tracker::{Seat, Tracker};
use crate::hal::commands::{Binding, BindingSource, Command, Commands};

/// Memory that loom watches: an access that is not ordered with a write fails the check.
#[derive(Default)]
struct Cells(Vec<UnsafeCell<u32>>);

// SAFETY: loom checks every access.
#[allow(unsafe_code, reason = "what is checked is whether threads may share this")]
unsafe impl Sync for Cells {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "what is checked is whether threads may share this")]
unsafe impl Send for Cells {}

#[allow(unsafe_code, reason = "accesses that loom checks")]
impl Cells {
    fn new(count: usize) -> Cells {
        Cells((0..count).map(|_| UnsafeCell::new(0)).collect())
    }

    fn add(&self, index: usize) {
        // SAFETY: loom checks that nobody else accesses the cell.
        self.0[index].with_mut(|cell| unsafe { *cell += 1 });
    }

    fn get(&self, index: usize) -> u32 {
        // SAFETY: loom checks that nobody writes the cell.
        self.0[index].with(|cell| unsafe { *cell })
    }
}

#[test]
fn every_workgroup_is_claimed_once_and_the_last_sees_all() {
    loom::model(|| {
        let mut tracker = Tracker::default();
        tracker.reset(&single(), 2);
        tracker.open(0, 3, 1);
        let claims = Arc::new(tracker);
        let cells = Arc::new(Cells::new(3));
        let work = move |claims: &Tracker, cells: &Cells, lane: usize| {
            let mut done = 0;
            while let Some(block) = claims.claim_of(0, lane) {
                block.clone().for_each(|workgroup| cells.add(workgroup as usize));
                done += block.end - block.start;
            }
            if done > 0 && claims.finish(0, done) {
                assert_eq!([0, 1, 2].map(|index| cells.get(index)), [1; 3]);
                1
            } else {
                0
            }
        };
        let other = thread::spawn({
            let (claims, cells) = (claims.clone(), cells.clone());
            move || work(&claims, &cells, 1)
        });
        let own = work(&claims, &cells, 0);
        assert_eq!(own + other.join().unwrap(), 1);
    });
}

/// One command.
fn single() -> Graph {
    graph(&[Some(0..1)])
}

/// Commands of which the third waits for the first two, which nothing orders.
fn join() -> Graph {
    graph(&[Some(0..1), Some(1..2), None, Some(0..2)])
}

/// Commands that fill ranges, or barriers.
fn graph(ranges: &[Option<Range<u64>>]) -> Graph {
    let mut commands = Commands::default();
    for range in ranges.iter().cloned() {
        commands.list.push(match range {
            None => Command::Barrier,
            Some(range) => {
                let source = BindingSource::Slot(0);
                commands.bindings.push(Binding { source, offset: range.start, length: range.end - range.start });
                Command::Fill { target: commands.bindings.len() as u32 - 1, pattern: 0, pattern_length: 1 }
            }
        });
    }
    Graph::minimal(&commands)
}

/// What a thread does until it finds nothing more, as `Run` does it. Whoever makes a node ready goes on, so that threads
/// which find nothing are not needed.
fn follow(graph: &Graph, tracker: &Tracker, cells: &Cells) {
    let mut seat = Seat::new(0);
    while let Some(block) = tracker.claim(&mut seat) {
        if block.node == 2 {
            assert_eq!([0, 1].map(|node| cells.get(node)), [1; 2]);
        }
        cells.add(block.node as usize);
        if tracker.finish(block.node, 1) {
            for successor in graph.successors(block.node) {
                if tracker.release(*successor) {
                    tracker.open(*successor, 1, 1);
                    tracker.publish(*successor);
                }
            }
            if tracker.finish_node() {
                (0..3).for_each(|node| assert_eq!(cells.get(node), 1));
                // Counted apart from the nodes: exactly one thread gets here.
                cells.add(3);
            }
        }
    }
}

#[test]
fn nodes_run_once_and_after_what_they_wait_for() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let graph = join();
        let mut tracker = Tracker::default();
        tracker.reset(&graph, 1);
        for root in graph.roots() {
            tracker.open(*root, 1, 1);
            tracker.publish(*root);
        }
        let shared = Arc::new((graph, tracker, Cells::new(4)));
        let other = thread::spawn({
            let shared = shared.clone();
            move || follow(&shared.0, &shared.1, &shared.2)
        });
        follow(&shared.0, &shared.1, &shared.2);
        other.join().unwrap();
        assert_eq!(shared.2.get(3), 1);
    });
}

#[test]
fn no_wake_up_is_lost() {
    loom::model(|| {
        let shared = Arc::new((IdleSet::new(1), AtomicU64::new(0)));
        let worker = thread::spawn({
            let shared = shared.clone();
            move || {
                let (idle, work) = &*shared;
                while work.load(Ordering::Relaxed) == 0 {
                    idle.enter(0);
                    if work.load(Ordering::Relaxed) == 0 {
                        while idle.sleeping(0) {
                            thread::park();
                        }
                    } else {
                        idle.leave(0);
                    }
                }
            }
        });
        let (idle, work) = &*shared;
        // What orders this before the worker's second look is the set alone.
        work.store(1, Ordering::Relaxed);
        if idle.take().is_some() {
            worker.thread().unpark();
        }
        worker.join().unwrap();
    });
}

/// Submission and the leaving of the last worker: one of the two sees the other. It is what `Scheduler::submit` and
/// `Work::participate` do with their counter of workers.
#[test]
fn a_worker_that_leaves_sees_what_was_submitted_or_is_seen_to_have_left() {
    loom::model(|| {
        let shared = Arc::new((AtomicU64::new(1), AtomicU64::new(0)));
        let worker = thread::spawn({
            let shared = shared.clone();
            move || {
                shared.0.fetch_sub(1, Ordering::AcqRel);
                shared.1.load(Ordering::Acquire) != 0
            }
        });
        let (workers, occupied) = &*shared;
        occupied.fetch_or(1, Ordering::AcqRel);
        let left = workers.fetch_add(0, Ordering::AcqRel) == 0;
        assert!(worker.join().unwrap() || left);
    });
}

/// Two offers in a row, of which the second sees what the first did, with a helper that may come at any time or not at all.
/// What an offer needs may be changed as soon as the driver has seen that all blocks are finished.
#[test]
fn a_driver_needs_no_helper_and_waits_for_one_that_has_begun() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        // Cells 0 and 1 are counted by workgroups of each offer, 2 and 3 are what the offers need.
        let shared = Arc::new((Crew::new(2), Cells::new(4)));
        let lane = shared.0.join().unwrap();
        let work = |crew: &Crew, cells: &Cells, first: Claim, lane: usize| {
            let mut next = Some(first);
            let mut blocks = 0;
            while let Some(Claim { command, workgroups }) = next {
                assert_eq!(cells.get(2 + command as usize), 1);
                assert_eq!(workgroups.end - workgroups.start, 1);
                // The second offer is of what the first has done.
                assert!(command == 0 || cells.get(workgroups.start as usize) >= 1);
                cells.add(workgroups.start as usize);
                blocks += 1;
                next = crew.claim(lane);
            }
            blocks
        };
        let helper = thread::spawn({
            let shared = shared.clone();
            move || {
                let (crew, cells) = &*shared;
                for _ in 0..2 {
                    if let Some(claim) = crew.claim_own(lane) {
                        crew.finish(work(crew, cells, claim, lane));
                    }
                }
                crew.leave(lane);
            }
        });
        let (crew, cells) = &*shared;
        let mut expected = crew.finished();
        for command in 0..2 {
            cells.add(2 + command as usize);
            let blocks = crew.offer(Offer { command, workgroups: 2, block: 1 }, crew.helpers());
            let own = crew.claim(DRIVER).map_or(0, |claim| work(crew, cells, claim, DRIVER));
            expected += blocks - own;
            while crew.finished() != expected {
                thread::yield_now();
            }
            assert_eq!([0, 1].map(|cell| cells.get(cell)), [command + 1; 2]);
            // Given up.
            cells.add(2 + command as usize);
        }
        helper.join().unwrap();
    });
}
