//! Structures and function types of the executable plugin ABI, version 0.1.
//!
//! Fields and their order are those of `iree/hal/local/executable_plugin.h`.

use core::ffi::{c_char, c_int, c_void};

/// Name of the exported symbol of a library's [`PluginQueryFunction`].
pub const PLUGIN_EXPORT_NAME: &str = "iree_hal_executable_plugin_query";

/// Version 0.1, the only one.
pub const PLUGIN_VERSION_0_1: u32 = 1;

/// Bit of [`PluginHeader::features`]: the plugin uses no system libraries.
pub const PLUGIN_FEATURE_STANDALONE: u32 = 1 << 0;

/// Bit of [`PluginHeader::features`]: a status may be the address of a message, with the code in its low bits.
pub const PLUGIN_FEATURE_FULL_STATUS: u32 = 1 << 1;

/// [`PluginHeader::sanitizer`] of a plugin without one.
pub const PLUGIN_SANITIZER_NONE: c_int = 0;

/// The bits of a status that contain its code.
pub const PLUGIN_STATUS_CODE_MASK: usize = 0x1F;

/// Bit of `resolve`'s resolution flags: an optional function is missing.
pub const PLUGIN_RESOLUTION_MISSING_OPTIONAL: u32 = 1 << 0;

/// First structure of a plugin, the same in all versions.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginHeader {
    /// The ABI version of the structure that begins with this header.
    pub version: u32,
    /// Name for messages, NUL-terminated.
    pub name: *const c_char,
    /// Description of the plugin, NUL-terminated.
    pub description: *const c_char,
    /// `PLUGIN_FEATURE_*`.
    pub features: u32,
    /// Sanitizer that the plugin was built with.
    pub sanitizer: c_int,
    /// Zero.
    pub reserved: [u64; 8],
}

/// Returns the plugin's description, whose first field is a pointer to its [`PluginHeader`]; null if the plugin
/// supports no version up to the maximum.
pub type PluginQueryFunction =
    unsafe extern "C" fn(maximum_version: u32, reserved: *mut c_void) -> *const *const PluginHeader;

/// A status: null for success.
pub type PluginStatus = *mut c_void;

/// A string with a length.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginText {
    /// The bytes, without a NUL.
    pub data: *const c_char,
    /// Their number.
    pub size: usize,
}

/// A key-value parameter of a plugin.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginParameter {
    /// Its name.
    pub key: PluginText,
    /// Its value.
    pub value: PluginText,
}

/// The allocator's only function. Commands are 0 to 3 for malloc, calloc, realloc and free; for the first three
/// `parameters` points to the size in bytes.
pub type AllocatorFunction = unsafe extern "C" fn(
    allocator: *mut c_void,
    command: c_int,
    parameters: *const c_void,
    pointer: *mut *mut c_void,
) -> PluginStatus;

/// The allocator of plugins.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginAllocator {
    /// First argument of the function.
    pub allocator: *mut c_void,
    /// The function.
    pub control: AllocatorFunction,
}

/// The environment of a plugin, passed when it is loaded.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginEnvironment {
    /// The allocator, valid until the plugin is unloaded.
    pub allocator: PluginAllocator,
}

/// A request to resolve functions: arrays of `count` entries each.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PluginResolve {
    /// Number of entries.
    pub count: usize,
    /// NUL-terminated names; a leading `?` marks an optional function.
    pub names: *const *const c_char,
    /// Functions; the plugin fills the null entries.
    pub functions: *mut *mut c_void,
    /// Context of each function.
    pub contexts: *mut *mut c_void,
}

/// Description of a plugin of version 0.1.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Plugin {
    /// Header.
    pub header: *const PluginHeader,
    /// Creates the plugin's state.
    pub load: Option<
        unsafe extern "C" fn(
            environment: *const PluginEnvironment,
            parameter_count: usize,
            parameters: *const PluginParameter,
            state: *mut *mut c_void,
        ) -> PluginStatus,
    >,
    /// Destroys the plugin's state.
    pub unload: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// Fills in the functions that the plugin contains. NOT_FOUND reports that a required one is missing.
    pub resolve: Option<
        unsafe extern "C" fn(state: *mut c_void, resolve: *const PluginResolve, resolution: *mut u32) -> PluginStatus,
    >,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<PluginHeader>() == 96);
    assert!(offset_of!(PluginHeader, features) == 24);
    assert!(offset_of!(PluginHeader, sanitizer) == 28);
    assert!(size_of::<PluginParameter>() == 32);
    assert!(size_of::<PluginEnvironment>() == 16);
    assert!(size_of::<PluginResolve>() == 32);
    assert!(size_of::<Plugin>() == 32);
};
