#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use alloc::vec;
use alloc::vec::Vec;

use super::super::graph::Graph;
use super::{Label, MAX_NESTING, Statement, Structure};

/// Deterministic pseudorandom numbers.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }
}

/// The nodes of a walk that takes given choices, as the graph says.
fn walk(graph: &Graph, choices: &[usize]) -> Vec<u32> {
    let (mut node, mut trace) = (graph.entry(), Vec::new());
    for &choice in choices {
        trace.push(node);
        match graph.successors(node) {
            [] => break,
            successors => node = successors[choice % successors.len()],
        }
    }
    trace
}

/// How a sequence ends.
enum Flow {
    End,
    Break(Label),
    Continue(Label),
    Stop,
}

/// Executes the structured form.
struct Executor<'a> {
    choices: &'a [usize],
    trace: Vec<u32>,
    selectors: Vec<Option<u32>>,
}

impl Executor<'_> {
    fn run(&mut self, body: &[Statement]) -> Flow {
        for statement in body {
            let flow = match statement {
                Statement::Run(node) => {
                    if self.trace.len() == self.choices.len() {
                        return Flow::Stop;
                    }
                    self.trace.push(*node);
                    Flow::End
                }
                Statement::Branch { node, arms } => {
                    assert_eq!(self.trace.last(), Some(node), "a branch of a node that did not run");
                    match arms.len() {
                        0 => Flow::Stop,
                        count => self.run(&arms[self.choices[self.trace.len() - 1] % count]),
                    }
                }
                Statement::Select { selector, arm } => {
                    self.selectors[*selector as usize] = Some(*arm);
                    Flow::End
                }
                Statement::Dispatch { selector, arms } => {
                    let arm = self.selectors[*selector as usize].expect("a selector that was not set");
                    self.run(&arms[arm as usize])
                }
                Statement::Block { label, body } => match self.run(body) {
                    Flow::Break(to) if to == *label => Flow::End,
                    flow => flow,
                },
                Statement::Loop { label, body } => loop {
                    match self.run(body) {
                        Flow::End => {}
                        Flow::Continue(to) if to == *label => {}
                        Flow::Break(to) if to == *label => break Flow::End,
                        flow => break flow,
                    }
                },
                Statement::Break(label) => Flow::Break(*label),
                Statement::Continue(label) => Flow::Continue(*label),
            };
            if !matches!(flow, Flow::End) {
                return flow;
            }
        }
        Flow::End
    }
}

/// How often each node runs in the text, how deep it nests, and how many dispatches there are.
fn measure(body: &[Statement], counts: &mut [u32], depth: usize, deepest: &mut usize) -> usize {
    *deepest = depth.max(*deepest);
    let mut dispatches = 0;
    for statement in body {
        match statement {
            Statement::Run(node) => counts[*node as usize] += 1,
            Statement::Branch { arms, .. } => {
                dispatches += arms.iter().map(|arm| measure(arm, counts, depth + 1, deepest)).sum::<usize>();
            }
            Statement::Dispatch { arms, .. } => {
                dispatches += 1 + arms.iter().map(|arm| measure(arm, counts, depth + 1, deepest)).sum::<usize>();
            }
            Statement::Block { body, .. } | Statement::Loop { body, .. } => {
                dispatches += measure(body, counts, depth + 1, deepest);
            }
            _ => {}
        }
    }
    dispatches
}

/// Compares random walks; returns the number of dispatches.
fn check(graph: &Graph, random: &mut Random) -> usize {
    let structure = Structure::new(graph);
    let (mut counts, mut deepest) = (vec![0; graph.len()], 0);
    let dispatches = measure(structure.body(), &mut counts, 0, &mut deepest);
    let order = graph.reverse_postorder();
    for (node, count) in counts.iter().enumerate() {
        assert_eq!(*count, u32::from(order.is_reachable(node as u32)), "node {node} of {graph:?}");
    }
    for _ in 0..6 {
        let choices: Vec<usize> = (0..60).map(|_| random.next(12)).collect();
        let selectors = vec![None; structure.selector_count() as usize];
        let mut executor = Executor { choices: &choices, trace: Vec::new(), selectors };
        assert!(matches!(executor.run(structure.body()), Flow::Stop), "the end of {structure:?}");
        assert_eq!(executor.trace, walk(graph, &choices), "{graph:?}\n{structure:?}");
    }
    dispatches
}

#[test]
fn random_graphs_are_walked_the_same() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut irreducible, mut reducible) = (0, 0);
    for round in 0..12_000 {
        let count = 2 + random.next(if round % 10 == 0 { 30 } else { 12 });
        let density = 1 + random.next(4);
        let successors =
            (0..count).map(|_| (0..1 + random.next(density)).map(|_| random.next(count) as u32).collect()).collect();
        let graph = Graph::new(0, successors);
        let dispatches = check(&graph, &mut random);
        let is_reducible = graph.dominators().is_reducible(&graph);
        assert_eq!(dispatches == 0, is_reducible, "{graph:?}");
        *(if is_reducible { &mut reducible } else { &mut irreducible }) += 1;
    }
    assert!(irreducible > 2000 && reducible > 2000, "{irreducible} irreducible, {reducible} reducible");
}

