//! The state that a graph works on, and how updates reduce into it.
//!
//! It owns the contract between a state and the runtime: fields, reducers, and which of them two tasks of one superstep
//! may not both set. It knows no graph. Invariant: whatever is needed to rebuild a state is data; code is named, not
//! stored.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};

/// The state that a graph works on. It is plain data: a live object in it does not compile. Usually derived, with
/// [`macro@crate::GraphState`].
///
/// A checkpoint stores the update, not the state; so [`Self::apply`] must be a pure function of both, and stay the same
/// between releases that replay the same executions. Maps should be ordered ones.
///
/// ```compile_fail,E0277
/// #[derive(Clone, serde::Serialize, serde::Deserialize)]
/// struct State {
///     browser: std::sync::Arc<std::process::Child>, // a live object is no data
/// }
/// ```
pub trait GraphState: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// What a node changes.
    type Update: Serialize + DeserializeOwned + Send + 'static;

    /// The fields of which the runtime must know, in any order, at most 64: those that only grow by whole items do not
    /// count towards the size of the state (invariant 5), and of those that keep one value two tasks of one superstep
    /// may not set the same. Fields not named here are only counted. Part of the graph's fingerprint.
    const FIELDS: &'static [Field] = &[];

    /// Reduces an update into the state.
    fn apply(&mut self, update: Self::Update);

    /// Which fields an update sets to a value that leaves nothing of the one before: bit `i` stands for `FIELDS[i]`. A
    /// superstep in which two tasks touch one field fails, for the result would depend on their order alone.
    #[must_use]
    fn touched(update: &Self::Update) -> u64 {
        let _ = update;
        0
    }
}

/// A field of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in the state's JSON.
    pub name: &'static str,
    /// How it changes.
    pub reducer: Reducer,
}

/// How a field changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reducer {
    /// It grows by whole items, each limited in size.
    Append,
    /// It keeps the last value it was set to.
    Last,
    /// A function of this name makes the new value out of the old one and what a node gives.
    Custom(&'static str),
}

impl Reducer {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Append => "append".to_owned(),
            Self::Last => "last".to_owned(),
            Self::Custom(name) => format!("custom {name}"),
        }
    }
}

/// Two tasks of one superstep set the same field to a value of their own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} was set by {first} and by {second} in one superstep, but keeps one value: set it in one of them, let them \
     run one after the other, or give the field a reducer"
)]
pub struct ConflictError {
    /// The field.
    pub field: &'static str,
    /// The task that set it: `a (task 0)`.
    pub first: String,
    /// The task that set it too.
    pub second: String,
}

/// Finds fields that two tasks of one superstep set.
#[derive(Debug, Default)]
pub(crate) struct Conflicts {
    all: u64,
    /// What each task touched: the first, and the rest.
    first: Option<Touched>,
    rest: Vec<Touched>,
}

#[derive(Debug)]
struct Touched {
    task: u32,
    node: Arc<str>,
    fields: u64,
}

impl Conflicts {
    /// Notes what one task touched; all its updates together.
    pub(crate) fn add<S: GraphState>(&mut self, task: u32, node: &Arc<str>, fields: u64) -> Result<(), ConflictError> {
        let twice = self.all & fields;
        if twice != 0 {
            let bit = twice.trailing_zeros();
            let known = self.first.iter().chain(&self.rest).find(|known| known.fields & (1 << bit) != 0);
            let name = |task: u32, node: &str| format!("{node} (task {task})");
            return Err(ConflictError {
                field: S::FIELDS.get(bit as usize).map_or("a field", |field| field.name),
                first: known.map_or_else(String::new, |known| name(known.task, &known.node)),
                second: name(task, node),
            });
        }
        self.all |= fields;
        let touched = Touched { task, node: node.clone(), fields };
        match &self.first {
            None => self.first = Some(touched),
            Some(_) => self.rest.push(touched),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, serde::Serialize, serde::Deserialize)]
    struct Two {}

    impl GraphState for Two {
        type Update = ();
        const FIELDS: &'static [Field] =
            &[Field { name: "log", reducer: Reducer::Append }, Field { name: "topic", reducer: Reducer::Last }];
        fn apply(&mut self, (): ()) {}
    }

    #[test]
    fn two_tasks_that_set_one_field_are_both_named() {
        let mut conflicts = Conflicts::default();
        conflicts.add::<Two>(0, &"a".into(), 0b01).unwrap();
        conflicts.add::<Two>(1, &"b".into(), 0b10).unwrap();
        conflicts.add::<Two>(2, &"b".into(), 0).unwrap();
        let error = conflicts.add::<Two>(7, &"c".into(), 0b10).unwrap_err();
        assert_eq!(
            error.to_string(),
            "topic was set by b (task 1) and by c (task 7) in one superstep, but keeps one value: set it in one of \
             them, let them run one after the other, or give the field a reducer"
        );
    }
}
