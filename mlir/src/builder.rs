//! The text of a module as it grows, and the types of its values.

use core::fmt;
use core::fmt::Write as _;
use std::collections::HashMap;

use crate::quoting::string;
use crate::types::{Element, Type};

/// A value of a module that is being built. Values of one builder have no meaning in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(pub(crate) u32);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// An operation whose operands do not fit: an error of the importer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed MLIR: {}", self.0)
    }
}

impl core::error::Error for Malformed {}

/// The operations of a block that has ended, without its terminator.
#[derive(Debug)]
#[must_use]
pub struct Region {
    pub(crate) text: String,
}

/// How far a module had grown: see [`Builder::restore`].
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    depth: usize,
    text: usize,
    globals: usize,
    had_error: bool,
}

/// Builds a module: see the [crate's documentation](crate).
#[derive(Debug, Default)]
pub struct Builder {
    /// The text of the innermost open region.
    pub(crate) text: String,
    /// The texts of the regions around it.
    outer: Vec<String>,
    /// What stands before the functions: globals.
    pub(crate) globals: String,
    /// Finished functions.
    pub(crate) functions: String,
    types: Vec<Type>,
    /// Whether a tensor has extents that are known when the module runs.
    pub(crate) is_dynamic: bool,
    /// Whether operations are those of one kernel.
    pub(crate) is_in_dispatch: bool,
    error: Option<Malformed>,
    locations: Vec<String>,
    known_locations: HashMap<String, usize>,
    location: Option<usize>,
}

impl Builder {
    /// Creates an empty module.
    #[must_use]
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Returns the type of a value.
    #[must_use]
    pub fn type_of(&self, value: Value) -> &Type {
        /// The type of a value of another builder.
        const UNKNOWN: &Type = &Type::Scalar(Element::Index);
        self.types.get(value.0 as usize).unwrap_or(UNKNOWN)
    }

    /// Returns the type of a scalar, or of a tensor's elements.
    #[must_use]
    pub fn element_of(&self, value: Value) -> Element {
        self.type_of(value).element()
    }

    /// Returns the number of extents; 0 for a scalar.
    #[must_use]
    pub fn rank(&self, value: Value) -> usize {
        self.type_of(value).extents().map_or(0, <[_]>::len)
    }

    /// Sets the location of the operations that follow: the name of a node of the model.
    pub fn set_location(&mut self, name: Option<&str>) {
        self.location = name.map(|name| match self.known_locations.get(name) {
            Some(index) => *index,
            None => {
                self.locations.push(string(name));
                self.known_locations.insert(name.to_owned(), self.locations.len() - 1);
                self.locations.len() - 1
            }
        });
    }

    /// Opens a region: operations go to it until [`Builder::close_region`].
    pub fn open_region(&mut self) {
        let text = core::mem::take(&mut self.text);
        self.outer.push(text);
    }

    /// Closes the innermost region.
    pub fn close_region(&mut self) -> Region {
        let outer = self.outer.pop();
        if outer.is_none() {
            self.fail("a region is closed that was not opened");
        }
        Region { text: core::mem::replace(&mut self.text, outer.unwrap_or_default()) }
    }

    /// Appends operations to a region that is closed, as casts of its results.
    pub fn append_to<T>(&mut self, region: &mut Region, append: impl FnOnce(&mut Builder) -> T) -> T {
        self.outer.push(core::mem::replace(&mut self.text, core::mem::take(&mut region.text)));
        let result = append(self);
        region.text = self.close_region().text;
        result
    }

    /// Discards the regions that are open beyond a number of them, after an error within them.
    pub fn discard_regions(&mut self, depth: usize) {
        while self.outer.len() > depth {
            let _ = self.close_region();
        }
    }

    /// Returns how far the module has grown.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            depth: self.depth(),
            text: self.text.len(),
            globals: self.globals.len(),
            had_error: self.error.is_some(),
        }
    }

    /// Discards what was appended since a checkpoint of the open region. Values that were created since have no meaning then.
    pub fn restore(&mut self, checkpoint: &Checkpoint) {
        self.discard_regions(checkpoint.depth);
        self.text.truncate(checkpoint.text);
        self.globals.truncate(checkpoint.globals);
        if !checkpoint.had_error {
            self.error = None;
        }
    }

    /// Returns the number of open regions.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.outer.len()
    }

    /// Returns the text of the module.
    ///
    /// # Errors
    /// The first operation that was malformed.
    pub fn finish(self) -> Result<String, Malformed> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut text = format!("module {{\n{}{}}}\n", self.globals, self.functions);
        for (index, name) in self.locations.iter().enumerate() {
            let _ = writeln!(text, "#loc{index} = loc({name})");
        }
        Ok(text)
    }

    /// Records an error, unless there was one.
    pub(crate) fn fail(&mut self, reason: impl Into<String>) {
        let location = self.location.and_then(|index| self.locations.get(index));
        let at = location.map(|name| format!(" at {name}")).unwrap_or_default();
        let reason = reason.into();
        self.error.get_or_insert_with(|| Malformed(format!("{reason}{at}")));
    }

    /// Creates a value that no operation of this builder has defined yet, such as the argument of a region.
    pub fn argument(&mut self, ty: Type) -> Value {
        let id = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        self.is_dynamic |= ty.extents().is_some_and(|extents| extents.contains(&None));
        self.types.push(ty);
        Value(id)
    }

    /// Appends a line.
    pub(crate) fn line(&mut self, text: &str) {
        for _ in 0..self.outer.len().saturating_add(1) {
            self.text.push_str("  ");
        }
        self.text.push_str(text);
        let location = self.location_text();
        self.text.push_str(&location);
        self.text.push('\n');
    }

    /// Returns ` loc(...)` for the current location.
    pub(crate) fn location_text(&self) -> String {
        self.location.map(|index| format!(" loc(#loc{index})")).unwrap_or_default()
    }

    /// Appends an operation with one result. `text` is what follows the equals sign.
    pub(crate) fn operation(&mut self, ty: Type, text: &str) -> Value {
        let value = self.argument(ty);
        self.line(&format!("{value} = {text}"));
        value
    }

    /// Returns `values : types`, or nothing if there are none.
    pub(crate) fn typed(&self, values: &[Value]) -> String {
        if values.is_empty() { String::new() } else { format!("{} : {}", list(values), self.types_of(values)) }
    }

    /// Returns the types of values, with commas.
    pub(crate) fn types_of(&self, values: &[Value]) -> String {
        list(&values.iter().map(|value| self.type_of(*value)).collect::<Vec<_>>())
    }
}

/// Writes a list with commas.
pub(crate) fn list<T: fmt::Display>(items: &[T]) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        let _ = write!(text, "{}{item}", if index == 0 { "" } else { ", " });
    }
    text
}
