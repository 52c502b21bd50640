//! Loop nests over the elements of tensors.

use crate::affine::Map;
use crate::builder::{Builder, Region, Value, list};
use crate::tensor::Extent;
use crate::types::{Element, Type};

/// How a loop dimension may be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterator {
    /// Iterations in any order, or at once.
    Parallel,
    /// Iterations that combine into one element.
    Reduction,
}

/// Strides and dilations of a kernel with a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The distance of two windows, for each dimension.
    pub strides: Vec<i64>,
    /// The distance of two elements within a window, for each dimension.
    pub dilations: Vec<i64>,
}

macro_rules! kernels {
    ($($name:ident $text:literal $inputs:literal $windowed:literal,)*) => {
        /// An operation of the dialect `linalg` that has a name; the compiler tiles these as contractions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kernel {
            $(#[doc = concat!("`linalg.", $text, "`.")] $name,)*
        }

        impl Kernel {
            /// The name, the number of inputs, and whether there is a window.
            fn row(self) -> (&'static str, usize, bool) {
                match self {
                    $(Kernel::$name => ($text, $inputs, $windowed),)*
                }
            }
        }
    };
}

kernels! {
    Matmul "matmul" 2 false,
    BatchMatmul "batch_matmul" 2 false,
    Matvec "matvec" 2 false,
    Vecmat "vecmat" 2 false,
    Conv1dNcwFcw "conv_1d_ncw_fcw" 2 true,
    Conv2dNchwFchw "conv_2d_nchw_fchw" 2 true,
    Conv2dNgchwGfchw "conv_2d_ngchw_gfchw" 2 true,
    Conv3dNcdhwFcdhw "conv_3d_ncdhw_fcdhw" 2 true,
    DepthwiseConv1dNcwCw "depthwise_conv_1d_ncw_cw" 2 true,
    DepthwiseConv2dNchwChw "depthwise_conv_2d_nchw_chw" 2 true,
}

impl Builder {
    /// `linalg.fill` of a new tensor.
    pub fn fill(&mut self, value: Value, extents: &[Extent]) -> Value {
        let empty = self.empty(extents, self.element_of(value));
        self.fill_into(value, empty)
    }

    /// `linalg.fill` of all elements of a tensor.
    pub fn fill_into(&mut self, value: Value, into: Value) -> Value {
        let (from, ty) = (self.type_of(value).clone(), self.type_of(into).clone());
        if from != Type::Scalar(ty.element()) {
            self.fail(format!("linalg.fill of {ty} with {from}"));
        }
        self.operation(ty.clone(), &format!("linalg.fill ins({value} : {from}) outs({into} : {ty}) -> {ty}"))
    }

