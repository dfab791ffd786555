//! Planned deaths: how a test lets a store die at one commit of its choosing, without ending the process.
//!
//! It owns the counting of commits and the plan; the writer asks it before each commit. Invariant: a commit that it
//! refuses has changed nothing, and one that it cuts is complete.

use std::{
    fmt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::StoreError;

/// A plan of faults, given to [`crate::Store::open_with_faults`]. Clones share the plan and the count.
///
/// Commits are numbered from 1, in their order, since the plan was made; several transactions that were committed as a
/// group are one commit, and a transaction whose code failed is none. Opening a store and its migrations do not count.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

#[derive(Debug, Default)]
struct Plan {
    commits: u64,
    /// The last commit that takes place.
    dies_after: Option<u64>,
    /// The commit whose caller does not hear of it.
    cut: Option<u64>,
    /// What happens right after a commit.
    act: Option<(u64, Act)>,
    dead: bool,
}

struct Act(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an act")
    }
}

impl Faults {
    /// A plan without any fault.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many commits have taken place.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.plan().commits
    }

    /// Lets commit number `n` be the last one. The next one changes nothing and is answered with
    /// [`StoreError::Killed`], as is everything after it: writing, reading and blobs.
    pub fn die_after(&self, n: u64) {
        self.plan().dies_after = Some(n);
    }

    /// Lets commit number `n` take place although its caller is told [`StoreError::OutcomeUnknown`], as when a
    /// connection is cut in the middle of a commit. Nothing else is disturbed.
    pub fn fail_commit_but_keep(&self, n: u64) {
        self.plan().cut = Some(n);
    }

    /// Calls `act` right after commit number `n`, before anybody hears of the commit: for a test that kills its process
    /// there.
    pub fn right_after(&self, n: u64, act: impl FnOnce() + Send + 'static) {
        self.plan().act = Some((n, Act(Box::new(act))));
    }

    /// Ends the death and forgets the plan; the count goes on.
    pub fn revive(&self) {
        let mut plan = self.plan();
        *plan = Plan { commits: plan.commits, ..Plan::default() };
    }

    pub(crate) fn check_alive(&self, path: &Path) -> Result<(), StoreError> {
        let plan = self.plan();
        if plan.dead { Err(StoreError::Killed { path: path.to_owned(), commits: plan.commits }) } else { Ok(()) }
    }

    /// Commits, or does as planned.
    pub(crate) fn commit(
        &self,
        path: &Path,
        commit: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut plan = self.plan();
        if plan.dies_after.is_some_and(|last| plan.commits >= last) {
            plan.dead = true;
            return Err(StoreError::Killed { path: path.to_owned(), commits: plan.commits });
        }
        commit()?;
        plan.commits += 1;
        let commits = plan.commits;
        if let Some((_, Act(act))) = plan.act.take_if(|(n, _)| *n == commits) {
            act();
        }
        if plan.cut == Some(plan.commits) {
            return Err(StoreError::OutcomeUnknown { path: path.to_owned() });
        }
        Ok(())
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
