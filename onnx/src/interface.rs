//! The function of a model: its inputs, its outputs, and its variants for several shapes.

use std::collections::{HashMap, HashSet};

use incarnate_bytecode::{QuotedName, Result};
use incarnate_mlir::{Element, IntPredicate, Type, Value};

use crate::data_type::DataType;
use crate::dim::Dim;
use crate::import::{Import, Options};
use crate::node::{data_type, invalid, unsupported};
use crate::proto;
use crate::tensor::{Data, Item, Tensor};

/// What exporters write for extents that have no name: two such extents may differ.
const ANONYMOUS: [&str; 4] = ["", "?", "-1", "None"];
/// The most variants of a function.
const VARIANTS: usize = 64;

/// An input of the function.
struct Input<'m> {
    name: &'m str,
    ty: DataType,
    extents: Vec<Extent>,
}

/// An extent of an input.
#[derive(Clone, PartialEq)]
enum Extent {
    Constant(i64),
    Named(String),
}

impl Extent {
    fn of_type(&self) -> Option<u64> {
        match self {
            Extent::Constant(value) => u64::try_from(*value).ok(),
            Extent::Named(_) => None,
        }
    }
}

/// A function of the module: that of the model, or one of its variants for several shapes.
struct Variant<'m> {
    name: String,
    inputs: Vec<Input<'m>>,
    results: Vec<Output<'m>>,
}

/// A result of a function.
struct Output<'m> {
    name: &'m str,
    ty: DataType,
    mlir: Type,
    is_argument: bool,
}

impl<'m> Import<'m> {
    /// Imports the function of a graph. Returns the names of its extents that are known when it runs.
    pub(crate) fn function_of(&mut self, graph: &'m proto::Graph, options: &Options) -> Result<Vec<String>> {
        let name = if graph.name.is_empty() { "main" } else { &*graph.name };
        let variants = variants(options)?;
        let inputs = match &*variants {
            [only] => self.imported(graph, only, name, true)?.inputs,
            _ => {
                let mut functions = Vec::new();
                for (index, variant) in variants.iter().enumerate() {
                    self.forget_names();
                    functions.push(self.imported(graph, variant, &format!("{name}${index}"), false)?);
                }
                self.forget_names();
                self.choice(name, functions)?
            }
        };
        let mut dynamic: Vec<String> = open_extents(&inputs).map(str::to_owned).collect();
        dynamic.sort();
        dynamic.dedup();
        Ok(dynamic)
    }

