//! Values that are stored in several globals, each of which needs memory of its own.
//!
//! Compilers up to 3.13 store one buffer in all globals that get one value, such as first values that are equal, and then update that
//! buffer in place: a change of one global changes the others. Here each of them gets a copy. A condition that the compiler does not
//! know keeps the copies apart.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::process::contains_any;

/// Names of operations, in text and in MLIR bytecode, of the dialects `util`, `iree_input` and `ml_program`.
const STORES: [&[u8]; 2] = [b"global.store", b"global_store"];
/// Operations whose results are equal wherever their operands are, and which need no memory before they are used.
const CONSTANT_LIKE: [&str; 4] = ["arith.constant ", "tensor.empty(", "linalg.fill ", "tensor.splat "];

/// Returns true if a model may store values in globals.
///
/// # Errors
/// Errors of reading the model.
pub(super) fn may_store(model: &Path) -> io::Result<bool> {
    contains_any(model, &STORES)
}

/// A line without its location.
fn without_location(line: &str) -> &str {
    line.split_once(" loc(").map_or(line, |(before, _)| before).trim()
}

/// A declaration `util.global private mutable @name = value : tensor<...>`.
struct Declaration<'t> {
    /// With the name.
    head: &'t str,
    name: &'t str,
    value: Option<&'t str>,
    ty: &'t str,
}

impl<'t> Declaration<'t> {
    fn of(line: &'t str) -> Option<Declaration<'t>> {
        let line = without_location(line);
        if !line.starts_with("util.global ") {
            return None;
        }
        let (before, ty) = line.rsplit_once(" : ")?;
        let (head, value) = before.rsplit_once(" = ").map_or((before, None), |(head, value)| (head, Some(value)));
        let name = head.split_once(" mutable ")?.1.split(' ').next()?;
        ty.starts_with("tensor<").then_some(Declaration { head, name, value, ty })
    }
}

/// The mutable globals of tensors.
pub(super) struct MutableGlobals(HashSet<String>);

impl MutableGlobals {
    /// Finds the globals of a text.
    ///
    /// # Errors
    /// Errors of reading.
    pub(super) fn of(path: &Path) -> io::Result<MutableGlobals> {
        let mut names = HashSet::new();
        for line in BufReader::with_capacity(1 << 16, File::open(path)?).split(b'\n') {
            names.extend(Declaration::of(text_of(&line?)).map(|declaration| declaration.name.to_owned()));
        }
        Ok(MutableGlobals(names))
    }
}

/// Returns a line as text; nothing for those with weights, which have megabytes.
pub(super) fn text_of(line: &[u8]) -> &str {
    if line.len() <= 4096 { core::str::from_utf8(line).unwrap_or_default() } else { "" }
}

/// The changes of a text, line by line.
pub(super) struct Copies {
    globals: MutableGlobals,
    /// The operations of the values of a function.
    operations: HashMap<String, String>,
    /// The values that a function has stored, by their operations where those are known.
    stored: HashSet<String>,
    /// The number of copies.
    pub(super) count: usize,
}

impl Copies {
    pub(super) fn new(globals: MutableGlobals) -> Copies {
        Copies { globals, operations: HashMap::new(), stored: HashSet::new(), count: 0 }
    }

    /// Writes a line in another form if a copy is needed; returns false if it is to be written as it is.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn write(&mut self, line: &str, out: &mut impl Write) -> io::Result<bool> {
        if self.globals.0.len() < 2 {
            return Ok(false);
        }
        if let Some(declaration) = Declaration::of(line) {
            return self.write_declaration(&declaration, out);
        }
        let body = without_location(line);
        if ["util.func ", "util.initializer ", "func.func "].iter().any(|start| body.starts_with(start)) {
            self.operations.clear();
            self.stored.clear();
        } else if let Some(store) = body.strip_prefix("util.global.store ") {
            return self.write_store(store, out);
        } else if let Some((result, operation)) = body.split_once(" = ")
            && result.starts_with('%')
        {
            self.operations.insert(result.to_owned(), operation.to_owned());
        }
        Ok(false)
    }

