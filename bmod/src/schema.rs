//! The schema of the file, as positions in the vtables of FlatBuffers: `BytecodeModuleDef` of IREE at commit 2bbabc307d.

macro_rules! define_tables {
    ($($(#[$doc:meta])* $table:ident { $($field:ident = $position:literal,)* })*) => {
        $($(#[$doc])* pub(crate) mod $table { $(pub(crate) const $field: u16 = $position;)* })*
    };
}

define_tables! {
    /// The root. `FUNCTIONS` and `DESCRIPTORS` have an element for each function.
    module {
        NAME = 4, TYPES = 6, IMPORTS = 8, EXPORTS = 10, FUNCTIONS = 12, RODATA_SEGMENTS = 14, RWDATA_SEGMENTS = 16, STATE = 18,
        DESCRIPTORS = 20, BYTECODE_DATA = 22,
    }
    /// An entry of the type table: `i32`, or `!` and the name of a type of objects.
    type_entry { FULL_NAME = 4, }
    /// How a function is called: indices into the type table, and keys and values that tools attach.
    signature { ARGUMENT_TYPES = 4, RESULT_TYPES = 6, ATTRIBUTES = 8, }
    attribute { KEY = 4, VALUE = 6, }
    /// A function of another module, by the names of both.
    import { FULL_NAME = 4, SIGNATURE = 6, }
    /// A function that others may call by name; the ordinal is that of a function.
    export { LOCAL_NAME = 4, SIGNATURE = 6, INTERNAL_ORDINAL = 8, }
    /// A function of the module; its name is empty where names were stripped.
    function { LOCAL_NAME = 4, SIGNATURE = 6, }
    /// A constant. `COMPRESSION_TYPE` is the tag of a union, whose table has no fields.
    rodata_segment { COMPRESSION_TYPE = 4, DATA = 8, }
    /// Reserved; the compiler wrote none.
    rwdata_segment { BYTE_SIZE = 4, }
    /// What an instance of the module needs for its globals, all of them zero or null at first.
    state { GLOBAL_BYTES_CAPACITY = 4, GLOBAL_REF_COUNT = 6, }
}

/// The largest tag of the union of compressions: the data is stored as it is.
pub(crate) const UNCOMPRESSED: u8 = 1;
/// Bytes of a function's descriptor: offset and length of its bytecode as i32, numbers of 32-bit and of reference registers as i8,
/// padding. 128 registers are stored as -128. Functions may share bytecode.
pub(crate) const DESCRIPTOR_LENGTH: usize = 12;
