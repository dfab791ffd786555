//! The order in which a network's locks are taken. Unoptimised builds, and so all tests, check it at each lock.
//!
//! Invariant: a thread that holds a lock takes only those that come later, so that no two threads wait for each other.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};

/// The locks, in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// The pump's state: it is held while what was committed is followed in RAM.
    Pump,
    /// Who waits for a response.
    Responses,
    /// Agents and channels.
    Registry,
    /// Where one agent stands, or its profile.
    Agent,
}

thread_local! {
    /// A bit for each place that this thread holds.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

/// A place that is held until this is dropped.
#[derive(Debug)]
struct Turn(u8);

impl Turn {
    fn take(place: Place) -> Self {
        let bit = 1 << place as u8;
        if cfg!(debug_assertions) {
            let held = HELD.get();
            assert!(
                held < bit,
                "the lock {place:?} is taken while one is held that comes later, or the same: {held:b}"
            );
            HELD.set(held | bit);
        }
        Self(bit)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HELD.set(HELD.get() & !self.0);
        }
    }
}

/// A lock that is held in its turn.
#[derive(Debug)]
pub(crate) struct Held<G> {
    guard: G,
    _turn: Turn,
}

/// Takes a lock in its turn.
pub(crate) fn hold<G>(place: Place, lock: impl FnOnce() -> G) -> Held<G> {
    let turn = Turn::take(place);
    Held { guard: lock(), _turn: turn }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_taken_in_their_order() {
        let registry = hold(Place::Registry, || Box::new(1));
        drop(hold(Place::Agent, || Box::new(2)));
        drop(registry);
        drop(hold(Place::Pump, || Box::new(3)));
    }

    #[test]
    #[should_panic(expected = "the lock Pump is taken")]
    fn the_order_is_checked() {
        let _registry = hold(Place::Registry, || Box::new(1));
        let _pump = hold(Place::Pump, || Box::new(2));
    }

    #[test]
    #[should_panic(expected = "the lock Registry is taken")]
    fn reading_twice_is_refused_as_a_writer_may_wait_between() {
        let _once = hold(Place::Registry, || Box::new(1));
        let _twice = hold(Place::Registry, || Box::new(2));
    }
}