    /// Declares a global whose elements are equal without them, and an initialiser.
    fn write_declaration(&mut self, declaration: &Declaration<'_>, out: &mut impl Write) -> io::Result<bool> {
        let Declaration { head, name, value: Some(value), ty } = *declaration else { return Ok(false) };
        let Some(tensor) = Tensor::of(ty) else { return Ok(false) };
        let splat = match value.strip_prefix("dense<").and_then(|value| value.strip_suffix('>')) {
            _ if value == "#util.uninitialized" => tensor.zero(),
            // Other elements are copied from the module, and each global has its own.
            Some(element) if !element.starts_with(['[', '"']) && !element.is_empty() => element,
            _ => return Ok(false),
        };
        writeln!(out, "{head} : {ty}\nutil.initializer {{\n%first = arith.constant dense<{splat}> : {ty}")?;
        let copy = self.write_copy("%first", &tensor, out)?;
        writeln!(out, "util.global.store {copy}, {name} : {ty}\nutil.return\n}}")?;
        Ok(true)
    }

    /// `store` is `%value, @name : type`.
    fn write_store(&mut self, store: &str, out: &mut impl Write) -> io::Result<bool> {
        let Some((value, rest)) = store.split_once(", ") else { return Ok(false) };
        let Some((name, ty)) = rest.rsplit_once(" : ") else { return Ok(false) };
        let Some(tensor) = Tensor::of(ty).filter(|_| self.globals.0.contains(name)) else { return Ok(false) };
        let operation = self.operations.get(value).map_or("", String::as_str);
        let loaded = operation.strip_prefix("util.global.load ").and_then(|load| load.split(' ').next());
        if loaded == Some(name) {
            return Ok(false);
        }
        let is_constant = CONSTANT_LIKE.iter().any(|start| operation.starts_with(start));
        // Equal operations have equal values. Arguments have none, and are known by their names.
        let is_equal = !operation.is_empty() && !self.stored.insert(operation.to_owned());
        let is_known = !self.stored.insert(value.to_owned()) || is_equal;
        if !is_constant && loaded.is_none() && !is_known {
            return Ok(false);
        }
        let copy = self.write_copy(value, &tensor, out)?;
        writeln!(out, "util.global.store {copy}, {rest}")?;
        Ok(true)
    }

    /// Writes a copy of a value, and returns its name.
    fn write_copy(&mut self, value: &str, tensor: &Tensor<'_>, out: &mut impl Write) -> io::Result<String> {
        self.count += 1;
        let copy = format!("%incarnate_copy_{}", self.count);
        let Tensor { ty, element, extents } = tensor;
        writeln!(out, "{copy}_true = arith.constant true")?;
        writeln!(out, "{copy}_is_kept = util.optimization_barrier {copy}_true : i1")?;
        // The zero is not known either: a choice among two zeros would be none.
        writeln!(out, "{copy}_known = arith.constant {} : {element}", tensor.zero())?;
        writeln!(out, "{copy}_zero = util.optimization_barrier {copy}_known : {element}")?;
        let mut dynamic = Vec::new();
        for (dimension, _) in extents.iter().enumerate().filter(|(_, extent)| **extent == "?") {
            let extent = format!("{copy}_extent_{dimension}");
            writeln!(out, "{extent}_index = arith.constant {dimension} : index")?;
            writeln!(out, "{extent} = tensor.dim {value}, {extent}_index : {ty}")?;
            dynamic.push(extent);
        }
        writeln!(out, "{copy}_empty = tensor.empty({}) : {ty}", dynamic.join(", "))?;
        let loops: Vec<String> = (0..extents.len()).map(|dimension| format!("d{dimension}")).collect();
        let map = format!("affine_map<({0}) -> ({0})>", loops.join(", "));
        let iterators = vec!["\"parallel\""; extents.len()].join(", ");
        writeln!(
            out,
            "{copy} = linalg.generic {{indexing_maps = [{map}, {map}], iterator_types = [{iterators}]}} ins({value} : {ty}) \
             outs({copy}_empty : {ty}) {{\n^bb0({copy}_in: {element}, {copy}_out: {element}):\n{copy}_element = arith.select \
             {copy}_is_kept, {copy}_in, {copy}_zero : {element}\nlinalg.yield {copy}_element : {element}\n}} -> {ty}"
        )?;
        Ok(copy)
    }
}

/// The type of a tensor of integers or floats.
struct Tensor<'t> {
    ty: &'t str,
    element: &'t str,
    /// Numbers, and `?`.
    extents: Vec<&'t str>,
}

