//! The state of an import: the module that is built, the extents, and the weights.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use incarnate_bytecode::{Error, Result};
use incarnate_mlir::{Builder, Element, Extent, IntPredicate, Region, Type, Value};

use crate::data_type::DataType;
use crate::dim::{Atom, Dim, Operation};
use crate::elements::{decode, encode, stored_element};
use crate::node::invalid;
use crate::ranges::Facts;
use crate::tensor::{Constant, Data, Scalar, Tensor, type_of};
use crate::weights::{Held, Weight};

/// Constants of up to this number of elements are part of the text; others are parameters.
const INLINE: usize = 64;
/// Constants of up to this number of elements are known one by one. Shapes and indices of models have a few hundred.
const KNOWN: i64 = 4096;
/// The greatest number of bytes of a tensor that is known when the model is imported.
const LARGEST: i128 = 1 << 47;
/// Extents with operations nested deeper are values of the module.
const DEPTH: u32 = 24;

/// An extent that is known when the module runs.
#[derive(Debug)]
struct Symbol {
    name: String,
    /// The value; `None` while the function has not begun.
    value: Value,
}

/// How far an import had come: see [`Context::restore`].
#[derive(Debug)]
pub(crate) struct Checkpoint {
    module: incarnate_mlir::Checkpoint,
    scopes: usize,
    weights: usize,
    remarks: usize,
    random: u64,
}

/// Values that the open region can use.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    extents: HashMap<Dim, Value>,
    /// By address; each entry keeps its constant, so that no other has the address.
    constants: HashMap<*const Constant, (Rc<Constant>, Value)>,
    asserted: HashSet<(Dim, Dim)>,
    /// Elements of tensors that were read as extents, by their positions.
    read: HashMap<(Value, i64), Dim>,
    facts: Facts,
}

/// Those of the open regions, the innermost last.
pub(crate) type Scopes = Vec<Scope>;

/// The state of an import.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) b: Builder,
    symbols: Vec<Symbol>,
    scopes: Scopes,
    pub(crate) weights: Vec<Weight>,
    /// The weights by what they hold: regions that read one load the same global.
    registered: HashMap<Held, usize>,
    keys: HashMap<String, u32>,
    /// What was done to the model, for the report.
    pub(crate) remarks: Vec<String>,
    /// The number of random operators so far, which have streams of their own.
    pub(crate) random: u64,
    /// See [`crate::Options::is_portable`].
    pub(crate) is_portable: bool,
    /// The node that is imported, as messages name it.
    pub(crate) node: String,
}

impl Context {
    pub(crate) fn new() -> Context {
        Context {
            b: Builder::new(),
            symbols: Vec::new(),
            scopes: vec![Scope::default()],
            weights: Vec::new(),
            registered: HashMap::new(),
            keys: HashMap::new(),
            remarks: Vec::new(),
            random: 0,
            is_portable: false,
            node: String::new(),
        }
    }

    /// Forgets the values of a function that has ended.
    pub(crate) fn forget_values(&mut self) {
        self.scopes = vec![Scope::default()];
    }

    /// Replaces the values of open regions by those of others.
    pub(crate) fn replace_scopes(&mut self, scopes: Scopes) -> Scopes {
        core::mem::replace(&mut self.scopes, scopes)
    }

    /// Opens a region, in which values of the regions around it can be used.
    pub(crate) fn open_region(&mut self) {
        self.b.open_region();
        self.scopes.push(Scope::default());
    }

    /// Closes a region; its values end with it.
    pub(crate) fn close_region(&mut self) -> Region {
        self.assert_checks();
        self.scopes.pop();
        self.b.close_region()
    }

    /// Closes the regions beyond a number, after an error within them.
    pub(crate) fn discard_regions(&mut self, depth: usize, scopes: usize) {
        self.b.discard_regions(depth);
        self.scopes.truncate(scopes.max(1));
    }

    /// Returns the numbers for [`Context::discard_regions`].
    pub(crate) fn depth(&self) -> (usize, usize) {
        (self.b.depth(), self.scopes.len())
    }

    /// Begins an attempt, which [`Context::restore`] discards or [`Context::keep`] keeps.
    pub(crate) fn checkpoint(&mut self) -> Checkpoint {
        let checkpoint = Checkpoint {
            module: self.b.checkpoint(),
            scopes: self.scopes.len(),
            weights: self.weights.len(),
            remarks: self.remarks.len(),
            random: self.random,
        };
        self.scopes.push(Scope::default());
        checkpoint
    }

