//! A model check of semaphores by loom. CONTRIBUTING.md has the command.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;

use super::{Role, Semaphore, WaitParticipant};

struct IdleParticipant;

impl WaitParticipant for IdleParticipant {
    fn participate(self: StdArc<Self>) -> bool {
        true
    }
}

/// A signal drops the task that was to signal, whichever comes first.
#[test]
fn a_signal_leaves_no_participant_behind() {
    loom::model(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let signalling = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.signal(1).unwrap()
        });
        let participant = StdArc::new(IdleParticipant);
        semaphore.set_participant(1, participant.clone(), Role::Signals);
        signalling.join().unwrap();
        assert_eq!(StdArc::strong_count(&participant), 1);
    });
}