    /// A `linalg.generic` that computes each element of one result of the elements at the same position of its inputs, which have the
    /// same shape.
    pub fn elementwise(
        &mut self,
        inputs: &[Value],
        element: Element,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Value {
        let extents = inputs.first().map(|first| self.extents(*first)).unwrap_or_default();
        let empty = self.empty(&extents, element);
        let maps = vec![Map::identity(extents.len()); inputs.len() + 1];
        let iterators = vec![Iterator::Parallel; extents.len()];
        self.generic_single(inputs, empty, &maps, &iterators, body)
    }

    /// `linalg.generic`: `maps` has those of the inputs, then those of the outputs, whose elements before the iteration are the last
    /// arguments of the body. The body returns their next values.
    pub fn generic(
        &mut self,
        inputs: &[Value],
        outputs: &[Value],
        maps: &[Map],
        iterators: &[Iterator],
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        self.generic_with("", (inputs, outputs), maps, iterators, body)
    }

    /// [`Builder::generic`] with parallel loops over the elements of its output alone, which are divided among workgroups of VMVX: each has
    /// `sizes` iterations, or all where that is 0. The compiler's own choice for a nest without inputs is one workgroup.
    pub fn distributed(
        &mut self,
        output: Value,
        sizes: &[i64],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Value {
        let attributes = format!(" attrs = {{{}}}", compilation_info(&distribution(sizes)));
        let rank = self.rank(output);
        let (maps, iterators) = ([Map::identity(rank)], vec![Iterator::Parallel; rank]);
        let body = |b: &mut Builder, x: &[Value]| vec![body(b, x)];
        let results = self.generic_with(&attributes, (&[], &[output]), &maps, &iterators, body);
        results.first().copied().unwrap_or(output)
    }

    /// [`Builder::generic_single`] in a loop of a dispatch for VMVX, whose code generation must not divide it among workgroups. The first one of
    /// a dispatch names the pipeline of the code generation.
    pub fn whole_generic(
        &mut self,
        (inputs, output): (&[Value], Value),
        maps: &[Map],
        iterators: &[Iterator],
        is_first: bool,
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Value {
        let attributes = format!(" attrs = {{{}}}", undivided(iterators.len(), is_first));
        let body = |b: &mut Builder, x: &[Value]| vec![body(b, x)];
        let results = self.generic_with(&attributes, (inputs, &[output]), maps, iterators, body);
        results.first().copied().unwrap_or(output)
    }

    fn generic_with(
        &mut self,
        attributes: &str,
        (inputs, outputs): (&[Value], &[Value]),
        maps: &[Map],
        iterators: &[Iterator],
        body: impl FnOnce(&mut Builder, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let operands: Vec<Value> = inputs.iter().chain(outputs).copied().collect();
        self.check_maps(&operands, maps, iterators.len());
        self.open_region();
        let elements: Vec<Value> =
            operands.iter().map(|value| self.argument(Type::Scalar(self.element_of(*value)))).collect();
        let header: Vec<String> = elements.iter().map(|value| format!("{value}: {}", self.type_of(*value))).collect();
        self.line_before_block(&header);
        let results = body(self, &elements);
        let mut region = self.close_region();
        let types: Vec<Type> = outputs.iter().map(|value| self.type_of(*value).clone()).collect();
        let yielded: Vec<Type> = types.iter().map(|ty| Type::Scalar(ty.element())).collect();
        self.terminate(&mut region, "linalg.yield", &results, &yielded);
        self.print_generic((inputs, outputs), maps, iterators, attributes, &region)
    }

    /// [`Builder::generic`] with one output.
    pub fn generic_single(
        &mut self,
        inputs: &[Value],
        output: Value,
        maps: &[Map],
        iterators: &[Iterator],
        body: impl FnOnce(&mut Builder, &[Value]) -> Value,
    ) -> Value {
        let results = self.generic(inputs, &[output], maps, iterators, |b, x| vec![body(b, x)]);
        results.first().copied().unwrap_or(output)
    }

    fn check_maps(&mut self, operands: &[Value], maps: &[Map], dimensions: usize) {
        let fits = operands.len() == maps.len()
            && operands.iter().zip(maps).all(|(value, map)| {
                map.is_valid() && map.dimensions() == dimensions && map.results().len() == self.rank(*value)
            });
        if !fits {
            self.fail(format!("linalg.generic of {} with maps {}", self.types_of(operands), list(maps)));
        }
    }

    fn print_generic(
        &mut self,
        (inputs, outputs): (&[Value], &[Value]),
        maps: &[Map],
        iterators: &[Iterator],
        attributes: &str,
        region: &Region,
    ) -> Vec<Value> {
        let types: Vec<Type> = outputs.iter().map(|value| self.type_of(*value).clone()).collect();
        let iterators: Vec<&str> = iterators
            .iter()
            .map(|each| match each {
                Iterator::Parallel => "\"parallel\"",
                Iterator::Reduction => "\"reduction\"",
            })
            .collect();
        let ins = if inputs.is_empty() { String::new() } else { format!(" ins({})", self.typed(inputs)) };
        let header = format!(
            "linalg.generic {{indexing_maps = [{}], iterator_types = [{}]}}{ins} outs({}){attributes}",
            list(maps),
            list(&iterators),
            self.typed(outputs)
        );
        self.with_regions(&types, &header, &[(" ", region)], &format!(" -> {}", parenthesised(&types)))
    }

    /// `linalg.index`: the iteration of a loop dimension, in the body of a `linalg.generic`.
    pub fn iteration(&mut self, dimension: usize) -> Value {
        self.operation(Type::Scalar(Element::Index), &format!("linalg.index {dimension} : index"))
    }

    /// `linalg.softmax` along a dimension of a tensor of floats, whose extents are `extents`.
    pub fn softmax(&mut self, x: Value, dimension: usize, extents: &[Extent]) -> Value {
        let ty = self.type_of(x).clone();
        if !ty.element().is_float() || dimension >= self.rank(x) {
            self.fail(format!("linalg.softmax of {ty} along {dimension}"));
        }
        let empty = self.empty(extents, ty.element());
        let text = format!("linalg.softmax dimension({dimension}) ins({x} : {ty}) outs({empty} : {ty}) -> {ty}");
        self.operation(ty, &text)
    }

    /// A named operation, which adds to its output.
    pub fn kernel(&mut self, kernel: Kernel, inputs: &[Value], output: Value, window: Option<&Window>) -> Value {
        let attributes = window.map(|window| {
            let vector = |numbers: &[i64]| format!("dense<[{}]> : tensor<{}xi64>", list(numbers), numbers.len());
            format!(" {{dilations = {}, strides = {}}}", vector(&window.dilations), vector(&window.strides))
        });
        if window.is_some() != kernel.row().2 {
            self.fail(format!("linalg.{} with another window than it has", kernel.row().0));
        }
        self.named(kernel, inputs, output, &attributes.unwrap_or_default())
    }

    /// A kernel without a window within a dispatch for VMVX, whose code generation must not divide the kernel's `loops` loops among workgroups.
    /// The first one of a dispatch names the pipeline of the code generation.
    pub fn whole_kernel(
        &mut self,
        kernel: Kernel,
        operands: ([Value; 2], Value),
        loops: usize,
        is_first: bool,
    ) -> Value {
        let attributes = format!(" {{{}}}", undivided(loops, is_first));
        self.named(kernel, &operands.0, operands.1, &attributes)
    }

    fn named(&mut self, kernel: Kernel, inputs: &[Value], output: Value, attributes: &str) -> Value {
        let (name, count, _) = kernel.row();
        if inputs.len() != count {
            self.fail(format!("linalg.{name} of {}", self.types_of(inputs)));
        }
        let ty = self.type_of(output).clone();
        let text = format!("linalg.{name}{attributes} ins({}) outs({output} : {ty}) -> {ty}", self.typed(inputs));
        self.operation(ty, &text)
    }
}

/// The attribute that divides loops among workgroups: each has `sizes` iterations, or all where that is 0.
fn distribution(sizes: &[i64]) -> String {
    format!("lowering_config = #iree_cpu.lowering_config<distribution = [{}]>", list(sizes))
}

/// The attribute that divides none of so many loops; the first one of a dispatch names the pipeline, too.
fn undivided(loops: usize, is_first: bool) -> String {
    let config = distribution(&vec![0; loops]);
    if is_first { compilation_info(&config) } else { config }
}

/// The attribute that names the pipeline of the code generation for VMVX, with that of the loops.
fn compilation_info(config: &str) -> String {
    format!(
        "compilation_info = #iree_codegen.compilation_info<{config}, \
         translation_info = #iree_codegen.translation_info<pipeline = #iree_codegen.vmvx_pipeline>>"
    )
}

fn parenthesised(types: &[Type]) -> String {
    match types {
        [only] => only.to_string(),
        _ => format!("({})", list(types)),
    }
}