    /// Discards all since a checkpoint.
    pub(crate) fn restore(&mut self, checkpoint: &Checkpoint) {
        self.b.restore(&checkpoint.module);
        self.scopes.truncate(checkpoint.scopes);
        self.weights.truncate(checkpoint.weights);
        self.registered.retain(|_, index| *index < checkpoint.weights);
        self.remarks.truncate(checkpoint.remarks);
        self.random = checkpoint.random;
    }

    /// Keeps all since a checkpoint.
    pub(crate) fn keep(&mut self, checkpoint: &Checkpoint) {
        while self.scopes.len() > checkpoint.scopes.max(1) {
            if let Some(scope) = self.scopes.pop() {
                let outer = self.scope();
                outer.extents.extend(scope.extents);
                outer.constants.extend(scope.constants);
                outer.asserted.extend(scope.asserted);
                outer.read.extend(scope.read);
                outer.facts.extend(scope.facts);
            }
        }
    }

    /// Returns the number of extents that are known when the module runs: those with lower numbers are known here.
    pub(crate) fn symbol_count(&self) -> u32 {
        u32::try_from(self.symbols.len()).unwrap_or(u32::MAX)
    }

    fn find<T: Copy>(&self, get: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        self.scopes.iter().rev().find_map(get)
    }

    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Returns what is known of integers in the open region and in those around it.
    pub(crate) fn facts(&self) -> impl core::iter::Iterator<Item = &Facts> {
        self.scopes.iter().rev().map(|scope| &scope.facts)
    }

    /// Returns what is known of integers in the open region.
    pub(crate) fn own_facts(&mut self) -> &mut Facts {
        &mut self.scope().facts
    }

    /// Creates an extent whose value is known when the module runs, and which is not negative.
    pub(crate) fn symbol(&mut self, name: &str, value: Value) -> Dim {
        Dim::symbol(self.add_symbol(name, value))
    }

    /// Creates an integer of any sign whose value is known when the module runs.
    pub(crate) fn integer(&mut self, name: &str, value: Value) -> Dim {
        Dim::integer(self.add_symbol(name, value))
    }

    fn add_symbol(&mut self, name: &str, value: Value) -> u32 {
        let number = u32::try_from(self.symbols.len()).unwrap_or(u32::MAX);
        self.symbols.push(Symbol { name: name.to_owned(), value });
        number
    }

    /// Lets the call fail with the name of the node and a message where a condition is false.
    pub(crate) fn assert(&mut self, condition: Value, message: &str) {
        let message = if self.node.is_empty() { message.to_owned() } else { format!("{}: {message}", self.node) };
        self.b.assert(condition, &message);
    }

    /// Returns a dimension as one that is not negative: an error now if it is, or one of the call.
    pub(crate) fn nonnegative(&mut self, dim: &Dim, what: &str) -> Result<Dim> {
        match dim.as_constant() {
            Some(value) if value < 0 => invalid(format!("{what} is {value}, which is negative")),
            _ if dim.is_nonnegative() => Ok(dim.clone()),
            _ => {
                let (value, zero) = (self.index(dim), self.b.index(0));
                let condition = self.b.cmpi(IntPredicate::SignedGreaterEqual, value, zero);
                self.assert(condition, &format!("{what} is negative"));
                let name = self.text(dim);
                Ok(self.symbol(&name, value))
            }
        }
    }

    /// Requires that a dimension has elements where `count` elements are read at positions in it: an error now if it has none, or one of
    /// the call.
    pub(crate) fn require_elements(&mut self, extent: &Dim, count: &Dim, what: &str) -> Result<()> {
        match (extent.as_constant(), count.as_constant()) {
            (Some(1..), _) | (_, Some(0)) => Ok(()),
            (Some(_), Some(_)) => invalid(format!("{what} has no elements, and some are read")),
            _ => {
                // A sum of nonnegative terms with a constant one is positive.
                if extent.minus(&Dim::constant(1)).is_nonnegative() {
                    return Ok(());
                }
                let (extent, count, zero) = (self.index(extent), self.index(count), self.b.index(0));
                let has_elements = self.b.cmpi(IntPredicate::SignedGreater, extent, zero);
                let reads_none = self.b.cmpi(IntPredicate::Equal, count, zero);
                let fits = self.b.ori(has_elements, reads_none);
                self.assert(fits, &format!("{what} has no elements, and some are read"));
                Ok(())
            }
        }
    }

