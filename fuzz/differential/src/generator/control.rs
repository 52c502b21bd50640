//! Control flow and calls.

use incarnate_runtime::bytecode::isa::{Bank, Format, INSTRUCTIONS, InstructionInfo};

use super::Import;
use super::function::{FunctionBuilder, LOOP_DEPTH};

/// Most calls in a function.
const CALLS: usize = 6;

impl FunctionBuilder<'_> {
    /// Generates one or more instructions, possibly with further blocks.
    pub(super) fn statement(&mut self) {
        self.pinned.clear();
        self.pinned_refs.clear();
        match self.random.below(24) {
            0 => {
                let variadic = self.random.one_in(2);
                self.call(variadic);
            }
            1 | 2 => self.split(),
            3 => self.recurse(),
            4 => self.sweep(),
            _ => self.instruction(),
        }
    }

    fn statements(&mut self, most: usize) {
        for _ in 0..self.random.below(most + 1) {
            self.statement();
        }
    }

    /// Generates irreducible control flow: blocks with arbitrary branches. Back edges consume fuel.
    pub(super) fn tangle(&mut self) {
        let count = 2 + self.random.below(5);
        let prefix = self.new_label();
        self.line(&format!("vm.br {prefix}b0({})", ""));
        for block in 0..count {
            self.begin(&format!("{prefix}b{block}"));
            self.statements(4);
            if block + 1 == count {
                let target = self.jump_within(&prefix, block, count);
                let condition = self.value(Bank::i32);
                let copies = self.copies();
                self.line(&format!("vm.cond_br {condition}, {target}, ^exit({copies})"));
                break;
            }
            let row = self.terminator();
            self.leave(row, |this| this.jump_within(&prefix, block, count), &format!("{prefix}b{}", block + 1));
        }
    }

    /// Generates a branch to such a block: directly, or through a counting block.
    fn jump_within(&mut self, prefix: &str, block: usize, count: usize) -> String {
        let target = self.random.below(count);
        let copies = self.copies();
        if target > block {
            return format!("{prefix}b{target}({copies})");
        }
        let latch = self.new_label();
        let (fuel, scratch) = (self.fuel(), self.scratch());
        let one = format!("  {scratch} = vm.const.i32 1\n  {fuel} = vm.sub.i32 {fuel}, {scratch}\n");
        self.tail += &format!("{latch}:\n{one}  vm.cond_br {fuel}, {prefix}b{target}({copies}), ^exit()\n");
        let copies = self.copies();
        format!("{latch}({copies})")
    }

    /// Generates any terminator.
    fn terminator(&mut self) -> &'static InstructionInfo {
        loop {
            let row = &INSTRUCTIONS[self.random.below(INSTRUCTIONS.len())];
            if row.effects.terminates {
                return row;
            }
        }
    }

    /// Generates the terminator of a row. `target` generates branches; `next` is the following block, which begins
    /// after this.
    fn leave(&mut self, row: &'static InstructionInfo, mut target: impl FnMut(&mut Self) -> String, next: &str) {
        self.pinned.clear();
        self.pinned_refs.clear();
        if row.effects.yields && !self.signature().yields {
            let label = target(self);
            return self.line(&format!("vm.br {label}"));
        }
        let name = row.mnemonic;
        let line = match row.format {
            Format::Branch => format!("vm.{name} {}", target(self)),
            Format::CondBranch => {
                let condition = self.value(Bank::i32);
                format!("vm.{name} {condition}, {}, {}", target(self), target(self))
            }
            Format::CondBreak => {
                let condition = self.value(Bank::i32);
                format!("vm.{name} {condition}, {}", target(self))
            }
            Format::BranchTable => {
                let count = self.random.below(5);
                let index = self.switch_index(count);
                let mut text = format!("vm.{name} {index} {{ default: {}", target(self));
                for case in 0..count {
                    text += &format!(", {case}: {}", target(self));
                }
                text + " }"
            }
            Format::Fail => {
                let status = match self.risks() {
                    false => self.constant(Bank::i32, 0),
                    true if self.random.one_in(2) => self.value(Bank::i32),
                    true => {
                        let code = self.random.below(24) as i64 - 2;
                        self.constant(Bank::i32, code)
                    }
                };
                let text = *self.random.pick(&["failed", "with \\22quotes\\22", "{} {0}", ""]);
                format!("vm.{name} {status}, \"{text}\"")
            }
            Format::Return => {
                let condition = self.value(Bank::i32);
                let label = self.new_label();
                self.line(&format!("vm.cond_br {condition}, {label}(), {next}()"));
                self.begin(&label);
                return self.return_();
            }
            Format::CallYieldable | Format::CallVariadicYieldable => {
                let variadic = row.format == Format::CallVariadicYieldable;
                if !self.call_yieldable(variadic, next) {
                    self.line(&format!("vm.br {next}()"));
                }
                return;
            }
            _ => return,
        };
        self.line(&line);
    }

    /// Ends a block and begins another one.
    fn split(&mut self) {
        let next = self.new_label();
        let row = self.terminator();
        let label = next.clone();
        self.leave(
            row,
            |this| {
                let copies = this.copies();
                format!("{label}({copies})")
            },
            &next,
        );
        self.begin(&next);
    }

    /// Generates nested conditions, switches and counted loops.
    pub(super) fn structured(&mut self) {
        let deep = if self.random.one_in(60) { 24 } else { 3 };
        let long = self.random.one_in(60);
        for _ in 0..1 + self.random.below(2) {
            self.statements(if long { 400 } else { 6 });
            self.nest(deep, None);
        }
        self.statements(4);
    }

    fn nest(&mut self, depth: usize, around: Option<(&str, &str)>) {
        if depth == 0 {
            return self.statements(4);
        }
        let after = self.new_label();
        match self.random.below(5) {
            0 | 1 => {
                let (yes, no) = (self.new_label(), self.new_label());
                let (condition, copies, others) = (self.value(Bank::i32), self.copies(), self.copies());
                let has_else = self.random.one_in(2);
                let otherwise = if has_else { &no } else { &after };
                self.line(&format!("vm.cond_br {condition}, {yes}({copies}), {otherwise}({others})"));
                self.begin(&yes);
                self.arm(depth, &after, around);
                if has_else {
                    self.begin(&no);
                    self.arm(depth, &after, around);
                }
            }
            2 => {
                let labels: Vec<String> = (0..self.random.below(4)).map(|_| self.new_label()).collect();
                let index = self.switch_index(labels.len());
                let cases: Vec<String> =
                    labels.iter().enumerate().map(|(n, label)| format!(", {n}: {label}()")).collect();
                let copies = self.copies();
                self.line(&format!("vm.br_table {index} {{ default: {after}({copies}){} }}", cases.concat()));
                for label in labels {
                    self.begin(&label);
                    self.arm(depth.min(3), &after, around);
                }
            }
            _ if self.loops < LOOP_DEPTH => self.counted(depth, &after),
            _ => {
                self.statements(5);
                let copies = self.copies();
                self.line(&format!("vm.br {after}({copies})"));
            }
        }
        self.begin(&after);
    }

    /// Generates one branch of a condition, which continues after it, breaks from the enclosing loop, or continues that
    /// loop.
    fn arm(&mut self, depth: usize, after: &str, around: Option<(&str, &str)>) {
        self.statements(4);
        if self.random.one_in(3) || depth > 8 {
            self.nest(depth - 1, around);
        }
        let copies = self.copies();
        let target = match around {
            Some((end, again)) if self.random.one_in(3) => *self.random.pick(&[end, again]),
            _ => after,
        };
        self.line(&format!("vm.br {target}({copies})"));
    }

    fn counted(&mut self, depth: usize, after: &str) {
        let counter = format!("%i{}", self.counter(self.loops));
        let (head, again) = (self.new_label(), self.new_label());
        let trip_count = 1 + self.random.below(4);
        self.line(&format!("{counter} = vm.const.i32 {trip_count}"));
        let copies = self.copies();
        self.line(&format!("vm.br {head}({copies})"));
        self.begin(&head);
        self.loops += 1;
        self.statements(5);
        if self.random.one_in(2) || depth > 8 {
            self.nest(depth - 1, Some((after, &again)));
        }
        self.loops -= 1;
        self.line(&format!("vm.br {again}()"));
        self.begin(&again);
        let scratch = self.scratch();
        self.line(&format!("{scratch} = vm.const.i32 1"));
        self.line(&format!("{counter} = vm.sub.i32 {counter}, {scratch}"));
        let (copies, others) = (self.copies(), self.copies());
        self.line(&format!("vm.cond_br {counter}, {head}({copies}), {after}({others})"));
    }

    /// Generates a loop over a buffer in the compilers' form.
    fn sweep(&mut self) {
        if self.loops >= LOOP_DEPTH {
            return;
        }
        let (kind, width, bank) = *self.random.pick(&[
            ("i32", 4, Bank::i32),
            ("f32", 4, Bank::f32),
            ("i64", 8, Bank::i64),
            ("f64", 8, Bank::f64),
        ]);
        let buffer = self.some_buffer(true);
        let count = buffer.length / width;
        let end = if self.risks() { count + 2 } else { count };
        let at = self.counter(self.loops);
        let at = format!("%i{at}:{}", at + 1);
        let (low, high) = (self.counter(self.loops), self.counter(self.loops) + 1);
        let (step, limit) = (self.constant(Bank::i64, 1), self.constant(Bank::i64, end as i64));
        let (sum, loaded) = (self.constant(bank, 0), self.constant(bank, 0));
        let flag = self.constant(Bank::i32, 0);
        let (head, after) = (self.new_label(), self.new_label());
        self.line(&format!("{at} = vm.const.i64.zero"));
        self.line(&format!("vm.br {head}()"));
        self.begin(&head);
        self.line(&format!("{loaded} = vm.buffer.load.{kind} {}, {at}", buffer.register));
        self.line(&format!("{sum} = vm.add.{kind} {sum}, {loaded}"));
        if self.random.one_in(2) {
            self.line(&format!("vm.buffer.store.{kind} {sum}, {}, {at}", buffer.register));
        }
        self.line(&format!("{at} = vm.add.i64 {at}, {step}"));
        self.line(&format!("{flag} = vm.cmp.lt.i64.s {at}, {limit}"));
        let through =
            if self.random.one_in(3) { format!("%i{low}->%i{low}, %i{high}->%i{high}") } else { String::new() };
        self.line(&format!("vm.cond_br {flag}, {head}({through}), {after}()"));
        self.begin(&after);
    }

    /// Generates a recursive call of the function or its partner, of limited depth.
    fn recurse(&mut self) {
        let cycle = &self.signature().cycle;
        if cycle.is_empty() || self.loops > 0 || self.calls >= CALLS {
            return;
        }
        self.calls += 3;
        let callee = &self.shape.functions[*self.random.pick(cycle)];
        let (call, after) = (self.new_label(), self.new_label());
        let depth = self.depth();
        self.line(&format!("vm.cond_br {depth}, {call}(), {after}()"));
        self.begin(&call);
        let less = self.constant(Bank::i32, 1);
        self.line(&format!("{less} = vm.sub.i32 {depth}, {less}"));
        let rest = self.operands_of(&callee.arguments[1..]);
        let operands = [less, rest].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
        let results = self.results_of(&callee.results);
        let name = super::symbol(&callee.name);
        if callee.yields {
            self.line(&format!("vm.call.yieldable {name}({operands}) -> {after}({results})"));
        } else {
            let equals = if results.is_empty() { "" } else { " = " };
            self.line(&format!("{results}{equals}vm.call {name}({operands})"));
            self.line(&format!("vm.br {after}()"));
        }
        self.begin(&after);
    }

    /// Returns the later functions, which may be called without limit.
    fn callees(&self) -> Vec<usize> {
        let cycle = &self.signature().cycle;
        (self.ordinal + 1..self.shape.functions.len()).filter(|callee| !cycle.contains(callee)).collect()
    }

    /// Generates a call within a block, if there is a callee.
    pub(super) fn call(&mut self, variadic: bool) {
        if self.calls >= CALLS {
            return;
        }
        self.calls += 1 + usize::from(self.loops) + usize::from(self.signature().recursion.is_some()) * 2;
        let internal = self.callees();
        if !variadic && !internal.is_empty() && (self.shape.imports.is_empty() || self.random.one_in(2)) {
            let callee = &self.shape.functions[*self.random.pick(&internal)];
            // Suspending functions normally take a special call instruction, but this one is valid, too.
            if callee.yields && !self.random.one_in(3) {
                return;
            }
            let (operands, results) = (self.operands_of(&callee.arguments), self.results_of(&callee.results));
            let equals = if results.is_empty() { "" } else { " = " };
            return self.line(&format!("{results}{equals}vm.call {}({operands})", super::symbol(&callee.name)));
        }
        let Some(import) = self.import(variadic, None) else { return };
        let (segments, operands) = self.import_operands(&import, import.yields);
        let results = self.results_of(&import.results);
        let equals = if results.is_empty() { "" } else { " = " };
        let name = if variadic { "call.variadic" } else { "call" };
        self.line(&format!("{results}{equals}vm.{name} @{}{segments}({operands})", import.name));
    }

    /// Generates a call that may suspend and resumes at a block.
    fn call_yieldable(&mut self, variadic: bool, next: &str) -> bool {
        if self.calls >= CALLS {
            return false;
        }
        self.calls += 1 + usize::from(self.loops);
        let internal = self.callees();
        if !variadic && !internal.is_empty() && self.random.one_in(2) {
            let callee = &self.shape.functions[*self.random.pick(&internal)];
            let (operands, results) = (self.operands_of(&callee.arguments), self.results_of(&callee.results));
            let name = super::symbol(&callee.name);
            self.line(&format!("vm.call.yieldable {name}({operands}) -> {next}({results})"));
            return true;
        }
        let only = (!self.random.one_in(4)).then_some(true);
        let Some(import) = self.import(variadic, only) else { return false };
        let (segments, operands) = self.import_operands(&import, false);
        let results = self.results_of(&import.results);
        let name = if variadic { "call.variadic.yieldable" } else { "call.yieldable" };
        self.line(&format!("vm.{name} @{}{segments}({operands}) -> {next}({results})", import.name));
        true
    }

    /// Returns a callable import, with or without spans.
    fn import(&mut self, variadic: bool, yields: Option<bool>) -> Option<Import> {
        let risks = self.risks();
        let fits = |import: &&Import| {
            import.arguments.contains('C') == variadic
                && yields.is_none_or(|yields| import.yields == yields)
                && (risks || super::importable().iter().any(|(name, _)| *name == import.name))
        };
        let fitting: Vec<&Import> = self.shape.imports.iter().filter(fits).collect();
        if fitting.is_empty() {
            return None;
        }
        Some((*self.random.pick(&fitting)).clone())
    }

    /// Generates segment sizes and operands of a call of an import. `quiet`: it must not suspend.
    fn import_operands(&mut self, import: &Import, quiet: bool) -> (String, String) {
        let risks = self.risks();
        if import.arguments.contains('C') {
            let mut sizes = Vec::new();
            let mut operands = Vec::new();
            let letters: Vec<char> = import.arguments.chars().collect();
            self.segments(&letters, true, &mut sizes, &mut operands);
            // The last argument is the number of suspensions.
            if quiet
                && !risks
                && let Some(last) = operands.last_mut()
            {
                *last = self.constant(Bank::i64, 2);
            }
            let sizes: Vec<String> = sizes.iter().map(u16::to_string).collect();
            return (format!(" segments[{}]", sizes.join(", ")), operands.join(", "));
        }
        let mut operands: Vec<String> = import.arguments.chars().map(|letter| self.operand_of(letter)).collect();
        if !risks {
            let local = import.name.split('.').nth(1).unwrap_or_default();
            match local {
                "look" | "take" | "bytes" => {
                    let register = if local == "bytes" { self.buffer.register.clone() } else { self.probe(local) };
                    operands[0] = register;
                }
                "failing" => operands[0] = self.constant(Bank::i32, 96),
                "divide" => operands[1] = self.constant(Bank::i32, 1),
                "yielding" | "waits" if quiet => operands[0] = self.constant(Bank::i32, 4),
                _ => {}
            }
        }
        (String::new(), operands.join(", "))
    }

    /// Returns a register with a probe, or null if no probe is allowed.
    fn probe(&mut self, for_what: &str) -> String {
        let register = self.pin_reference();
        let makes = self.shape.imports.iter().any(|import| import.name == "harness.make");
        if makes {
            let id = self.value(Bank::i32);
            self.line(&format!("{register} = vm.call @harness.make({id})"));
        } else if for_what == "take" {
            self.line(&format!("{register} = vm.const.ref.zero"));
        }
        register
    }

    fn segments(&mut self, letters: &[char], outermost: bool, sizes: &mut Vec<u16>, operands: &mut Vec<String>) {
        let mut at = 0;
        while at < letters.len() {
            if letters[at] != 'C' {
                operands.push(self.operand_of(letters[at]));
                if outermost {
                    sizes.push(u16::MAX);
                }
                at += 1;
                continue;
            }
            let mut depth = 1;
            let mut end = at + 1;
            while depth > 0 {
                match letters[end] {
                    'C' => depth += 1,
                    'D' => depth -= 1,
                    _ => {}
                }
                end += 1;
            }
            let count = self.random.below(4);
            sizes.push(count as u16);
            for _ in 0..count {
                self.segments(&letters[at + 1..end - 1], false, sizes, operands);
            }
            at = end;
        }
    }
}
