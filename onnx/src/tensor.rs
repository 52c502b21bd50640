//! Values of the graph while it is imported.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use incarnate_bytecode::{Error, Result, ResultExt as _};
use incarnate_mlir::{Type, Value};

use crate::data_type::DataType;
use crate::dim::Dim;

/// What an input or an output of a node is.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Tensor(Tensor),
    /// A sequence, whose length is known when the model is imported.
    Sequence(Rc<Vec<Item>>, SequenceType),
    /// An optional without a value.
    Nothing,
    /// The output of a node that could not be imported.
    Unknown,
}

/// The type of the elements of a sequence, which an empty one has, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceType(pub(crate) Option<DataType>);

/// A tensor of the graph.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) ty: DataType,
    pub(crate) shape: Vec<Dim>,
    pub(crate) data: Data,
}

/// Where the elements of a tensor are.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    /// Computed when the module runs.
    Value(Value),
    /// In the file.
    Constant(Rc<Constant>),
    /// Known one by one, as constants or as expressions of extents.
    Elements(Rc<Vec<Scalar>>),
}

/// An element that is known when the model is imported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// Of an integer or a Boolean.
    Int(Dim),
    /// Of a float.
    Float(f64),
}

impl Scalar {
    pub(crate) fn as_int(&self) -> Option<&Dim> {
        match self {
            Scalar::Int(dim) => Some(dim),
            Scalar::Float(_) => None,
        }
    }
}

/// Elements in a file, by rows, little-endian.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    /// The name in the model; constants of nodes have that of the output.
    pub(crate) name: String,
    pub(crate) source: Source,
}

/// The bytes of a constant.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Bytes(Bytes),
    /// A range of a file beside the model.
    File {
        path: PathBuf,
        offset: u64,
        length: u64,
    },
}

impl Source {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::File { length, .. } => *length,
        }
    }

    /// Returns a reader of the bytes, of which `length` are there.
    pub(crate) fn reader(&self) -> Result<Box<dyn Read + '_>> {
        match self {
            Source::Bytes(bytes) => Ok(Box::new(&**bytes)),
            Source::File { path, offset, length } => {
                let open = || -> std::io::Result<Box<dyn Read>> {
                    let mut file = File::open(path)?;
                    file.seek(SeekFrom::Start(*offset))?;
                    Ok(Box::new(file.take(*length)))
                };
                open().context(|| format!("reading '{}'", path.display()))
            }
        }
    }
}

impl Constant {
    /// Reads the bytes.
    pub(crate) fn bytes(&self) -> Result<Bytes> {
        match &self.source {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::File { path, length, .. } => {
                let mut bytes = Vec::new();
                self.source.reader()?.read_to_end(&mut bytes).context(|| format!("reading '{}'", path.display()))?;
                if bytes.len() as u64 != *length {
                    return Err(Error::out_of_range(format!("'{}' has changed", path.display())));
                }
                Ok(Bytes::from(bytes))
            }
        }
    }
}

impl Tensor {
    pub(crate) fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the extents if all are known.
    pub(crate) fn static_shape(&self) -> Option<Vec<i64>> {
        self.shape.iter().map(Dim::as_constant).collect()
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> Dim {
        Dim::product(&self.shape)
    }

    /// Returns the type in MLIR.
    pub(crate) fn mlir_type(&self) -> Type {
        type_of(self.ty, &self.shape)
    }

    /// A tensor of known elements.
    pub(crate) fn of_elements(ty: DataType, shape: Vec<Dim>, elements: Vec<Scalar>) -> Tensor {
        Tensor { ty, shape, data: Data::Elements(Rc::new(elements)) }
    }

    /// A tensor of one dimension of `i64`, as shapes are.
    pub(crate) fn of_integers(dims: &[Dim]) -> Tensor {
        let elements = dims.iter().cloned().map(Scalar::Int).collect();
        let length = i64::try_from(dims.len()).unwrap_or(i64::MAX);
        Tensor::of_elements(DataType::I64, vec![Dim::constant(length)], elements)
    }
}

/// Returns the type of a tensor in MLIR.
pub(crate) fn type_of(ty: DataType, shape: &[Dim]) -> Type {
    let extents = shape.iter().map(|dim| dim.as_constant().and_then(|value| u64::try_from(value).ok()));
    Type::Tensor { extents: extents.collect(), element: ty.element() }
}
