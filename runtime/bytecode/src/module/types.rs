//! What the tables of a module hold, as its readers see it.

use alloc::boxed::Box;
use alloc::format;

use bitflags::bitflags;

use super::super::calling_convention::CallingConvention;
use crate::{Error, Result};

/// Bit of a dependency's or an import's flags: the module loads without it.
pub(super) const FLAG_OPTIONAL: u32 = 2;

bitflags! {
    /// The features that a module or a function needs of its host.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Requirements: u32 {
        /// Instructions of [`OpcodeSet::ExtF32`](crate::isa::OpcodeSet::ExtF32).
        const EXT_F32 = 1;
        /// Instructions of [`OpcodeSet::ExtF64`](crate::isa::OpcodeSet::ExtF64).
        const EXT_F64 = 1 << 1;
        /// The function, or one that it calls, may suspend.
        const YIELD = 1 << 2;
        /// References must be released when a call ends with an error.
        const UNWIND = 1 << 3;
    }
}

/// A type of the type table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeDef {
    text: TypeText,
}

/// A type's text; one that is well known is always the static one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TypeText {
    WellKnown(&'static (&'static str, TypeKind<'static>)),
    Other(Box<str>),
}

/// The types that nearly all modules consist of, which need no parsing and no memory.
static WELL_KNOWN: [(&str, TypeKind<'static>); 21] = [
    ("i8", TypeKind::I8),
    ("i16", TypeKind::I16),
    ("i32", TypeKind::I32),
    ("i64", TypeKind::I64),
    ("f32", TypeKind::F32),
    ("f64", TypeKind::F64),
    ("!vm.opaque", TypeKind::Opaque),
    ("!vm.ref<?>", TypeKind::AnyRef),
    ("!vm.buffer", TypeKind::Ref("vm.buffer")),
    ("!vm.list<?>", TypeKind::List("?")),
    ("!hal.allocator", TypeKind::Ref("hal.allocator")),
    ("!hal.buffer", TypeKind::Ref("hal.buffer")),
    ("!hal.buffer_view", TypeKind::Ref("hal.buffer_view")),
    ("!hal.channel", TypeKind::Ref("hal.channel")),
    ("!hal.command_buffer", TypeKind::Ref("hal.command_buffer")),
    ("!hal.device", TypeKind::Ref("hal.device")),
    ("!hal.event", TypeKind::Ref("hal.event")),
    ("!hal.executable", TypeKind::Ref("hal.executable")),
    ("!hal.fence", TypeKind::Ref("hal.fence")),
    ("!hal.file", TypeKind::Ref("hal.file")),
    ("!hal.semaphore", TypeKind::Ref("hal.semaphore")),
];

/// The most bytes of a type's text. The longest one of a compiler has about 30.
const TYPE_LENGTH_LIMIT: usize = 1024;

/// Buckets of the table of well-known types; chosen with [`bucket`] such that each holds one type at most.
const BUCKETS: usize = 64;

/// The bucket of a text.
const fn bucket(text: &[u8]) -> usize {
    match text {
        [] => 0,
        [last] => *last as usize % BUCKETS,
        [first, .., last] => {
            let middle = text[text.len() / 2] as usize;
            (text.len() * 2 + *first as usize * 7 + middle * 11 + *last as usize) % BUCKETS
        }
    }
}

/// Index into [`WELL_KNOWN`] by bucket; one that is out of range where there is none.
static BY_BUCKET: [u8; BUCKETS] = {
    let mut table = [u8::MAX; BUCKETS];
    let mut index = 0;
    while index < WELL_KNOWN.len() {
        let bucket = bucket(WELL_KNOWN[index].0.as_bytes());
        assert!(table[bucket] == u8::MAX, "two well-known types share a bucket");
        table[bucket] = index as u8;
        index += 1;
    }
    table
};

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeKind<'a> {
    /// `i8`; only as a list's element type.
    I8,
    /// `i16`; only as a list's element type.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// `!vm.opaque`: nothing is known; the type of the elements of a list that holds anything.
    Opaque,
    /// `?`: a value of any type; only as a list's element type.
    Any,
    /// `!vm.ref<?>`: a reference to anything.
    AnyRef,
    /// A reference to an object of the named type, without the leading `!`: `vm.buffer`, `hal.device`.
    Ref(&'a str),
    /// `!vm.list<T>`, with the text of `T`. [`TypeKind::parse`] reads it.
    List(&'a str),
}

impl<'a> TypeKind<'a> {
    /// Reads the text of a type; `None` if it is none.
    ///
    /// Names consist of letters, digits, `_`, `$`, `.`, `?`, `!`, `<` and `>`, so that they stand in assembly text as they are.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<TypeKind<'a>> {
        let valid =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'?' | b'!' | b'<' | b'>');
        if text.len() > TYPE_LENGTH_LIMIT || !text.bytes().all(valid) {
            return None;
        }
        let (mut text, mut is_object) = (text, false);
        let kind = loop {
            break match text {
                "i8" => TypeKind::I8,
                "i16" => TypeKind::I16,
                "i32" => TypeKind::I32,
                "i64" => TypeKind::I64,
                "f32" => TypeKind::F32,
                "f64" => TypeKind::F64,
                "?" => TypeKind::Any,
                "!vm.opaque" => TypeKind::Opaque,
                "!vm.ref<?>" => TypeKind::AnyRef,
                "!vm.list" => TypeKind::List("?"),
                _ => {
                    let name = text.strip_prefix('!')?;
                    if let Some(element) = inside(name, "vm.list<") {
                        TypeKind::List(element)
                    } else if let Some(object) = inside(name, "vm.ref<") {
                        (text, is_object) = (object, true);
                        continue;
                    } else if name.is_empty() {
                        return None;
                    } else {
                        TypeKind::Ref(name)
                    }
                }
            };
        };
        (!is_object || matches!(kind, TypeKind::Ref(_) | TypeKind::List(_))).then_some(kind)
    }

    /// Whether values of the type are references.
    #[must_use]
    pub const fn is_ref(self) -> bool {
        matches!(self, TypeKind::AnyRef | TypeKind::Ref(_) | TypeKind::List(_))
    }
}

