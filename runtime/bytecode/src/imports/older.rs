//! Functions as older versions of their modules had them: data that converts a call to one of the newest function.

/// A function as an older version of its module had it. Its results are those of the newest function of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OlderForm {
    /// The function's name, without the module's.
    pub name: &'static str,
    /// The older calling convention.
    pub convention: &'static str,
    /// How the newest function's arguments differ, in ascending order of their positions. The others are passed on.
    pub edits: &'static [Edit],
}

/// How an argument of the newest function differs from that of an older form. It precedes all spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The argument's position among those of the newest function.
    pub position: usize,
    /// How it is obtained.
    pub source: Source,
}

/// How an argument is obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is the older form's argument, extended with zeros from 32 to 64 bits.
    Extended,
    /// It is a constant of 64 bits, which the older form does not pass.
    Constant(u64),
}

/// Any queue of a device.
const ANY_QUEUE: u64 = u64::MAX;
/// No flags.
const NO_FLAGS: u64 = 0;

macro_rules! older {
    ($(($name:literal, $convention:literal, [$($position:literal = $source:ident $(($value:expr))?),*]))*) => {
        &[$(OlderForm {
            name: $name,
            convention: $convention,
            edits: &[$(Edit { position: $position, source: Source::$source $(($value))? }),*],
        }),*]
    };
}

/// The functions of `hal` 0.6 (compilers 3.4 to 3.11) and 0.5 (compilers 3.0 to 3.3), sorted by name.
pub const HAL: &[OlderForm] = older! {
    ("channel.create", "0rIirrii_r", [2 = Extended])
    ("channel.split", "0riii_r", [3 = Extended])
    ("command_buffer.copy_buffer", "0riirIrII_v", [8 = Constant(NO_FLAGS)])
    ("command_buffer.dispatch", "0rriiiiICiDCiirIID_v", [2 = Extended])
    ("command_buffer.dispatch.indirect", "0rriirIICiDCiirIID_v", [2 = Extended])
    ("command_buffer.execution_barrier", "0riii_v", [3 = Extended])
    ("command_buffer.fill_buffer", "0rrIIiii_v", [5 = Extended, 7 = Constant(NO_FLAGS)])
    ("command_buffer.update_buffer", "0rrIrIIi_v", [7 = Constant(NO_FLAGS)])
    ("device.queue.alloca", "0rIrriiiI_r", [4 = Extended, 8 = Constant(NO_FLAGS)])
    ("device.queue.dealloca", "0rIrrr_v", [5 = Constant(NO_FLAGS)])
    ("device.queue.execute.indirect", "0rIrrrCrIID_v", [5 = Constant(NO_FLAGS)])
    ("device.queue.read", "0rIrrrIrIIi_v", [9 = Extended])
    ("device.queue.write", "0rIrrrIrIIi_v", [9 = Extended])
    ("executable.create", "0rrrr_r", [1 = Constant(ANY_QUEUE)])
    ("fence.await", "0iCrD_i", [1 = Constant(NO_FLAGS)])
    ("fence.create", "0ri_r", [1 = Extended])
    ("fence.join", "0CrD_r", [0 = Constant(NO_FLAGS)])
};

/// The functions of `hal_loader` 0.0 (compilers 3.0 to 3.11), sorted by name.
pub const HAL_LOADER: &[OlderForm] = older! {
    ("executable.dispatch", "0riiiiCiDCrIID_v", [1 = Extended])
};
