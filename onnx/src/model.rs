//! Models as files.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use bytes::Bytes;
use incarnate_bytecode::{Error, Result, ResultExt as _};
use prost::Message as _;

use crate::data_type::DataType;
use crate::dim::Dim;
use crate::node::{data_type, invalid, unsupported};
use crate::proto;
use crate::tensor::{Constant, Data, Source, Tensor};

/// An ONNX model.
#[derive(Debug)]
pub struct Model {
    pub(crate) proto: proto::Model,
    /// The folder of files with weights.
    folder: PathBuf,
}

impl Model {
    /// Reads a model; files beside it, which have its weights, are read where they are needed.
    ///
    /// # Errors
    /// Errors of reading the file; INVALID_ARGUMENT if it is no ONNX model.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        let bytes = fs::read(path).context(|| format!("reading '{}'", path.display()))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Model::decode(Bytes::from(bytes), folder)
    }

    /// Reads a model from memory. Names of files with weights are relative to `folder`.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the bytes are no ONNX model, RESOURCE_EXHAUSTED if it has too many parts.
    pub fn decode(bytes: impl Into<Bytes>, folder: impl Into<PathBuf>) -> Result<Model> {
        let bytes = bytes.into();
        crate::limits::check(&bytes)?;
        let proto = proto::Model::decode(bytes)
            .map_err(|error| Error::invalid_argument(format!("this is no ONNX model: {error}")))?;
        if proto.graph.is_none() {
            return invalid("this is no ONNX model: there is no graph");
        }
        Ok(Model { proto, folder: folder.into() })
    }

    /// Returns the files beside the model that have its weights, each once.
    #[must_use]
    pub fn weight_files(&self) -> Vec<PathBuf> {
        let mut tensors = Vec::new();
        let graphs = self.proto.graph.iter();
        graphs.for_each(|graph| tensors_of(graph, &mut tensors));
        for function in &self.proto.functions {
            tensors_of_nodes(&function.node, &mut tensors);
        }
        let locations = tensors.into_iter().flat_map(|tensor| &tensor.external_data);
        let locations = locations.filter(|entry| entry.key == "location").map(|entry| &*entry.value);
        let mut files: Vec<PathBuf> =
            locations.filter_map(|name| Some(self.folder.join(checked_location(name).ok()?))).collect();
        files.sort();
        files.dedup();
        files
    }

    pub(crate) fn graph(&self) -> Result<&proto::Graph> {
        self.proto.graph.as_ref().ok_or_else(|| Error::invalid_argument("there is no graph"))
    }

    /// Returns a tensor of the file.
    pub(crate) fn tensor(&self, proto: &proto::Tensor, name: &str) -> Result<Tensor> {
        self.tensor_of(proto, name).context(|| format!("the tensor `{name}`"))
    }

    fn tensor_of(&self, proto: &proto::Tensor, name: &str) -> Result<Tensor> {
        /// `TensorProto.EXTERNAL`.
        const EXTERNAL: i32 = 1;
        if proto.data_location == EXTERNAL {
            tensor_of(proto, name, Some(self.external(proto)?))
        } else {
            tensor_of(proto, name, None)
        }
    }
    /// Finds the range of a file that an entry names.
    fn external(&self, proto: &proto::Tensor) -> Result<Source> {
        let entry = |key: &str| proto.external_data.iter().find(|entry| entry.key == key).map(|entry| &*entry.value);
        let number = |key: &str| match entry(key).map(str::parse::<u64>) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) => invalid(format!("the {key} of its external data is no number")),
        };
        let Some(location) = entry("location") else { return invalid("its external data has no location") };
        let path = self.folder.join(checked_location(location)?);
        let size = fs::metadata(&path).context(|| format!("reading '{}'", path.display()))?.len();
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or_else(|| size.saturating_sub(offset));
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return invalid(format!("'{}' has {size} bytes, and {length} are wanted from {offset} on", path.display()));
        }
        Ok(Source::File { path, offset, length })
    }
}

/// Returns a tensor that is part of an attribute: weights are initializers, so that none is in a file of its own.
pub(crate) fn embedded(proto: &proto::Tensor, name: &str) -> Result<Tensor> {
    tensor_of(proto, name, None)
}

fn tensor_of(proto: &proto::Tensor, name: &str, external: Option<Source>) -> Result<Tensor> {
    let ty = data_type(i64::from(proto.data_type))?;
    let count = proto.dims.iter().try_fold(1_u64, |count, dim| count.checked_mul(u64::try_from(*dim).ok()?));
    let Some(count) = count.filter(|count| ty.stored_bytes(*count) < u64::MAX / 2) else {
        return invalid(format!("the shape {:?} is not possible", proto.dims));
    };
    let source = external.unwrap_or_else(|| Source::Bytes(inline(proto, ty)));
    if source.length() != ty.stored_bytes(count) {
        let (length, expected) = (source.length(), ty.stored_bytes(count));
        return invalid(format!("there are {length} bytes for {expected} of the shape {:?}", proto.dims));
    }
    let shape = proto.dims.iter().copied().map(Dim::constant).collect();
    let constant = Constant { name: name.to_owned(), source };
    Ok(Tensor { ty, shape, data: Data::Constant(Rc::new(constant)) })
}

/// Collects the initializers of a graph and of those within it.
pub(crate) fn tensors_of<'m>(graph: &'m proto::Graph, tensors: &mut Vec<&'m proto::Tensor>) {
    tensors.extend(&graph.initializer);
    let sparse = graph.sparse_initializer.iter().flat_map(|sparse| sparse.values.iter().chain(&sparse.indices));
    tensors.extend(sparse);
    tensors_of_nodes(&graph.node, tensors);
}

pub(crate) fn tensors_of_nodes<'m>(nodes: &'m [proto::Node], tensors: &mut Vec<&'m proto::Tensor>) {
    for attribute in nodes.iter().flat_map(|node| &node.attribute) {
        tensors.extend(attribute.t.iter().chain(&attribute.tensors));
        if let Some(graph) = &attribute.g {
            tensors_of(graph, tensors);
        }
    }
}

/// Refuses names of files that are not below the model's folder.
fn checked_location(location: &str) -> Result<&Path> {
    let path = Path::new(location);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_inside || location.is_empty() || location.contains(['\\', ':', '\0']) {
        return Err(Error::permission_denied(format!(
            "the file '{location}' is not in the folder of the model: only files below it are read"
        )));
    }
    Ok(path)
}

/// Returns the bytes that a tensor has in the model's file.
fn inline(proto: &proto::Tensor, ty: DataType) -> Bytes {
    if !proto.raw_data.is_empty() {
        return proto.raw_data.clone();
    }
    let width = usize::try_from(ty.stored_bytes(1)).unwrap_or(8);
    let bytes: Vec<u8> = match ty {
        DataType::F32 => proto.float_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::F64 => proto.double_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::I64 => proto.int64_data.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DataType::U32 | DataType::U64 => {
            proto.uint64_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect()
        }
        // Each of these has the bits of an element, or two elements of 4 bits.
        _ => proto.int32_data.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect(),
    };
    Bytes::from(bytes)
}

/// Returns an error if a model needs what its `ir_version` does not have; newer ones than known are read as those known.
pub(crate) fn check_sparse(graph: &proto::Graph) -> Result<()> {
    match graph.sparse_initializer.first() {
        Some(_) => unsupported("sparse initializers are not supported"),
        None => Ok(()),
    }
}
