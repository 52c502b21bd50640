//! A bound on the memory that a file takes when it is decoded: two bytes of a hostile file become a message of some hundred bytes.

use incarnate_bytecode::{Error, Result};

use crate::proto;

/// The most bytes of decoded messages beside weights. Models with 50,000 nodes take some 50 MB.
const MEMORY: usize = 1 << 29;

/// A message that contains others.
#[derive(Clone, Copy)]
enum Kind {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
    Value,
}

impl Kind {
    /// Returns the kind of the messages in a field; `None` for text, bytes and small messages.
    fn of_field(self, number: u64) -> Option<Kind> {
        match (self, number) {
            (Kind::Model, 7) | (Kind::Attribute, 6 | 11) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Graph, 1) | (Kind::Function, 7) => Some(Kind::Node),
            (Kind::Graph, 5) | (Kind::Attribute, 5 | 10) => Some(Kind::Tensor),
            (Kind::Graph, 11..=13) => Some(Kind::Value),
            (Kind::Node, 5) | (Kind::Function, 11) => Some(Kind::Attribute),
            _ => None,
        }
    }

    /// Returns the size of the decoded message.
    fn size(self) -> usize {
        match self {
            Kind::Model => size_of::<proto::Model>(),
            Kind::Graph => size_of::<proto::Graph>(),
            Kind::Function => size_of::<proto::Function>(),
            Kind::Node => size_of::<proto::Node>(),
            Kind::Attribute => size_of::<proto::Attribute>(),
            Kind::Tensor => size_of::<proto::Tensor>(),
            Kind::Value => size_of::<proto::ValueInfo>(),
        }
    }
}

/// The size that a field of text, bytes or a small message is counted with, whose own bytes come on top.
const OTHER: usize = 64;

/// Checks a file before it is decoded. What is malformed is an error of the decoding.
///
/// # Errors
/// RESOURCE_EXHAUSTED if the decoded messages would take too much memory.
pub(crate) fn check(bytes: &[u8]) -> Result<()> {
    let mut memory = 0_usize;
    let mut open = vec![(bytes, Kind::Model)];
    while let Some((mut message, kind)) = open.pop() {
        while let Some((number, value)) = next_field(&mut message) {
            let Some(value) = value else { continue };
            let inner = kind.of_field(number);
            memory = memory.saturating_add(inner.map_or(OTHER, Kind::size));
            open.extend(inner.map(|inner| (value, inner)));
        }
        if memory > MEMORY {
            return Err(Error::resource_exhausted(format!(
                "the model has more nodes, attributes and names than {} MiB of memory hold",
                MEMORY >> 20
            )));
        }
    }
    Ok(())
}

/// Reads a field of a protocol buffer: its number, and its bytes if it has a length. `None` at the end, or where it is malformed.
fn next_field<'b>(bytes: &mut &'b [u8]) -> Option<(u64, Option<&'b [u8]>)> {
    let tag = varint(bytes)?;
    let length = match tag & 7 {
        0 => {
            varint(bytes)?;
            return Some((tag >> 3, None));
        }
        1 => 8,
        2 => usize::try_from(varint(bytes)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some((tag >> 3, (tag & 7 == 2).then_some(value)))
}

/// Reads an integer of seven bits a byte.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// A field with a length.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2];
        let mut length = value.len();
        while length >= 128 {
            bytes.push(length as u8 | 128);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(value);
        bytes
    }

    #[test]
    fn many_empty_messages_are_refused() {
        let nodes = field(1, &[]).repeat(1 << 10);
        check(&field(7, &nodes)).unwrap();
        let nodes = field(1, &[]).repeat(1 << 22);
        assert!(check(&field(7, &nodes)).unwrap_err().to_string().contains("512 MiB"));
        // Attributes without names in one node.
        let node = field(1, &field(5, &[]).repeat(1 << 21));
        assert!(check(&field(7, &node)).is_err());
    }

    #[test]
    fn damaged_files_end_the_walk() {
        let file = field(7, &field(1, &field(5, &[])));
        for length in 0..file.len() {
            check(&file[..length]).unwrap();
        }
    }
}
