//! What the import reads of a model's files: metadata and tensors, with the names that GGUF has for them.

use std::collections::HashMap;

use incarnate_bytecode::{Error, Result, ResultExt as _};

use super::names::Names;
use crate::file::ARCHITECTURE_KEY;
use crate::{ElementType, GgufFile, Value, shown};

/// A language model's metadata and tensors, of a GGUF file or of a folder in the layout of Hugging Face.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    metadata: HashMap<String, Stated>,
    tensors: Vec<Stored>,
    /// The first tensor of each name.
    positions: HashMap<String, usize>,
    /// Vectors that the metadata states.
    vectors: HashMap<String, Vec<f32>>,
    /// The orders of experts that are stored one by one, of the layers.
    expert_orders: HashMap<String, ExpertOrder>,
    left_out: Option<&'static str>,
    pub(super) conventions: Conventions,
}

/// A value of metadata.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stated {
    One(Value),
    Many(Vec<Value>),
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// The name that GGUF has for it.
    pub(super) name: String,
    /// The name in the file, which is the key of the parameter.
    pub(super) key: String,
    pub(super) element_type: ElementType,
    /// Extents, rows last.
    pub(super) shape: Vec<u64>,
}

/// The order in which a file has the tensors of a layer's experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExpertOrder {
    /// The positions of the gate, of `up` and of `down` among the tensors of an expert, which are one behind the other; `None` where all gates
    /// are, all `up` and all `down`.
    pub(super) parts: Option<[u32; 3]>,
    /// The position of each expert.
    pub(super) experts: Vec<u32>,
}

/// How a file stores what others store otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Conventions {
    /// The names of its tensors.
    pub(super) names: Names,
    /// Whether pairs that rotary embeddings rotate are an element of the first half of a head with one of the second, whatever the
    /// architecture: rows of queries and keys are not permuted.
    pub(super) has_halves: bool,
    /// What is added to the weights of norms.
    pub(super) norm_offset: f64,
}

impl Checkpoint {
    /// Most elements of an array: numbers of layers or of pairs.
    const MAXIMUM_ELEMENTS: u64 = 1 << 16;

    pub(super) fn new(conventions: Conventions) -> Checkpoint {
        Checkpoint {
            metadata: HashMap::new(),
            tensors: Vec::new(),
            positions: HashMap::new(),
            vectors: HashMap::new(),
            expert_orders: HashMap::new(),
            left_out: None,
            conventions,
        }
    }

    /// Takes the metadata of the architecture and the tensors of a GGUF file.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for arrays that are longer than those of an architecture; errors of reading them.
    pub fn from_gguf(file: &GgufFile) -> Result<Checkpoint> {
        let mut checkpoint = Checkpoint::new(Conventions::default());
        let prefix = file.text(ARCHITECTURE_KEY).map(|name| format!("{name}."));
        let is_of_model =
            |key: &str| key == ARCHITECTURE_KEY || prefix.as_ref().is_some_and(|prefix| key.starts_with(prefix));
        for key in file.keys().filter(|key| is_of_model(key)) {
            let stated = match file.value(key) {
                Some(Value::Array(array)) if array.count() > Checkpoint::MAXIMUM_ELEMENTS => {
                    return Err(Error::resource_exhausted(format!(
                        "'{}' has {} elements, which exceed the limit of {}",
                        shown(key),
                        array.count(),
                        Checkpoint::MAXIMUM_ELEMENTS
                    )))
                    .context(|| "metadata");
                }
                Some(Value::Array(_)) => Stated::Many(file.elements(key)?),
                Some(value) => Stated::One(value.clone()),
                None => continue,
            };
            checkpoint.state(key, stated);
        }
        for tensor in file.tensors() {
            let (element_type, shape) = (tensor.element_type, tensor.shape.clone());
            checkpoint.add(Stored { name: tensor.name.clone(), key: tensor.name.clone(), element_type, shape });
        }
        Ok(checkpoint)
    }

    /// Returns what the language model of a model of several modalities is without, such as `images`; `None` for one of texts alone.
    #[must_use]
    pub fn left_out(&self) -> Option<&str> {
        self.left_out
    }

    pub(super) fn set_left_out(&mut self, without: &'static str) {
        self.left_out = Some(without);
    }

    /// Sets a value of the metadata.
    pub(super) fn state(&mut self, key: &str, stated: Stated) {
        self.metadata.insert(key.to_owned(), stated);
    }

    /// Adds a tensor; of several with a name the first counts.
    pub(super) fn add(&mut self, tensor: Stored) {
        self.positions.entry(tensor.name.clone()).or_insert(self.tensors.len());
        self.tensors.push(tensor);
    }

    /// Sets a vector that the metadata states.
    pub(super) fn set_vector(&mut self, name: &str, elements: Vec<f32>) {
        self.vectors.insert(name.to_owned(), elements);
    }

    /// Sets the order of the experts of a layer.
    pub(super) fn set_expert_order(&mut self, layer: String, order: ExpertOrder) {
        self.expert_orders.insert(layer, order);
    }

    pub(super) fn expert_order(&self, layer: &str) -> Option<&ExpertOrder> {
        self.expert_orders.get(layer)
    }

    pub(super) fn tensors(&self) -> &[Stored] {
        &self.tensors
    }

    pub(super) fn tensor(&self, name: &str) -> Option<&Stored> {
        self.positions.get(name).and_then(|position| self.tensors.get(*position))
    }

    pub(super) fn vector(&self, name: &str) -> Option<&[f32]> {
        self.vectors.get(name).map(Vec::as_slice)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    pub(super) fn value(&self, key: &str) -> Option<&Stated> {
        self.metadata.get(key)
    }

    fn one(&self, key: &str) -> Option<&Value> {
        match self.value(key) {
            Some(Stated::One(value)) => Some(value),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.one(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns a number that is neither negative nor a float.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        match self.one(key) {
            Some(Value::Integer(integer)) => u64::try_from(*integer).ok(),
            _ => None,
        }
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        match self.one(key) {
            Some(Value::Integer(integer)) => Some(*integer as f64),
            Some(Value::Float(float)) => Some(*float),
            _ => None,
        }
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        match self.one(key) {
            Some(Value::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }
}
