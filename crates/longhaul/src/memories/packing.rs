//! Context packs for whoever stands outside of a task: which task is meant, by which profile, within which budget.
//!
//! What goes into a pack is `longhaul_workspace::context`'s business. Invariant: building one writes nothing.

use longhaul_core::{SessionId, TaskId, TaskScope, TraceId};
use longhaul_memory::Namespace;
use longhaul_store::{ReadTx, StoreError, tasks, values};
use longhaul_workspace::{
    Workspace,
    context::{ContextPack, ContextRequest},
};

use super::{Memories, MemoriesError};

/// What a pack is wanted for, in the words of a person.
#[derive(Debug, Clone)]
pub struct Packing {
    /// What is to be done.
    pub goal: String,
    /// Of which task; nothing for all of the user's.
    pub task: Option<TaskId>,
    /// Most tokens; nothing for what the settings say.
    pub budget_tokens: Option<u64>,
    /// By which profile; nothing for what the settings say.
    pub profile: Option<String>,
    /// Parts of memory to search; nothing for `main`.
    pub namespaces: Vec<Namespace>,
}

impl Memories {
    /// Records, links and conversations in the same store.
    #[must_use]
    pub fn workspace(&self) -> Workspace {
        Workspace::new(self.store.clone(), self.memory.clone())
    }

    /// Names of the profiles that packs are built by.
    #[must_use]
    pub fn profiles(&self) -> Vec<String> {
        self.contexts.profiles().names()
    }

    /// A context pack. Writes nothing.
    ///
    /// # Errors
    /// [`MemoriesError::NoTask`], [`MemoriesError::Context`] for a profile that is none; those of the store.
    pub async fn pack(&self, packing: &Packing) -> Result<ContextPack, MemoriesError> {
        let mut request = ContextRequest::new(packing.goal.clone())
            .budget_tokens(packing.budget_tokens.unwrap_or(self.context.budget_tokens))
            .profile(packing.profile.as_deref().unwrap_or(&self.context.profile));
        if !packing.namespaces.is_empty() {
            request.memory.clone_from(&packing.namespaces);
        }
        let mut pack = match &packing.task {
            Some(task) => self.contexts.build(&self.task_scope(task).await?, &request).await?,
            None => self.contexts.build_of_all(&self.scope, &request).await?,
        };
        if let Some(why) = &self.no_model {
            let by_words = |note: &&mut String| note.starts_with("searched by words alone");
            pack.notes.iter_mut().filter(by_words).for_each(|note| *note = format!("searched by words alone: {why}"));
        }
        Ok(pack)
    }

    /// The task with the conversation that asked for it, as far as either is known.
    async fn task_scope(&self, task: &TaskId) -> Result<TaskScope, MemoriesError> {
        let (scope, id) = (self.scope.clone(), task.clone());
        let found = move |read: &ReadTx<'_>| {
            if let Some(found) = tasks::get(read, &scope, &id)? {
                return Ok(Some(found.scope.session));
            }
            read.query_optional(
                "select session_id from records where tenant_id = ?1 and task_id = ?2 order by seq desc limit 1",
                &values![&scope.tenant, &id],
                |row| row.get::<SessionId>(0),
            )
        };
        let session = self.store.read(found).await.map_err(|error: StoreError| MemoriesError::Store(error))?;
        let session = session.ok_or_else(|| MemoriesError::NoTask { task: task.clone() })?;
        let trace = TraceId::from_body(&self.ambient.ids.body());
        Ok(TaskScope { scope: self.scope.clone(), session, task: task.clone(), trace })
    }
}
