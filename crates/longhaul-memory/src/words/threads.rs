//! Who stands beside whom: the memories before and after one in its thread, and how much of their words it is lent.

/// How the memories of a partition hang together, as far as ranking needs it.
pub(crate) trait Threads {
    /// A number for the memory's thread; 0 for none.
    fn thread(&self, seq: i64) -> u32;

    /// The memories of a thread, in order of writing.
    fn members(&self, thread: u32) -> &[u32];

    /// Day it happened, counted from 1970-01-01 in UTC.
    fn day(&self, seq: i64) -> i64;
}

/// The part of each neighbour that counts, nearest first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reach {
    pub(crate) before: &'static [f32],
    pub(crate) after: &'static [f32],
}

/// Finds neighbours. It remembers the last place, because one memory after the other is asked for in order of writing.
#[derive(Debug)]
pub(crate) struct Walker<'a, T> {
    threads: &'a T,
    thread: u32,
    members: &'a [u32],
    place: usize,
}

impl<'a, T: Threads> Walker<'a, T> {
    pub(crate) fn new(threads: &'a T) -> Self {
        Self { threads, thread: 0, members: &[], place: 0 }
    }

    /// The memories before and after one in its thread, both in order of writing.
    pub(crate) fn beside(&mut self, seq: u32) -> (&'a [u32], &'a [u32]) {
        let thread = self.threads.thread(i64::from(seq));
        if thread == 0 {
            return (&[], &[]);
        }
        if thread != self.thread {
            (self.thread, self.members, self.place) = (thread, self.threads.members(thread), 0);
        }
        let near = (self.place..self.place + 2).find(|place| self.members.get(*place) == Some(&seq));
        let Some(place) = near.or_else(|| self.members.binary_search(&seq).ok()) else { return (&[], &[]) };
        self.place = place;
        (&self.members[..place], &self.members[place + 1..])
    }

    /// Calls `each` with every memory that lends something to this one, and the part.
    pub(crate) fn lenders(&mut self, seq: u32, reach: Reach, mut each: impl FnMut(u32, f32)) {
        let (before, after) = self.beside(seq);
        before.iter().rev().zip(reach.before).for_each(|(other, part)| each(*other, *part));
        after.iter().zip(reach.after).for_each(|(other, part)| each(*other, *part));
    }

    /// Calls `each` with every memory that this one lends something to, and the part.
    pub(crate) fn borrowers(&mut self, seq: u32, reach: Reach, mut each: impl FnMut(u32, f32)) {
        let (before, after) = self.beside(seq);
        after.iter().zip(reach.before).for_each(|(other, part)| each(*other, *part));
        before.iter().rev().zip(reach.after).for_each(|(other, part)| each(*other, *part));
    }
}