/// The text between an opening that ends with `<` and the `>` at the end.
fn inside<'a>(text: &'a str, opening: &str) -> Option<&'a str> {
    text.strip_prefix(opening)?.strip_suffix('>')
}

impl TypeDef {
    /// The type of a text. Fails with `INVALID_ARGUMENT` if it is none.
    pub fn new(text: &str) -> Result<TypeDef> {
        if let Some(definition) = TypeDef::well_known(text.as_bytes()) {
            return Ok(definition);
        }
        match TypeKind::parse(text) {
            _ if text.len() > TYPE_LENGTH_LIMIT => Err(Error::resource_exhausted(format!(
                "a type of {} bytes; the limit is {TYPE_LENGTH_LIMIT}",
                text.len()
            ))),
            Some(TypeKind::Any) | None => Err(Error::invalid_argument(format!("`{}` is no type", text.escape_debug()))),
            Some(_) => Ok(TypeDef { text: TypeText::Other(text.into()) }),
        }
    }

    /// The type of a text, if it is a well-known one.
    #[inline]
    pub(super) fn well_known(text: &[u8]) -> Option<TypeDef> {
        let known = WELL_KNOWN.get(usize::from(BY_BUCKET[bucket(text)]))?;
        (known.0.as_bytes() == text).then_some(TypeDef { text: TypeText::WellKnown(known) })
    }

