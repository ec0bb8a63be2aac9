//! Critical sections of one process, and the owners in them at the same time.

use std::{fmt, ops::AddAssign, sync::Mutex};

/// The kind of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ours,
    Java,
}

/// One of the owners of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    pub(super) number: usize,
}

/// The number of times that an owner entered while another was inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlaps {
    pub(super) ours_in_ours: usize,
    pub(super) ours_in_java: usize,
    pub(super) java_in_ours: usize,
    pub(super) java_in_java: usize,
}

/// The critical section of each lock.
pub(super) struct Arena {
    sections: Vec<Mutex<Section>>,
}

#[derive(Default)]
struct Section {
    inside: Vec<Owner>,
    overlaps: Overlaps,
}

impl Arena {
    pub(super) fn new(locks: usize) -> Self {
        Self {
            sections: (0..locks).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn enter(&self, lock: usize, owner: Owner) {
        let mut section = self.sections[lock].lock().unwrap();
        let mut seen = Overlaps::default();
        for other in &section.inside {
            assert_ne!(*other, owner, "an owner is inside twice");
            *match (owner.kind, other.kind) {
                (Kind::Ours, Kind::Ours) => &mut seen.ours_in_ours,
                (Kind::Ours, Kind::Java) => &mut seen.ours_in_java,
                (Kind::Java, Kind::Ours) => &mut seen.java_in_ours,
                (Kind::Java, Kind::Java) => &mut seen.java_in_java,
            } += 1;
        }
        section.overlaps += seen;
        section.inside.push(owner);
    }

    pub(super) fn leave(&self, lock: usize, owner: Owner) {
        let mut section = self.sections[lock].lock().unwrap();
        let place = section.inside.iter().position(|inside| *inside == owner);
        section.inside.swap_remove(place.expect("it had come in"));
    }

    /// Returns the overlaps of all locks, once all owners have left.
    pub(super) fn overlaps(&self) -> Overlaps {
        let mut all = Overlaps::default();
        for section in &self.sections {
            let section = section.lock().unwrap();
            assert!(section.inside.is_empty(), "somebody is still inside");
            all += section.overlaps;
        }
        all
    }
}

impl AddAssign for Overlaps {
    fn add_assign(&mut self, other: Self) {
        self.ours_in_ours += other.ours_in_ours;
        self.ours_in_java += other.ours_in_java;
        self.java_in_ours += other.java_in_ours;
        self.java_in_java += other.java_in_java;
    }
}

impl fmt::Display for Overlaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ours/ours {}, ours/Java {} + {}, Java/Java {}",
            self.ours_in_ours, self.ours_in_java, self.java_in_ours, self.java_in_java
        )
    }
}

#[test]
fn overlapping_holders_are_counted() {
    let arena = Arena::new(2);
    let owner = |kind, number| Owner { kind, number };
    let (one, two, java) = (owner(Kind::Ours, 1), owner(Kind::Ours, 2), owner(Kind::Java, 1));
    arena.enter(0, one);
    arena.enter(1, two);
    arena.leave(0, one);
    arena.enter(0, java);
    arena.leave(0, java);
    assert_eq!(arena.sections[0].lock().unwrap().overlaps, Overlaps::default());
    arena.enter(1, one);
    arena.enter(1, java);
    for owner in [one, two, java] {
        arena.leave(1, owner);
    }
    arena.enter(1, java);
    arena.enter(1, one);
    for owner in [one, java] {
        arena.leave(1, owner);
    }
    let expected = Overlaps {
        ours_in_ours: 1,
        java_in_ours: 2,
        ours_in_java: 1,
        java_in_java: 0,
    };
    assert_eq!(arena.overlaps(), expected);
}