    /// Writes an extent with the names of the model.
    pub(crate) fn text(&self, dim: &Dim) -> String {
        dim.text(&|number| self.symbols.get(number as usize).map_or_else(String::new, |symbol| symbol.name.clone()))
    }

    /// Writes a shape with the names of the model.
    pub(crate) fn shape_text(&self, shape: &[Dim]) -> String {
        let extents: Vec<String> = shape.iter().map(|dim| self.text(dim)).collect();
        format!("[{}]", extents.join(","))
    }

    /// Returns an extent as an operand.
    pub(crate) fn extent(&mut self, dim: &Dim) -> Extent {
        match dim.as_constant() {
            Some(value) => Extent::Constant(value),
            None => Extent::Value(self.index(dim)),
        }
    }

    /// Returns extents as operands.
    pub(crate) fn extents(&mut self, dims: &[Dim]) -> Vec<Extent> {
        dims.iter().map(|dim| self.extent(dim)).collect()
    }

    /// Returns an extent as a value of type `index`.
    pub(crate) fn index(&mut self, dim: &Dim) -> Value {
        if let Some(value) = self.find(|scope| scope.extents.get(dim).copied()) {
            return value;
        }
        let mut sum = None;
        for (atoms, coefficient) in dim.terms() {
            let mut product = None;
            for atom in atoms {
                let value = self.atom(atom);
                product = Some(product.map_or(value, |product| self.b.muli(product, value)));
            }
            let term = match (product, *coefficient) {
                (Some(product), 1) => product,
                (Some(product), factor) => {
                    let factor = self.b.index(factor);
                    self.b.muli(product, factor)
                }
                (None, constant) => self.b.index(constant),
            };
            sum = Some(sum.map_or(term, |sum| self.b.addi(sum, term)));
        }
        let value = sum.unwrap_or_else(|| self.b.index(0));
        self.scope().extents.insert(dim.clone(), value);
        value
    }

    fn atom(&mut self, atom: &Atom) -> Value {
        match atom {
            Atom::Symbol(number) | Atom::Integer(number) => match self.symbols.get(*number as usize) {
                Some(symbol) => symbol.value,
                None => self.b.index(0),
            },
            Atom::Operation(operation, a, b) => {
                let divisor = b.as_constant();
                let (a, b) = (self.index(a), self.index(b));
                match operation {
                    Operation::FloorDiv if divisor.is_some_and(|divisor| divisor > 0) => self.b.floordivsi(a, b),
                    // A tensor without elements: 0 by 0 is 0.
                    Operation::FloorDiv | Operation::Ratio => {
                        let one = self.b.index(1);
                        let positive = self.b.maxsi(b, one);
                        self.b.floordivsi(a, positive)
                    }
                    Operation::Min => self.b.minsi(a, b),
                    Operation::Max => self.b.maxsi(a, b),
                    Operation::Product => self.b.muli(a, b),
                }
            }
        }
    }

    /// Bounds the nesting of the expressions of a shape: deeper ones become extents of their own.
    pub(crate) fn bounded(&mut self, dims: &[Dim]) -> Vec<Dim> {
        let bound = |dim: &Dim, this: &mut Context| {
            if dim.depth() <= DEPTH {
                return dim.clone();
            }
            let value = this.index(dim);
            this.symbol("?", value)
        };
        dims.iter().map(|dim| bound(dim, self)).collect()
    }

    /// Checks that a shape has no negative extents, and no more bytes than a machine.
    pub(crate) fn check_shape(&self, ty: DataType, shape: &[Dim]) -> Result<()> {
        let mut bytes = i128::from(ty.stored_bytes(1));
        for dim in shape {
            match dim.as_constant() {
                Some(extent) if extent < 0 => {
                    return invalid(format!("a tensor of shape {} has a negative extent", self.shape_text(shape)));
                }
                Some(extent) => bytes = bytes.saturating_mul(i128::from(extent.max(1))),
                None => {}
            }
        }
        if bytes > LARGEST || shape.len() > 64 {
            return Err(Error::resource_exhausted(format!(
                "a tensor of shape {} is too large",
                self.shape_text(shape)
            )));
        }
        Ok(())
    }

    /// Wraps a value that an operation has computed.
    pub(crate) fn tensor(&mut self, value: Value, ty: DataType, shape: Vec<Dim>) -> Result<Tensor> {
        self.check_shape(ty, &shape)?;
        let shape = self.bounded(&shape);
        let value = self.b.cast_to(value, &type_of(ty, &shape));
        Ok(Tensor { ty, shape, data: Data::Value(value) })
    }

