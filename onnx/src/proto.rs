//! The messages of `onnx.proto`, as far as the importer reads them: field numbers are those of ONNX 1.20.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<Function>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSet {
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

/// Returns a domain, which is empty for ONNX's own.
pub(crate) fn plain_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Returns the version of the operator set of a plain domain; 1 if none is imported.
pub(crate) fn version_of(sets: &[OperatorSet], domain: &str) -> i64 {
    sets.iter().find(|set| plain_domain(&set.domain) == domain).map_or(1, |set| set.version)
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<SparseTensor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Function {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSet>,
    #[prost(string, tag = "10")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<Attribute>,
    #[prost(string, tag = "13")]
    pub(crate) overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(string, tag = "8")]
    pub(crate) overload: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, tag = "2")]
    pub(crate) f: f32,
    #[prost(int64, tag = "3")]
    pub(crate) i: i64,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) s: Bytes,
    #[prost(message, optional, tag = "5")]
    pub(crate) t: Option<Tensor>,
    #[prost(message, optional, tag = "6")]
    pub(crate) g: Option<Graph>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    #[prost(message, repeated, tag = "10")]
    pub(crate) tensors: Vec<Tensor>,
    #[prost(message, optional, tag = "14")]
    pub(crate) tp: Option<Type>,
    #[prost(int32, tag = "20")]
    pub(crate) kind: i32,
    #[prost(string, tag = "21")]
    pub(crate) ref_attr_name: String,
    #[prost(message, optional, tag = "22")]
    pub(crate) sparse_tensor: Option<SparseTensor>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) ty: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Type {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor: Option<TensorType>,
    #[prost(message, optional, boxed, tag = "4")]
    pub(crate) sequence: Option<Box<ElementType>>,
    #[prost(message, optional, tag = "8")]
    pub(crate) sparse: Option<TensorType>,
    #[prost(message, optional, boxed, tag = "9")]
    pub(crate) optional: Option<Box<ElementType>>,
}

/// The type of the elements of a sequence or an optional.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ElementType {
    #[prost(message, optional, boxed, tag = "1")]
    pub(crate) element: Option<Box<Type>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    #[prost(int32, tag = "1")]
    pub(crate) element: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<Shape>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Shape {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    #[prost(int64, optional, tag = "1")]
    pub(crate) value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) param: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tensor {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) string_data: Vec<Bytes>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", tag = "9")]
    pub(crate) raw_data: Bytes,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<Entry>,
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    pub(crate) values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    pub(crate) indices: Option<Tensor>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}
