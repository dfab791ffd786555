//! What earlier runs have recorded of a superstep that is still open.
//!
//! It is read when a frame is resumed or a node tried again, never for a superstep that began in this run.

use std::collections::BTreeMap;

use longhaul_store::{ReadTx, StoreError};

use crate::{
    WaitInfo,
    records::{
        Pen, effects,
        steps::{self, RecordedStep},
        tasks::{self, DoneTask},
        waits,
    },
};

/// Everything recorded of one open superstep.
#[derive(Debug, Clone, Default)]
pub(crate) struct Open {
    /// Which; 0 where there is none.
    superstep: u64,
    pub(crate) done: BTreeMap<u32, DoneTask>,
    by_task: BTreeMap<u32, BTreeMap<u32, Recorded>>,
    /// Acts of unknown outcome by task and ordinal, with their names.
    pending: BTreeMap<(u32, u32), String>,
}

/// What stands at one place.
#[derive(Debug, Clone)]
pub(crate) enum Recorded {
    Step(RecordedStep),
    Wait(Box<WaitInfo>),
}

impl Recorded {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Step(step) => &step.name,
            Self::Wait(wait) => &wait.name,
        }
    }
}

/// What one task finds when it runs again.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// By the steps' numbers.
    pub(crate) recorded: BTreeMap<u32, Recorded>,
    /// Steps whose act has an unknown outcome: their numbers and names.
    pub(crate) pending: BTreeMap<u32, String>,
    /// Whether there may be frames inside it.
    pub(crate) resumed: bool,
}

impl Open {
    pub(crate) fn read(read: &ReadTx<'_>, pen: &Pen, ns: &str, superstep: u64) -> Result<Self, StoreError> {
        let (tenant, execution) = (pen.tenant(), pen.execution());
        let mut by_task = BTreeMap::<u32, BTreeMap<u32, Recorded>>::new();
        for ((task, ordinal), step) in steps::of_superstep(read, tenant, execution, ns, superstep)? {
            by_task.entry(task).or_default().insert(ordinal, Recorded::Step(step));
        }
        for wait in waits::of_superstep(read, tenant, execution, ns, superstep)? {
            by_task.entry(wait.place.task).or_default().insert(wait.place.ordinal, Recorded::Wait(Box::new(wait)));
        }
        let pending = effects::pending(read, tenant, execution)?;
        let here =
            pending.into_iter().map(|effect| effect.step).filter(|step| step.ns == ns && step.superstep == superstep);
        Ok(Self {
            superstep,
            done: tasks::of_superstep(read, tenant, execution, ns, superstep)?,
            by_task,
            pending: here.map(|step| ((step.task, step.ordinal), step.name)).collect(),
        })
    }

    /// Whether it is about this superstep.
    pub(crate) fn is_of(&self, superstep: u64) -> bool {
        self.superstep == superstep
    }

    /// Takes out what one task finds.
    pub(crate) fn take(&mut self, task: u32) -> Earlier {
        Earlier {
            recorded: self.by_task.remove(&task).unwrap_or_default(),
            pending: self
                .pending
                .range((task, 0)..=(task, u32::MAX))
                .map(|((_, ordinal), name)| (*ordinal, name.clone()))
                .collect(),
            resumed: true,
        }
    }
}