    /// Wraps a value; `None` among the extents is measured.
    pub(crate) fn partly_measured(&mut self, value: Value, ty: DataType, shape: &[Option<Dim>]) -> Result<Tensor> {
        let mut dims = Vec::with_capacity(shape.len());
        for (index, dim) in shape.iter().enumerate() {
            dims.push(match dim {
                Some(dim) => dim.clone(),
                None => {
                    let extent = self.b.dim(value, index);
                    self.symbol("?", extent)
                }
            });
        }
        self.tensor(value, ty, dims)
    }

    /// Returns the elements of a tensor if they are known.
    pub(crate) fn elements(&self, tensor: &Tensor) -> Result<Option<Rc<Vec<Scalar>>>> {
        match &tensor.data {
            Data::Value(_) => Ok(None),
            Data::Elements(elements) => Ok(Some(Rc::clone(elements))),
            Data::Constant(constant) => {
                let count = tensor.count().as_constant().filter(|count| *count <= KNOWN);
                let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else { return Ok(None) };
                match decode(&constant.bytes()?, tensor.ty, count) {
                    Some(elements) => Ok(Some(Rc::new(elements))),
                    None => invalid(format!("the tensor `{}` has too few bytes", constant.name)),
                }
            }
        }
    }

    /// Returns the elements of a tensor as numbers if they are known constants.
    pub(crate) fn floats(&self, tensor: &Tensor) -> Result<Option<Vec<f64>>> {
        let Some(elements) = self.elements(tensor)? else { return Ok(None) };
        Ok(elements
            .iter()
            .map(|element| match element {
                Scalar::Int(dim) => dim.as_constant().map(|value| value as f64),
                Scalar::Float(value) => Some(*value),
            })
            .collect())
    }

    /// Returns the elements of a tensor of integers as constants.
    pub(crate) fn constant_integers(&self, tensor: &Tensor, name: &str) -> Result<Vec<i64>> {
        let elements = self.elements(tensor)?;
        let values = elements.and_then(|elements| {
            elements.iter().map(|element| element.as_int().and_then(Dim::as_constant)).collect::<Option<Vec<_>>>()
        });
        match values {
            Some(values) => Ok(values),
            None => crate::node::unsupported(format!("`{name}` is not a constant")),
        }
    }

    /// Returns the elements of a tensor of integers of one dimension as extents. Elements that are computed when the module runs become
    /// new symbols, of any sign.
    pub(crate) fn integers(&mut self, tensor: &Tensor) -> Result<Vec<Dim>> {
        if let Some(elements) = self.elements(tensor)? {
            let dims: Option<Vec<Dim>> = elements.iter().map(|element| element.as_int().cloned()).collect();
            return dims.map_or_else(|| invalid("integers are expected, and the elements are floats"), Ok);
        }
        let Some(count) = tensor.count().as_constant().filter(|_| tensor.ty.is_int()) else {
            return crate::node::unsupported("a shape whose number of extents is not known");
        };
        let value = self.value(tensor)?;
        let mut dims = Vec::new();
        for position in 0..count {
            let known = self.scopes.iter().rev().find_map(|scope| scope.read.get(&(value, position)).cloned());
            if let Some(known) = known {
                dims.push(known);
                continue;
            }
            let indices: Vec<Value> = match tensor.rank() {
                0 => Vec::new(),
                1 => vec![self.b.index(position)],
                _ => return crate::node::unsupported("a shape of more than one dimension"),
            };
            let element = self.b.extract(value, &indices);
            let index = if tensor.ty.is_unsigned() {
                self.b.index_castui(element, Element::Index)
            } else {
                self.b.index_cast(element, Element::Index)
            };
            let dim = self.integer("?", index);
            self.scope().read.insert((value, position), dim.clone());
            dims.push(dim);
        }
        Ok(dims)
    }

    /// Returns a tensor as a value of the module.
    pub(crate) fn value(&mut self, tensor: &Tensor) -> Result<Value> {
        match &tensor.data {
            Data::Value(value) => Ok(*value),
            Data::Elements(elements) => self.of_elements(tensor, elements),
            Data::Constant(constant) => {
                let key = Rc::as_ptr(constant);
                if let Some(value) = self.find(|scope| scope.constants.get(&key).map(|found| found.1)) {
                    return Ok(value);
                }
                let value = self.constant(tensor, constant)?;
                self.scope().constants.insert(key, (Rc::clone(constant), value));
                Ok(value)
            }
        }
    }