    /// The type's full text, with the leading `!` where it has one.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.text {
            TypeText::WellKnown((text, _)) => text,
            TypeText::Other(text) => text,
        }
    }

    /// What the type is.
    #[must_use]
    pub fn kind(&self) -> TypeKind<'_> {
        match &self.text {
            TypeText::WellKnown((_, kind)) => *kind,
            TypeText::Other(text) => TypeKind::parse(text).unwrap_or(TypeKind::Opaque),
        }
    }

    /// What the type is, if that is known for as long as the program runs.
    #[must_use]
    pub fn static_kind(&self) -> Option<TypeKind<'static>> {
        match self.text {
            TypeText::WellKnown((_, kind)) => Some(*kind),
            TypeText::Other(_) => None,
        }
    }
}

/// A module that this one imports from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// The module's name.
    pub name: &'a str,
    /// Oldest version that will do.
    pub minimum_version: u32,
    /// Whether this module loads without it.
    pub optional: bool,
}

/// A function that the module imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Import<'a> {
    /// Module and function, `hal.buffer_view.create`.
    pub full_name: &'a str,
    /// How it is called.
    pub calling_convention: CallingConvention<'a>,
    /// The text of the calling convention, as the file has it.
    pub calling_convention_text: &'a str,
    /// Whether this module loads without it. Calling it then fails, and `import.resolved` tells.
    pub optional: bool,
}

/// A function that others may call by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export<'a> {
    /// The name, without the module's.
    pub local_name: &'a str,
    /// Ordinal of the function.
    pub function: u32,
}

/// A function of the module.
#[derive(Clone, Copy, Debug)]
pub struct FunctionView<'a> {
    /// Ordinal of the function.
    pub ordinal: u32,
    /// Number of 32-bit registers of a frame; enough for the arguments, even if the file says less.
    pub i32_register_count: u16,
    /// Number of reference registers of a frame; enough for the arguments, too.
    pub ref_register_count: u16,
    /// Number of blocks.
    pub block_count: u16,
    /// What the function needs.
    pub requirements: Requirements,
    /// The text of the calling convention, as the file has it; absent means neither arguments nor results.
    pub calling_convention: Option<&'a str>,
    /// How the function is called.
    pub convention: CallingConvention<'a>,
    /// Its instructions, without padding.
    pub bytecode: &'a [u8],
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn types_are_told_apart() {
        for (text, kind) in [
            ("i32", TypeKind::I32),
            ("f64", TypeKind::F64),
            ("!vm.opaque", TypeKind::Opaque),
            ("!vm.ref<?>", TypeKind::AnyRef),
            ("!vm.buffer", TypeKind::Ref("vm.buffer")),
            ("!vm.ref<!hal.fence>", TypeKind::Ref("hal.fence")),
            ("!vm.list<!vm.ref<?>>", TypeKind::List("!vm.ref<?>")),
            ("!vm.list<i32>", TypeKind::List("i32")),
        ] {
            assert_eq!(TypeDef::new(text).unwrap().kind(), kind);
            assert_eq!(kind.is_ref(), text.starts_with('!') && kind != TypeKind::Opaque);
        }
        for &(text, kind) in &WELL_KNOWN {
            let def = TypeDef::new(text).unwrap();
            assert_eq!((def.text(), def.static_kind()), (text, TypeKind::parse(text)));
            assert_eq!(def.kind(), kind);
        }
        assert_eq!(TypeDef::new("!hal.fences").unwrap().static_kind(), None);
        let nested = |count: usize| format!("{}hal.fence{}", "!vm.ref<".repeat(count) + "!", ">".repeat(count));
        assert_eq!(TypeDef::new(&nested(100)).unwrap().kind(), TypeKind::Ref("hal.fence"));
        assert!(TypeDef::new(&nested(100_000)).unwrap_err().message().contains("limit is 1024"));
        for text in ["", "!", "i33", "?", "vm.buffer", "!vm.ref<i32>", "!vm.ref<!vm.ref<?>>", "!vm.ref<!>"] {
            assert!(TypeDef::new(text).is_err(), "{text}");
        }
    }
}