impl<'t> Tensor<'t> {
    fn of(ty: &'t str) -> Option<Tensor<'t>> {
        let mut rest = ty.strip_prefix("tensor<")?.strip_suffix('>')?;
        let mut extents = Vec::new();
        while let Some((extent, behind)) = rest.split_once('x')
            && (extent == "?" || !extent.is_empty() && extent.bytes().all(|byte| byte.is_ascii_digit()))
        {
            extents.push(extent);
            rest = behind;
        }
        let is_number = rest.starts_with(['i', 'f', 'b']) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_number.then_some(Tensor { ty, element: rest, extents })
    }

    fn zero(&self) -> &'static str {
        match self.element {
            "i1" => "false",
            element if element.starts_with('i') => "0",
            _ => "0.0",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The text with copies, and their number.
    fn copied(text: &str) -> (String, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.mlir");
        std::fs::write(&path, text).unwrap();
        let mut copies = Copies::new(MutableGlobals::of(&path).unwrap());
        let mut out = Vec::new();
        for line in text.lines() {
            if !copies.write(line, &mut out).unwrap() {
                writeln!(out, "{line}").unwrap();
            }
        }
        (String::from_utf8(out).unwrap(), copies.count)
    }

    const STATE: &str =
        "  util.global private mutable @a : tensor<2x?xf32>\n  util.global private mutable @b : tensor<2x?xf32>\n";

    fn function(body: &str) -> String {
        format!("{STATE}  util.func public @f(%x: tensor<2x?xf32>) {{\n{body}    util.return\n  }}\n")
    }

    #[test]
    fn first_values_are_copied() {
        let one = "  util.global private mutable @a = dense<0.0> : tensor<4xf32> loc(#loc1)\n";
        assert_eq!(copied(one), (one.to_owned(), 0));
        let two = format!("{one}  util.global public mutable @b {{x = 1}} = #util.uninitialized : tensor<i1>\n");
        let (text, count) = copied(&two);
        assert_eq!(count, 2);
        for line in [
            "util.global private mutable @a : tensor<4xf32>",
            "%first = arith.constant dense<0.0> : tensor<4xf32>",
            "util.global.store %incarnate_copy_1, @a : tensor<4xf32>",
            "%first = arith.constant dense<false> : tensor<i1>",
            "indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let immutable = "  util.global private @a = dense<0.0> : tensor<4xf32>\n".repeat(2);
        assert_eq!(copied(&immutable).1, 0);
        let elements = two.replace("dense<0.0>", "dense<[0.0, 1.0, 2.0, 3.0]>");
        assert_eq!(copied(&elements).1, 1);
    }

    #[test]
    fn values_of_several_globals_are_copied() {
        let store =
            |value: &str, name: &str| format!("    util.global.store {value}, @{name} : tensor<2x?xf32> loc(#loc)\n");
        let sum = |name: &str| format!("    {name} = arith.addf %x, %x : tensor<2x?xf32>\n");
        let load = "    %a = util.global.load @a : tensor<2x?xf32>\n";
        let zero = "    %zero = arith.constant dense<0.0> : tensor<2x?xf32>\n";
        for (body, count) in [
            (sum("%y") + &store("%y", "a"), 0),
            (sum("%y") + &store("%y", "a") + &store("%y", "b"), 1),
            (sum("%y") + &sum("%z") + &store("%y", "a") + &store("%z", "b"), 1),
            (store("%x", "a") + &store("%x", "b"), 1),
            (load.to_owned() + &store("%a", "a"), 0),
            (load.to_owned() + &store("%a", "b"), 1),
            (zero.to_owned() + &store("%zero", "a"), 1),
        ] {
            let (text, copies) = copied(&function(&body));
            assert_eq!(copies, count, "{text}");
        }
        let (text, _) = copied(&function(&(store("%x", "a") + &store("%x", "b"))));
        assert!(
            text.contains("%incarnate_copy_1_empty = tensor.empty(%incarnate_copy_1_extent_1) : tensor<2x?xf32>"),
            "{text}"
        );
        // Functions are independent of each other.
        let twice = function(&store("%x", "a")) + &function(&store("%x", "b"));
        assert_eq!(copied(&twice).1, 0);
    }
}