/// Programs as compilers emit them: reducible, of nested loops and conditions with early exits.
#[test]
fn random_programs_need_no_dispatch() {
    fn block(
        random: &mut Random,
        edges: &mut Vec<Vec<u32>>,
        loops: &mut Vec<(u32, u32)>,
        from: u32,
        to: u32,
        fuel: u32,
    ) {
        let mut at = from;
        for _ in 0..1 + random.next(3) {
            let next = edges.len() as u32;
            edges.push(Vec::new());
            match random.next(if fuel == 0 { 1 } else { 4 }) {
                0 => edges[at as usize].push(next),
                1 => {
                    for _ in 0..2 {
                        let arm = edges.len() as u32;
                        edges.push(Vec::new());
                        edges[at as usize].push(arm);
                        block(random, edges, loops, arm, next, fuel - 1);
                    }
                }
                2 => {
                    let header = edges.len() as u32;
                    edges.push(vec![next]);
                    edges[at as usize].push(header);
                    loops.push((header, next));
                    let body = edges.len() as u32;
                    edges.push(Vec::new());
                    edges[header as usize].push(body);
                    block(random, edges, loops, body, header, fuel - 1);
                    loops.pop();
                }
                _ => {
                    edges[at as usize].push(next);
                    if let Some(&(header, exit)) = loops.get(random.next(loops.len())) {
                        edges[at as usize].push(if random.next(2) == 0 { header } else { exit });
                    }
                }
            }
            at = next;
        }
        edges[at as usize].push(to);
    }
    let mut random = Random(42);
    for _ in 0..2000 {
        // Node 0 begins, node 1 returns.
        let mut edges = vec![Vec::new(), Vec::new()];
        block(&mut random, &mut edges, &mut Vec::new(), 0, 1, 4);
        let graph = Graph::new(0, edges);
        assert!(graph.dominators().is_reducible(&graph));
        assert_eq!(check(&graph, &mut random), 0);
    }
}

#[test]
fn conditions_and_loops_are_plain() {
    // A condition with both arms, then a loop that is tested at its head.
    let graph = Graph::new(0, vec![vec![1, 2], vec![3], vec![3], vec![4, 5], vec![3], vec![]]);
    let branch = |node, arms| Statement::Branch { node, arms };
    let run = Statement::Run;
    let structure = Structure::new(&graph);
    let [
        Statement::Run(0),
        Statement::Branch { node: 0, arms },
        Statement::Loop { label, body },
        Statement::Run(5),
        ..,
    ] = structure.body()
    else {
        panic!("{structure:?}")
    };
    let arm = |node| vec![run(node), branch(node, vec![vec![]])];
    assert_eq!(*arms, [arm(1), arm(2)]);
    let iteration =
        vec![run(3), branch(3, vec![vec![], vec![Statement::Break(*label)]]), run(4), branch(4, vec![vec![]])];
    assert_eq!(*body, iteration);
}

#[test]
fn only_the_cycle_with_two_entries_is_dispatched() {
    // A loop around (1..5) an irreducible cycle (2, 3), which has a loop within (3, 4).
    let graph = Graph::new(0, vec![vec![1], vec![2, 3], vec![3, 5], vec![4, 2], vec![3], vec![1, 6], vec![]]);
    assert!(!graph.dominators().is_reducible(&graph));
    assert_eq!(check(&graph, &mut Random(7)), 1);
    let Statement::Run(0) = Structure::new(&graph).body()[0] else { panic!("the selector is set before its time") };
}

#[test]
fn long_sequences_stay_flat_and_deep_ones_are_dispatched() {
    // 100,000 nodes, each of which either fails or goes on.
    let count = 50_000u32;
    let mut edges: Vec<Vec<u32>> = (0..count).map(|node| vec![node + 1, node + 1 + count]).collect();
    edges.extend((0..=count).map(|_| Vec::new()));
    let graph = Graph::new(0, edges);
    let (mut counts, mut deepest) = (vec![0; graph.len()], 0);
    assert_eq!(measure(Structure::new(&graph).body(), &mut counts, 0, &mut deepest), 0);
    assert_eq!((counts.iter().sum::<u32>(), deepest), (2 * count + 1, 1));
    // Loops within loops, beyond any sense.
    let depth = 2 * MAX_NESTING as u32;
    let mut edges: Vec<Vec<u32>> = (0..depth).map(|node| vec![node + 1, depth + 1]).collect();
    edges.push((0..depth).collect());
    edges.push(Vec::new());
    assert_eq!(check(&Graph::new(0, edges), &mut Random(3)), 1);
}
