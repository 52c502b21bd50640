//! What a program may do: how much it may use up, and whether its kernels may be machine code.

use alloc::sync::Arc;
use core::time::Duration;

#[cfg(feature = "std")]
use crate::clock::Instant;

use super::ledger::Ledger;
#[cfg(feature = "std")]
use super::meter::Interrupt;
use super::meter::Meter;

/// What a program may use up, and whether it may contain machine code. The defaults trust the program with the machine; see
/// [`Limits::portable`]. Sessions with clones of the same limits share the ledger and the deadline.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Whether kernels may be code that no verifier checks: machine code of the host, or code of a GPU.
    pub machine_code: bool,
    /// Calls that may be open at once.
    pub call_depth: usize,
    /// Bytes of registers that all open calls together may have.
    pub stack_bytes: usize,
    /// Bytes and objects that the program may hold, in all calls and on all devices.
    pub ledger: Ledger,
    /// Steps of one call; none is unlimited. A branch or a call is a step; so are 256 interpreted instructions in a row, 64
    /// bytes that an instruction or a native function processes, and a workgroup of a kernel. Kernels in bytecode take their
    /// steps from the call that submits them.
    pub fuel: Option<u64>,
    /// The longest time of one call, including its waits and the kernels that it has devices run; none is unlimited.
    #[cfg(feature = "std")]
    pub timeout: Option<Duration>,
    /// The time at which every call ends: the deadline of a session, or of several.
    #[cfg(feature = "std")]
    pub deadline: Option<Instant>,
    /// What else ends calls, and when: see [`Interrupt`].
    #[cfg(feature = "std")]
    pub interrupt: Option<Arc<dyn Interrupt>>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            machine_code: true,
            call_depth: 1 << 14,
            stack_bytes: 16 << 20,
            ledger: Ledger::unlimited(),
            fuel: None,
            #[cfg(feature = "std")]
            timeout: None,
            #[cfg(feature = "std")]
            deadline: None,
            #[cfg(feature = "std")]
            interrupt: None,
        }
    }
}

impl Limits {
    /// Bytes of memory that [`Limits::portable`] allows.
    pub const PORTABLE_BYTES: u64 = 1 << 30;
    /// Objects that [`Limits::portable`] allows.
    pub const PORTABLE_OBJECTS: u64 = 1_000_000;
    /// Steps of a call that [`Limits::portable`] allows.
    pub const PORTABLE_FUEL: u64 = 1_000_000_000;
    /// The time of a call that [`Limits::portable`] allows.
    pub const PORTABLE_TIMEOUT: Duration = Duration::from_secs(30);

    /// Returns limits for a portable module of anyone's: bytecode only, 1 GiB of memory, 1 million objects, 10^9 steps and 30 seconds
    /// for a call. Machine code is refused, on every device.
    #[must_use]
    pub fn portable() -> Limits {
        GivenLimits::default().limits(true)
    }

    /// Whether calls have a meter: their steps or their time are limited, or they can be interrupted.
    pub(super) fn are_metered(&self) -> bool {
        #[cfg(feature = "std")]
        let read_the_clock = self.timeout.is_some() || self.deadline.is_some() || self.interrupt.is_some();
        #[cfg(not(feature = "std"))]
        let read_the_clock = false;
        self.fuel.is_some() || read_the_clock
    }

    /// Creates the meter of a call.
    pub(super) fn create_meter(&self) -> Arc<Meter> {
        let meter = Meter::new(self.fuel);
        #[cfg(feature = "std")]
        let meter = meter.with_end(self.timeout, self.deadline).with_interrupt(self.interrupt.clone());
        Arc::new(meter)
    }
}

/// Limits that a user gives one by one, as flags of a command line. 0 means no limit. What is not given is unlimited, or that of
/// [`Limits::portable`] for an untrusted module.
///
/// ```
/// use incarnate_vm::GivenLimits;
///
/// let limits = GivenLimits { fuel: Some(1000), ..GivenLimits::default() }.limits(true);
/// assert!(limits.fuel == Some(1000) && limits.ledger.is_limited() && !limits.machine_code);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenLimits {
    /// Bytes that the program may hold.
    pub bytes: Option<u64>,
    /// Objects that the program may hold.
    pub objects: Option<u64>,
    /// Steps of a call.
    pub fuel: Option<u64>,
    /// The longest time of a call.
    #[cfg(feature = "std")]
    pub timeout: Option<Duration>,
}

impl GivenLimits {
    /// Returns the limits of a program, which may be untrusted.
    #[must_use]
    pub fn limits(self, is_untrusted: bool) -> Limits {
        let resolved = |given: Option<u64>, portable: u64| match given {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => is_untrusted.then_some(portable),
        };
        let bytes = resolved(self.bytes, Limits::PORTABLE_BYTES);
        let objects = resolved(self.objects, Limits::PORTABLE_OBJECTS);
        let ledger = match (bytes, objects) {
            (None, None) => Ledger::unlimited(),
            (bytes, objects) => Ledger::new(bytes.unwrap_or(u64::MAX), objects.unwrap_or(u64::MAX)),
        };
        #[cfg(feature = "std")]
        let timeout = self.timeout.or(is_untrusted.then_some(Limits::PORTABLE_TIMEOUT));
        Limits {
            machine_code: !is_untrusted,
            ledger,
            fuel: resolved(self.fuel, Limits::PORTABLE_FUEL),
            #[cfg(feature = "std")]
            timeout: timeout.filter(|timeout| !timeout.is_zero()),
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_is_unlimited_unless_the_module_is_untrusted() {
        let given = GivenLimits { fuel: Some(5), bytes: Some(0), timeout: Some(Duration::ZERO), ..Default::default() };
        let trusted = given.limits(false);
        assert!(trusted.machine_code && !trusted.ledger.is_limited());
        assert_eq!((trusted.fuel, trusted.timeout), (Some(5), None));
        let untrusted = given.limits(true);
        assert!(!untrusted.machine_code && untrusted.ledger.is_limited());
        assert_eq!((untrusted.ledger.byte_limit(), untrusted.fuel, untrusted.timeout), (u64::MAX, Some(5), None));
        let portable = Limits::portable();
        assert_eq!((portable.fuel, portable.timeout), (Some(1_000_000_000), Some(Duration::from_secs(30))));
        assert_eq!((portable.machine_code, portable.ledger.byte_limit()), (false, 1 << 30));
        assert_eq!(Limits::default().ledger.byte_limit(), u64::MAX);
    }
}
