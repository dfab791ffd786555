//! The background thread that divides large partitions into lists, takes new vectors in, and writes the files.
//!
//! It works on copies that share their bytes with the partition and takes the write lock only to put results in.
//! Searches compare whatever is not covered yet by bytes, so they miss nothing meanwhile. Invariant: stopping or killing
//! it at any moment loses nothing but time; it ends when there is nothing to do.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    centres::{Centres, Products},
    file,
    kernels::LANES,
    lists::{Lists, Sketch},
    partition::{Partition, State},
};

/// Live vectors from which on there is an index: a scan of fewer takes less than a millisecond.
pub(super) const INDEX_MIN: usize = 25_000;
/// Vectors taken into the index at a time, and the most that are left to be compared by bytes.
const MERGE: usize = 256;

/// Wakes the thread, and stops it when dropped.
#[derive(Debug)]
pub(super) struct Builder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dir: Option<PathBuf>,
    index_min: usize,
    is_stopped: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Weak<Partition>>,
    is_running: bool,
}

/// What there is to do for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Find centres and divide everything anew, without dead slots.
    Build,
    /// Take the next slots into the index.
    Merge,
    /// Write the file.
    Save,
}

impl State {
    fn task(&self, index_min: usize) -> Option<Task> {
        let (live, dead) = (self.slots.live(), self.slots.len() - self.slots.live());
        if dead > live / 3 + 4096 {
            return Some(Task::Build);
        }
        let Some(lists) = &self.lists else { return (live >= index_min).then_some(Task::Build) };
        if live >= 2 * self.trained {
            return Some(Task::Build);
        }
        if self.slots.len() - lists.covered() >= MERGE {
            return Some(Task::Merge);
        }
        if self.must_learn {
            return None;
        }
        let unsaved = self.read_to - self.saved_to;
        (unsaved > (live / 8) as i64 || (self.saved_to == 0 && self.read_to > 0)).then_some(Task::Save)
    }
}

impl Builder {
    pub(super) fn new(dir: Option<PathBuf>, index_min: usize) -> Self {
        let queue = Mutex::default();
        Self { shared: Arc::new(Shared { dir, index_min, is_stopped: AtomicBool::new(false), queue }) }
    }

    /// Where the files are, if there are any.
    pub(super) fn dir(&self) -> Option<&Path> {
        self.shared.dir.as_deref()
    }

    pub(super) fn index_min(&self) -> usize {
        self.shared.index_min
    }

    /// Has the thread look at this partition, if there is something to do for it.
    pub(super) fn wake(&self, partition: &Arc<Partition>) {
        if partition.state().task(self.shared.index_min).is_none() {
            return;
        }
        let mut queue = self.shared.queue();
        let is_this = |waiting: &Weak<Partition>| std::ptr::eq(waiting.as_ptr(), Arc::as_ptr(partition));
        if !queue.waiting.iter().any(is_this) {
            queue.waiting.push_back(Arc::downgrade(partition));
        }
        if !queue.is_running {
            let shared = self.shared.clone();
            let started = std::thread::Builder::new().name("vector-index".to_owned()).spawn(move || shared.run());
            match started {
                Ok(_) => queue.is_running = true,
                Err(error) => tracing::warn!(%error, "no thread for the vector index; vectors are compared one by one"),
            }
        }
    }

