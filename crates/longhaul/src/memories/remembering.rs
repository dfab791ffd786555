//! A memory and its correction as a person describes them, made into what memory takes. Pure but for the clock given.

use longhaul_core::{TaskId, TimeMs};
use longhaul_memory::{
    Edit, Fact, Index, Item, Kind, Namespace, NewMemory, Source,
    when::{self, Zone},
};

use super::{MemoriesError, condition};

/// Something to remember, with times and metadata as they are typed.
#[derive(Debug, Clone)]
pub struct Remembering {
    /// Where it goes.
    pub namespace: Namespace,
    /// The text.
    pub text: String,
    /// Named group.
    pub collection: String,
    /// What sort of thing it is; a fact if it has a subject, else a note.
    pub kind: Option<Kind>,
    /// Whose words.
    pub source: Source,
    /// Tags.
    pub tags: Vec<String>,
    /// Metadata: `key=value`.
    pub meta: Vec<String>,
    /// 0 to 1.
    pub importance: f32,
    /// Stays hot and important.
    pub pinned: bool,
    /// Conversation, session or document.
    pub thread: Option<String>,
    /// Task.
    pub task: Option<TaskId>,
    /// When it happened, if not now.
    pub happened: Option<String>,
    /// When it is to be gone.
    pub expires: Option<String>,
    /// What it is a fact about.
    pub subject: Option<String>,
    /// What it says about the subject.
    pub attribute: Option<String>,
    /// Since when it is true.
    pub valid_from: Option<String>,
    /// Until when it was true.
    pub valid_to: Option<String>,
    /// Which indexes it is put into.
    pub index: Index,
}

impl Remembering {
    /// The memory that is meant.
    ///
    /// # Errors
    /// [`MemoriesError::When`], [`MemoriesError::Meta`], [`MemoriesError::HalfAFact`].
    pub fn memory(self, now: TimeMs, zone: &Zone) -> Result<NewMemory, MemoriesError> {
        let at = |text: &Option<String>| text.as_deref().map(|text| when::at(text, now, zone)).transpose();
        let fact = match (self.subject, self.attribute) {
            (Some(subject), Some(attribute)) => {
                let (valid_from, valid_to) = (at(&self.valid_from)?, at(&self.valid_to)?);
                Some(Fact { subject, attribute, valid_from, valid_to })
            }
            (None, None) if self.valid_from.is_none() && self.valid_to.is_none() => None,
            _ => return Err(MemoriesError::HalfAFact),
        };
        let kind = self.kind.unwrap_or(if fact.is_some() { Kind::Fact } else { Kind::Note });
        Ok(NewMemory {
            namespace: self.namespace,
            tags: self.tags,
            meta: condition::metadata(&self.meta)?,
            importance: self.importance,
            pinned: self.pinned,
            thread: self.thread,
            task: self.task,
            happened_at: at(&self.happened)?,
            expires_at: self.expires.as_deref().map(|text| when::ahead(text, now, zone)).transpose()?,
            fact,
            index: self.index,
            ..NewMemory::new(&self.collection, kind, self.source, self.text)
        })
    }
}

/// What to change of a memory.
#[derive(Debug, Clone, Default)]
pub struct Correcting {
    /// A new text.
    pub text: Option<String>,
    /// Metadata to set: `key=value`.
    pub meta: Vec<String>,
    /// Metadata to take away.
    pub unset: Vec<String>,
    /// Tags to add.
    pub tags: Vec<String>,
    /// Tags to take away.
    pub untags: Vec<String>,
    /// A new importance, 0 to 1.
    pub importance: Option<f32>,
    /// When it is to be gone; `never` for never.
    pub expires: Option<String>,
}

impl Correcting {
    /// The edit that is meant, of a memory as it is.
    ///
    /// # Errors
    /// [`MemoriesError::When`], [`MemoriesError::Meta`], [`MemoriesError::NothingToChange`].
    pub fn edit(&self, was: &Item, now: TimeMs, zone: &Zone) -> Result<Edit, MemoriesError> {
        let mut edit = Edit { content: self.text.clone(), importance: self.importance, ..Edit::default() };
        if !self.meta.is_empty() || !self.unset.is_empty() {
            let mut meta = was.meta.clone();
            for name in &self.unset {
                meta.shift_remove(name);
            }
            meta.extend(condition::metadata(&self.meta)?);
            edit.meta = Some(meta);
        }
        if !self.tags.is_empty() || !self.untags.is_empty() {
            let kept = was.tags.iter().filter(|tag| !self.untags.contains(tag));
            edit.tags = Some(kept.chain(&self.tags).cloned().collect());
        }
        edit.expires_at = match self.expires.as_deref() {
            None => None,
            Some("never") => Some(None),
            Some(text) => Some(Some(when::ahead(text, now, zone)?)),
        };
        if edit == Edit::default() { Err(MemoriesError::NothingToChange) } else { Ok(edit) }
    }
}
