//! Names of the HAL ABI's flags and types, as the `i32` values that compilers pass in calls.

/// Invokes a macro with the constants, by module: the type of the HAL that has constants of the same names, and its method that
/// returns the value.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_abi_constant {
    ($callback:ident) => {
        $callback! {
            /// Memory types (`iree_hal_memory_type_t`).
            memory_type: MemoryType, bits {
                DEVICE_LOCAL = 0x30,
                HOST_LOCAL = 0x46,
                DEVICE_VISIBLE = 0x10,
                HOST_CACHED = 0x8,
                HOST_COHERENT = 0x4,
                HOST_VISIBLE = 0x2,
                OPTIMAL = 0x1,
            }
            /// Buffer usages (`iree_hal_buffer_usage_t`).
            buffer_usage: BufferUsage, bits {
                TRANSFER = 0x3,
                DISPATCH_STORAGE = 0xC00,
                TRANSFER_SOURCE = 0x1,
                TRANSFER_TARGET = 0x2,
                DISPATCH_INDIRECT_PARAMETERS = 0x100,
                DISPATCH_UNIFORM_READ = 0x200,
                DISPATCH_STORAGE_READ = 0x400,
                DISPATCH_STORAGE_WRITE = 0x800,
                DISPATCH_IMAGE_READ = 0x1000,
                DISPATCH_IMAGE_WRITE = 0x2000,
                SHARING_EXPORT = 0x1_0000,
                SHARING_REPLICATE = 0x2_0000,
                SHARING_CONCURRENT = 0x4_0000,
                SHARING_IMMUTABLE = 0x8_0000,
                MAPPING_SCOPED = 0x100_0000,
                MAPPING_PERSISTENT = 0x200_0000,
                MAPPING_OPTIONAL = 0x400_0000,
                MAPPING_ACCESS_RANDOM = 0x800_0000,
                MAPPING_ACCESS_SEQUENTIAL_WRITE = 0x1000_0000,
            }
            /// Encoding types (`iree_hal_encoding_type_t`).
            encoding_type: EncodingType, raw {
                OPAQUE = 0,
                DENSE_ROW_MAJOR = 1,
            }
            /// Element types (`iree_hal_element_type_t`).
            element_type: ElementType, raw {
                BOOL_8 = 0x1300_0008,
                INT_1 = 0x1000_0001,
                INT_4 = 0x1000_0004,
                INT_8 = 0x1000_0008,
                SINT_8 = 0x1100_0008,
                UINT_8 = 0x1200_0008,
                INT_16 = 0x1000_0010,
                SINT_16 = 0x1100_0010,
                UINT_16 = 0x1200_0010,
                INT_32 = 0x1000_0020,
                SINT_32 = 0x1100_0020,
                UINT_32 = 0x1200_0020,
                INT_64 = 0x1000_0040,
                SINT_64 = 0x1100_0040,
                UINT_64 = 0x1200_0040,
                FLOAT_16 = 0x2100_0010,
                FLOAT_32 = 0x2100_0020,
                FLOAT_64 = 0x2100_0040,
                BFLOAT_16 = 0x2200_0010,
                COMPLEX_FLOAT_64 = 0x2300_0040,
                COMPLEX_FLOAT_128 = 0x2300_0080,
            }
            /// Execution stages (`iree_hal_execution_stage_t`).
            execution_stage: ExecutionStage, bits {
                COMMAND_ISSUE = 0x1,
                COMMAND_PROCESS = 0x2,
                DISPATCH = 0x4,
                TRANSFER = 0x8,
                COMMAND_RETIRE = 0x10,
                HOST = 0x20,
            }
            /// Modes of command buffers (`iree_hal_command_buffer_mode_t`).
            command_buffer_mode: CommandBufferMode, bits {
                ONE_SHOT = 0x1,
                ALLOW_INLINE_EXECUTION = 0x10,
                UNVALIDATED = 0x20,
                UNRETAINED = 0x40,
            }
            /// Categories of commands (`iree_hal_command_category_t`).
            command_category: CommandCategory, bits {
                TRANSFER = 0x1,
                DISPATCH = 0x2,
            }
        }
    };
}

macro_rules! names {
    ($($(#[$doc:meta])* $module:ident: $type:ident, $raw:ident { $($name:ident = $value:expr),* $(,)? })*) => {
        $($(#[$doc])*
        pub mod $module {
            $(#[doc = concat!("`", stringify!($type), "::", stringify!($name), "`.")]
            pub const $name: i32 = $value;)*
        })*

        /// The constants of each module in order, for the translator: the name of the module, and names with values.
        pub const NAMED: &[(&str, &[(&str, i32)])] =
            &[$((stringify!($module), &[$((stringify!($name), $module::$name)),*])),*];
    };
}
for_each_abi_constant!(names);