    /// Whether nothing is being done or waits to be done.
    pub(super) fn is_idle(&self) -> bool {
        !self.shared.queue().is_running
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn queue(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let next = {
                let mut queue = self.queue();
                let next = queue.waiting.pop_front();
                queue.is_running = next.is_some() && !self.is_stopped();
                if !queue.is_running {
                    return;
                }
                next
            };
            if let Some(partition) = next.and_then(|partition| partition.upgrade()) {
                // A panic must not leave the queue believing that the thread runs.
                let work = std::panic::AssertUnwindSafe(|| self.work(&partition));
                if std::panic::catch_unwind(work).is_err() {
                    tracing::error!(partition = %partition.id, "building the vector index failed");
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn work(&self, partition: &Partition) {
        while !self.is_stopped() {
            let Some(task) = partition.state().task(self.index_min) else { return };
            match task {
                Task::Build => {
                    if build(partition, self.index_min, &|| self.is_stopped()).is_none() {
                        return;
                    }
                }
                Task::Merge => merge(partition),
                Task::Save => {
                    let (read_to, purges) = (partition.state().read_to, partition.purges());
                    if let Some(Err(error)) = self.dir.as_deref().map(|dir| file::save(dir, partition)) {
                        tracing::warn!(%error, "the vector index could not be saved and will be built again");
                    }
                    // A failure is tried again when there is more to save.
                    if partition.purges() == purges {
                        partition.state_mut().saved_to = read_to;
                    }
                }
            }
        }
    }
}

/// Divides everything anew; `None` when told to stop.
fn build(partition: &Partition, index_min: usize, is_stopped: &dyn Fn() -> bool) -> Option<()> {
    let before = partition.state().slots.clone();
    let is_sparse = before.len() - before.live() > before.live() / 4;
    let slots = if is_sparse { before.compacted() } else { before.clone() };
    let mut lists = None;
    if slots.live() >= index_min {
        let count = (2.0 * (slots.live() as f64).sqrt()) as usize;
        let centres = Arc::new(Centres::found(&slots, count.max(LANES), is_stopped)?);
        let mut new = Lists::new(centres.clone());
        let mut products = Products::default();
        for slot in 0..slots.len() {
            if slot % 1024 == 0 && is_stopped() {
                return None;
            }
            let (bytes, scale) = slots.code(slot);
            new.push(&slots, &Sketch::new(&centres, bytes, scale, &mut products));
        }
        lists = Some(new);
    }
    partition.state_mut().adopt(&before, slots, lists, is_sparse);
    Some(())
}

impl State {
    /// Puts in what was built from `before`, and brings it up to what has happened since.
    fn adopt(
        &mut self,
        before: &super::slots::Slots,
        mut slots: super::slots::Slots,
        mut lists: Option<Lists>,
        is_sparse: bool,
    ) {
        self.trained = slots.live();
        if is_sparse {
            // The slots have other numbers; the few that came or died since are brought over.
            for slot in before.len()..self.slots.len() {
                if let Some(seq) = self.slots.seq(slot) {
                    let (bytes, scale) = self.slots.code(slot);
                    let replaced = slots.put(seq, bytes, scale);
                    if let (Some(slot), Some(lists)) = (replaced, &mut lists) {
                        lists.kill(slot);
                    }
                }
            }
        }
        for slot in 0..before.len() {
            if let Some(seq) = before.seq(slot)
                && self.slots.seq(slot).is_none()
            {
                // Where it was replaced rather than deleted, its old slot is already dead.
                let is_gone = self.slots.slot(seq).is_none();
                let killed = if !is_sparse {
                    Some(slot)
                } else if is_gone {
                    slots.kill(seq)
                } else {
                    None
                };
                if let (Some(slot), Some(lists)) = (killed, &mut lists) {
                    lists.kill(slot);
                }
            }
        }
        if is_sparse {
            self.slots = slots;
        }
        self.lists = lists;
    }
}

/// Takes the next slots into the index.
fn merge(partition: &Partition) {
    let (centres, from, codes) = {
        let state = partition.state();
        let Some(lists) = &state.lists else { return };
        let from = lists.covered();
        let until = state.slots.len().min(from + MERGE);
        let code = |slot| {
            let (bytes, scale) = state.slots.code(slot);
            (bytes.to_vec(), scale)
        };
        (lists.centres().clone(), from, (from..until).map(code).collect::<Vec<_>>())
    };
    let mut products = Products::default();
    let sketches: Vec<Sketch> =
        codes.iter().map(|(bytes, scale)| Sketch::new(&centres, bytes, *scale, &mut products)).collect();
    let mut state = partition.state_mut();
    let State { slots, lists, .. } = &mut *state;
    // Only this thread changes which slots are covered.
    if let Some(lists) = lists.as_mut().filter(|lists| lists.covered() == from) {
        sketches.iter().for_each(|sketch| lists.push(slots, sketch));
    }
}