    fn of_elements(&mut self, tensor: &Tensor, elements: &[Scalar]) -> Result<Value> {
        let extents: Option<Vec<u64>> = tensor.shape.iter().map(|dim| u64::try_from(dim.as_constant()?).ok()).collect();
        let Some(extents) = extents else {
            // A tensor without elements is known whatever its other extents are.
            if !elements.is_empty() {
                return invalid("known elements of an unknown shape");
            }
            let extents = self.extents(&tensor.shape);
            return Ok(self.b.empty(&extents, tensor.ty.element()));
        };
        let bits: Option<Vec<u64>> = elements.iter().map(|element| encode(element, tensor.ty)).collect();
        if let Some(bits) = bits {
            return Ok(self.dense(&bits, &extents, tensor.ty));
        }
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            values.push(self.scalar(element, tensor.ty)?);
        }
        Ok(self.b.from_elements(&values, &extents))
    }

    /// A small constant in the text.
    fn dense(&mut self, bits: &[u64], extents: &[u64], ty: DataType) -> Value {
        let stored = if ty == DataType::Bool { Element::I1 } else { stored_element(ty) };
        let value = match bits.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => {
                self.b.splat_constant(*first, extents, stored)
            }
            _ => self.b.dense(bits, extents, stored),
        };
        if stored == ty.element() { value } else { self.b.bitcast(value, ty.element()) }
    }

    fn constant(&mut self, tensor: &Tensor, constant: &Rc<Constant>) -> Result<Value> {
        let Some(shape) = tensor.static_shape() else { return invalid("a constant of an unknown shape") };
        self.check_shape(tensor.ty, &tensor.shape)?;
        let extents: Vec<u64> = shape.iter().map(|extent| extent.unsigned_abs()).collect();
        let count: u64 = extents.iter().product();
        if count <= INLINE as u64
            && let Some(elements) = self.elements(tensor)?
        {
            return self.of_elements(tensor, &elements);
        }
        let stored = stored_element(tensor.ty);
        let ty = Type::tensor(&extents.iter().copied().map(Some).collect::<Vec<_>>(), stored);
        let held = Held::of(constant, tensor.ty, shape.clone());
        let known =
            self.registered.get(&held).and_then(|index| self.weights.get(*index)).map(|weight| weight.key.clone());
        let key = match known {
            Some(key) => key,
            None => {
                let key = self.unique_key(&constant.name);
                self.b.parameter(&key, SCOPE, &key, &ty);
                self.registered.insert(held, self.weights.len());
                self.weights.push(Weight { key: key.clone(), ty: tensor.ty, shape, constant: Rc::clone(constant) });
                key
            }
        };
        let value = self.b.load_global(&key, &ty);
        Ok(match (tensor.ty, tensor.ty.element()) {
            (DataType::Bool, _) => self.b.elementwise(&[value], Element::I1, |b, x| {
                let zero = b.int(0, Element::I8);
                x.first().map_or(zero, |x| b.cmpi(IntPredicate::NotEqual, *x, zero))
            }),
            (_, element) if element == stored => value,
            (_, element) => self.b.bitcast(value, element),
        })
    }

    pub(crate) fn unique_key(&mut self, name: &str) -> String {
        let name = if name.is_empty() { "constant" } else { name };
        let count = self.keys.entry(name.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            return name.to_owned();
        }
        let numbered = format!("{name}.{count}");
        self.unique_key(&numbered)
    }

    /// Requires that two extents are equal: an error now if they cannot be, or one of the call.
    pub(crate) fn require_equal(&mut self, a: &Dim, b: &Dim, what: &str) -> Result<()> {
        match a.minus(b).as_constant() {
            Some(0) => Ok(()),
            Some(_) => invalid(format!("{what}: {} is not {}", self.text(a), self.text(b))),
            None => {
                let key = if a <= b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
                if self.find(|scope| scope.asserted.contains(&key).then_some(())).is_some() {
                    return Ok(());
                }
                let (x, y) = (self.index(a), self.index(b));
                let condition = self.b.cmpi(IntPredicate::Equal, x, y);
                let message = format!("{what}: {} is not {}", self.text(a), self.text(b));
                self.assert(condition, &message);
                self.scope().asserted.insert(key);
                Ok(())
            }
        }
    }
}

/// The scope of the parameters of a model.
pub const SCOPE: &str = "model";
