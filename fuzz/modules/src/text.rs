//! The body of a function in the assembler's syntax: registers, blocks, lines.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A function's body while it is written. Every value has a register of its own.
#[derive(Clone, Debug)]
pub struct Body {
    text: String,
    integers: usize,
    references: usize,
    blocks: usize,
    /// Registers with objects, by the names of their types.
    objects: BTreeMap<&'static str, Vec<String>>,
    /// The last integer that a call returned: its type and its register.
    last: Option<(&'static str, String)>,
}

impl Body {
    /// Begins a body whose arguments take some registers.
    #[must_use]
    pub fn new(integers: usize, references: usize) -> Body {
        let text = "^bb0:\n".to_owned();
        Body { text, integers, references, blocks: 1, objects: BTreeMap::new(), last: None }
    }

    /// Adds an instruction.
    pub fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "  {line}");
    }

    /// Returns a register of 32 bits.
    pub fn word(&mut self) -> String {
        self.integers += 1;
        format!("%i{}", self.integers - 1)
    }

    /// Returns a pair of registers.
    pub fn pair(&mut self) -> String {
        self.integers = self.integers.next_multiple_of(2) + 2;
        format!("%i{}:{}", self.integers - 2, self.integers - 1)
    }

    /// Returns a reference register.
    pub fn reference(&mut self) -> String {
        self.references += 1;
        format!("%r{}", self.references - 1)
    }

    /// Adds a constant of 32 bits, of which the value's lower half is taken.
    pub fn i32(&mut self, value: i64) -> String {
        let register = self.word();
        self.line(&format!("{register} = vm.const.i32 {}", value as i32));
        register
    }

    /// Adds a constant of 64 bits.
    pub fn i64(&mut self, value: i64) -> String {
        let register = self.pair();
        self.line(&format!("{register} = vm.const.i64 {value}"));
        register
    }

    /// Returns the name of a new block.
    pub fn block(&mut self) -> String {
        self.blocks += 1;
        format!("^bb{}", self.blocks - 1)
    }

    /// Begins a block.
    pub fn begin(&mut self, block: &str) {
        let _ = writeln!(self.text, "{block}:");
    }

    /// Adds a loop that counts a register down to 0.
    pub fn repeat(&mut self, count: &str, write: impl FnOnce(&mut Body)) {
        let one = self.i32(1);
        let again = self.block();
        self.line(&format!("vm.br {again}()"));
        self.begin(&again);
        write(self);
        let next = self.block();
        self.line(&format!("{count} = vm.sub.i32 {count}, {one}"));
        self.line(&format!("vm.cond_br {count}, {again}(), {next}()"));
        self.begin(&next);
    }

    /// Remembers a register's object.
    pub fn keep(&mut self, ty: &'static str, register: &str) {
        self.objects.entry(ty).or_default().push(register.to_owned());
    }

    /// Returns the registers with objects of a type.
    #[must_use]
    pub fn objects(&self, ty: &str) -> &[String] {
        self.objects.get(ty).map_or(&[], Vec::as_slice)
    }

    /// Returns the registers with objects of any type.
    pub fn all_objects(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.objects.iter().flat_map(|(ty, registers)| registers.iter().map(move |register| (*ty, register)))
    }

    /// Remembers an integer that a call returned.
    pub fn returned(&mut self, ty: &'static str, register: &str) {
        self.last = Some((ty, register.to_owned()));
    }

    /// The last integer that a call returned.
    #[must_use]
    pub fn last(&self) -> Option<(&'static str, String)> {
        self.last.clone()
    }

    /// Ends the function; it returns the register, if there is one.
    #[must_use]
    pub fn finish(mut self, result: &str) -> String {
        self.line(format!("vm.return {result}").trim_end());
        self.text += "}\n";
        self.text
    }
}