    /// Imports the nodes of a graph as a function. A public one has a declaration.
    fn imported(
        &mut self,
        graph: &'m proto::Graph,
        options: &Options,
        name: &str,
        is_public: bool,
    ) -> Result<Variant<'m>> {
        self.add_initializers(graph, &options.inputs)?;
        let inputs = self.inputs(graph, options)?;
        let outputs: Vec<&'m str> = if options.outputs.is_empty() {
            graph.output.iter().map(|output| &*output.name).collect()
        } else {
            options.outputs.iter().map(|name| find_name(graph, name)).collect::<Result<_>>()?
        };
        let types = types(&inputs);
        let function =
            if is_public { self.cx.b.function(name, &types) } else { self.cx.b.private_function(name, &types) };
        let arguments = function.arguments.clone();
        self.bind_inputs(&inputs, &arguments)?;
        let cut: HashSet<&str> = options.inputs.iter().map(String::as_str).collect();
        self.run_nodes(&graph.node, &outputs, &cut)?;
        self.finish_errors(open_extents(&inputs))?;
        let (mut results, mut values) = (Vec::new(), Vec::new());
        for name in outputs {
            let tensor = match self.lookup(name) {
                Some(Item::Tensor(tensor)) => tensor,
                Some(Item::Sequence(..)) => {
                    return unsupported(format!("the output `{name}` is a sequence: --outputs= takes tensors by name"));
                }
                Some(Item::Nothing) => {
                    return unsupported(format!(
                        "the output `{name}` is an optional without a value, or of strings: --outputs= takes others by name"
                    ));
                }
                Some(Item::Unknown) | None => return invalid(format!("no node has the output `{name}`")),
            };
            let value = self.cx.value(&tensor)?;
            let is_argument = arguments.contains(&value);
            results.push(Output { name, ty: tensor.ty, mlir: tensor.mlir_type(), is_argument });
            values.push(value);
        }
        self.cx.assert_checks();
        let imported = Variant { name: name.to_owned(), inputs, results };
        self.end(function, &imported, &values, is_public);
        Ok(imported)
    }

    fn end(&mut self, function: incarnate_mlir::Function, imported: &Variant<'m>, values: &[Value], is_public: bool) {
        if !is_public {
            self.cx.b.end_function(function, values, &[], &[]);
            return;
        }
        let encodings: Vec<Option<String>> = imported.results.iter().map(Output::encoding).collect();
        let declaration = imported.declaration();
        self.cx.b.end_function(function, values, &encodings, &[("iree.abi.declaration", declaration)]);
    }

    /// Adds the public function that calls the first variant whose extents are those of the arguments; the last variant is called where
    /// no other is, and the call fails where its extents are others.
    fn choice(&mut self, name: &str, mut functions: Vec<Variant<'m>>) -> Result<Vec<Input<'m>>> {
        let Some(last) = functions.pop() else { return invalid("there is no variant") };
        let mut inputs: Vec<Input<'m>> = Vec::new();
        for (index, input) in last.inputs.iter().enumerate() {
            let mut extents = input.extents.clone();
            for other in functions.iter().filter_map(|function| function.inputs.get(index)) {
                for (position, (extent, other)) in extents.iter_mut().zip(&other.extents).enumerate() {
                    if extent != other {
                        *extent = Extent::Named(format!("{}.{position}", input.name));
                    }
                }
            }
            inputs.push(Input { name: input.name, ty: input.ty, extents });
        }
        let mut results: Vec<Output<'m>> = Vec::new();
        for (index, result) in last.results.iter().enumerate() {
            let mut mlir = result.mlir.clone();
            for other in functions.iter().filter_map(|function| function.results.get(index)) {
                mlir = mlir.joined(&other.mlir);
            }
            results.push(Output { name: result.name, ty: result.ty, mlir, is_argument: false });
        }
        let function = self.cx.b.function(name, &types(&inputs));
        let arguments = function.arguments.clone();
        let types: Vec<Type> = results.iter().map(|result| result.mlir.clone()).collect();
        let values = self.called(&functions, &last, &arguments, &types);
        let imported = Variant { name: name.to_owned(), inputs, results };
        self.end(function, &imported, &values, true);
        Ok(imported.inputs)
    }

    /// Emits the calls of variants, nested.
    fn called(&mut self, first: &[Variant<'m>], last: &Variant<'m>, arguments: &[Value], types: &[Type]) -> Vec<Value> {
        let Some((function, rest)) = first.split_first() else {
            let fits = self.fits(last, arguments);
            self.cx.b.assert(fits, "the shapes of the arguments are those of no variant");
            return self.call_variant(last, arguments, types);
        };
        let fits = self.fits(function, arguments);
        self.cx.open_region();
        let values = self.call_variant(function, arguments, types);
        let then = (self.cx.close_region(), values);
        self.cx.open_region();
        let values = self.called(rest, last, arguments, types);
        let otherwise = (self.cx.close_region(), values);
        self.cx.b.scf_if(fits, types, then, otherwise)
    }

    /// Returns whether arguments have the constant extents of a function.
    fn fits(&mut self, function: &Variant<'m>, arguments: &[Value]) -> Value {
        let mut fits = self.cx.b.int(1, Element::I1);
        for (input, argument) in function.inputs.iter().zip(arguments) {
            for (index, extent) in input.extents.iter().enumerate() {
                if let Extent::Constant(extent) = extent {
                    let (measured, expected) = (self.cx.b.dim(*argument, index), self.cx.b.index(*extent));
                    let is_equal = self.cx.b.cmpi(IntPredicate::Equal, measured, expected);
                    fits = self.cx.b.andi(fits, is_equal);
                }
            }
        }
        fits
    }

    fn call_variant(&mut self, function: &Variant<'m>, arguments: &[Value], types: &[Type]) -> Vec<Value> {
        let own = self::types(&function.inputs);
        let arguments: Vec<Value> =
            arguments.iter().zip(&own).map(|(argument, ty)| self.cx.b.cast_to(*argument, ty)).collect();
        let results: Vec<Type> = function.results.iter().map(|result| result.mlir.clone()).collect();
        let values = self.cx.b.call(&function.name, &arguments, &results);
        values.iter().zip(types).map(|(value, ty)| self.cx.b.cast_to(*value, ty)).collect()
    }

    /// Returns the inputs of the function.
    fn inputs(&self, graph: &'m proto::Graph, options: &Options) -> Result<Vec<Input<'m>>> {
        let weights: HashSet<&str> = graph.initializer.iter().map(|tensor| &*tensor.name).collect();
        let declared = graph.input.iter().filter(|input| !weights.contains(&*input.name));
        let all: Vec<&'m proto::ValueInfo> = declared.collect();
        for (name, _) in &options.shapes {
            if !all.iter().any(|input| input.name == *name) && !options.inputs.contains(name) {
                let names: Vec<&str> = all.iter().map(|input| &*input.name).collect();
                return invalid(format!("--shape={name}=...: the inputs are {}", names.join(", ")));
            }
        }
        let mut known: HashSet<&str> = HashSet::new();
        let mut inputs = Vec::new();
        if options.inputs.is_empty() {
            for input in all {
                inputs.push(self.input(input, options, &mut known)?);
            }
        } else {
            // Tensors within the graph have the types that the model states.
            for name in &options.inputs {
                let stated = graph.value_info.iter().chain(&graph.output);
                let Some(input) = all.iter().copied().chain(stated).find(|input| input.name == *name) else {
                    return unsupported(format!(
                        "--inputs={name}: the graph has no input of this name, and states no type of such a tensor"
                    ));
                };
                inputs.push(self.input(input, options, &mut known)?);
            }
        }
        for (name, _) in &options.dims {
            if !known.contains(&**name) {
                let mut names: Vec<&str> = known.into_iter().collect();
                names.sort_unstable();
                return invalid(format!("--dim={name}=...: the extents of the inputs are {}", names.join(", ")));
            }
        }
        Ok(inputs)
    }

    fn input(&self, input: &'m proto::ValueInfo, options: &Options, known: &mut HashSet<&'m str>) -> Result<Input<'m>> {
        let name = &*input.name;
        let ty = input.ty.as_ref();
        let optional = ty.and_then(|ty| ty.optional.as_ref()?.element.as_ref()?.tensor.as_ref());
        let Some(tensor) = ty.and_then(|ty| ty.tensor.as_ref()).or(optional) else {
            return unsupported(format!("the input `{name}` is no tensor: --inputs= takes others by name"));
        };
        let element = data_type(i64::from(tensor.element))
            .map_err(|error| error.context(format!("the input `{name}` (--inputs= takes others by name)")))?;
        let fixed = options.shapes.iter().find(|(other, _)| other == name).map(|(_, shape)| shape);
        let Some(shape) = &tensor.shape else {
            let Some(fixed) = fixed else {
                return unsupported(format!(
                    "the rank of the input `{name}` is not known: --shape={name}=1x2x3 fixes it"
                ));
            };
            let extents = fixed.iter().copied().map(Extent::Constant).collect();
            return Ok(Input { name, ty: element, extents });
        };
        if let Some(fixed) = fixed.filter(|fixed| fixed.len() != shape.dim.len()) {
            return invalid(format!("--shape={name}=...: {} extents for a rank of {}", fixed.len(), shape.dim.len()));
        }
        let mut extents = Vec::new();
        for (index, dimension) in shape.dim.iter().enumerate() {
            let parameter = dimension.param.as_deref().filter(|name| !ANONYMOUS.contains(name));
            known.extend(parameter);
            let by_name = options.dims.iter().find(|(other, _)| Some(&**other) == parameter).map(|(_, value)| *value);
            let by_shape = fixed.and_then(|fixed| fixed.get(index)).copied();
            let declared = dimension.value.filter(|value| *value >= 0);
            extents.push(match (by_shape.or(by_name), declared, parameter) {
                (Some(value), Some(declared), _) if value != declared => {
                    return invalid(format!("the extent {index} of the input `{name}` is {declared}, not {value}"));
                }
                (Some(value), ..) | (None, Some(value), _) => Extent::Constant(value),
                (None, None, Some(parameter)) => Extent::Named(parameter.to_owned()),
                (None, None, None) => Extent::Named(format!("{name}.{index}")),
            });
        }
        Ok(Input { name, ty: element, extents })
    }

    /// Gives inputs their values and extents; extents of one name must be equal.
    fn bind_inputs(&mut self, inputs: &[Input<'m>], arguments: &[Value]) -> Result<()> {
        let mut named: HashMap<&str, Dim> = HashMap::new();
        let mut tensors = Vec::new();
        for (input, value) in inputs.iter().zip(arguments) {
            let mut shape = Vec::new();
            for (index, extent) in input.extents.iter().enumerate() {
                shape.push(match extent {
                    Extent::Constant(value) => Dim::constant(*value),
                    Extent::Named(name) => {
                        let measured = self.cx.b.dim(*value, index);
                        let symbol = self.cx.symbol(name, measured);
                        match named.get(&**name) {
                            None => {
                                named.insert(name, symbol.clone());
                                symbol
                            }
                            Some(first) => {
                                let first = first.clone();
                                self.cx.require_equal(
                                    &symbol,
                                    &first,
                                    &format!("the extent {index} of the input `{}`", input.name),
                                )?;
                                first
                            }
                        }
                    }
                });
            }
            self.cx.check_shape(input.ty, &shape)?;
            tensors.push((input.name, Tensor { ty: input.ty, shape, data: Data::Value(*value) }));
        }
        for (name, tensor) in tensors {
            self.define(name, Item::Tensor(tensor));
        }
        Ok(())
    }
}

/// Returns the options of each variant: the first shapes of the inputs, the second, and so on. An input that is given fewer has its last one
/// in those that follow.
fn variants(options: &Options) -> Result<Vec<Options>> {
    let mut by_input: Vec<(&str, Vec<&Vec<i64>>)> = Vec::new();
    for (name, shape) in &options.shapes {
        match by_input.iter_mut().find(|(other, _)| other == name) {
            Some((_, shapes)) => shapes.push(shape),
            None => by_input.push((name, vec![shape])),
        }
    }
    let count = by_input.iter().map(|(_, shapes)| shapes.len()).max().unwrap_or(1);
    if count > VARIANTS {
        return unsupported(format!("{count} shapes of an input; {VARIANTS} are possible"));
    }
    let of = |index: usize| {
        let shapes = by_input.iter().filter_map(|(name, shapes)| {
            let shape = shapes.get(index).or(shapes.last())?;
            Some(((*name).to_owned(), Vec::clone(shape)))
        });
        Options { shapes: shapes.collect(), ..options.clone() }
    };
    Ok((0..count).map(of).collect())
}

/// The names of the extents of inputs that are known when the model runs.
fn open_extents<'i>(inputs: &'i [Input<'_>]) -> impl Iterator<Item = &'i str> {
    inputs.iter().flat_map(|input| &input.extents).filter_map(|extent| match extent {
        Extent::Named(name) => Some(&**name),
        Extent::Constant(_) => None,
    })
}

/// Returns the types of inputs.
fn types(inputs: &[Input<'_>]) -> Vec<Type> {
    let ty = |input: &Input<'_>| Type::Tensor {
        extents: input.extents.iter().map(Extent::of_type).collect(),
        element: input.ty.element(),
    };
    inputs.iter().map(ty).collect()
}

/// Finds a tensor of the graph by its name.
fn find_name<'m>(graph: &'m proto::Graph, name: &str) -> Result<&'m str> {
    let nodes = graph.node.iter().flat_map(|node| &node.output).map(String::as_str);
    let inputs = graph.input.iter().map(|input| &*input.name);
    match nodes.chain(inputs).find(|other| *other == name) {
        Some(found) => Ok(found),
        None => invalid(format!("--outputs={name}: the graph has no tensor of this name")),
    }
}

impl Variant<'_> {
    /// Writes the types with the names and signs that the model has.
    fn declaration(&self) -> String {
        let typed = |name: &str, ty: DataType, mlir: &Type| format!("%{}: {}", QuotedName(name), outer_type(ty, mlir));
        let types = types(&self.inputs);
        let arguments: Vec<String> =
            self.inputs.iter().zip(&types).map(|(input, ty)| typed(input.name, input.ty, ty)).collect();
        let results: Vec<String> =
            self.results.iter().map(|result| typed(result.name, result.ty, &result.mlir)).collect();
        let name: String = self.name.chars().filter(|c| !matches!(c, '(' | ')')).collect();
        format!("sync func @{name}({}) -> ({})", arguments.join(", "), results.join(", "))
    }
}

impl Output<'_> {
    /// Returns the type outside of the module, where it differs. A result that is an argument would have the sign of the argument.
    fn encoding(&self) -> Option<String> {
        match self.ty.is_int() {
            true if self.ty.is_unsigned() => Some(outer_type(self.ty, &self.mlir)),
            true if self.is_argument => Some(tensor_type(&format!("s{}", self.ty.element()), &self.mlir)),
            _ => None,
        }
    }
}

/// Writes the type of a tensor with the sign of its elements; those of fewer than 8 bits are bytes.
fn outer_type(ty: DataType, mlir: &Type) -> String {
    let element = match ty {
        DataType::U4 | DataType::U2 | DataType::F4E2M1 | DataType::F8E8M0 => "ui8",
        DataType::I4 | DataType::I2 => "i8",
        _ => ty.name(),
    };
    tensor_type(element, mlir)
}

fn tensor_type(element: &str, mlir: &Type) -> String {
    let extents = mlir.extents().unwrap_or_default();
    let shape: String =
        extents.iter().map(|extent| extent.map_or("?x".to_owned(), |extent| format!("{extent}x"))).collect();
    format!("tensor<{shape}{element}>")
}
