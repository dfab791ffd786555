//! What a node answers: a change of the state, and perhaps where to go instead of along its edges.
//!
//! It owns the words between a node's code and the machine; whether a target exists is the shape's business. Invariant:
//! whatever an answer says can be stored and read back.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, SeqAccess, Visitor},
    ser::SerializeSeq,
};
use serde_json::value::RawValue;

/// The input of one run of a node, as JSON. Cheap to clone.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input(Arc<RawValue>);

impl Input {
    /// This value as an input.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn of<I: Serialize + ?Sized>(value: &I) -> Result<Self, serde_json::Error> {
        Ok(Self(Arc::from(serde_json::value::to_raw_value(value)?)))
    }

    /// The value.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn read<I: DeserializeOwned>(&self) -> Result<I, serde_json::Error> {
        serde_json::from_str(self.json())
    }

    /// Its text.
    #[must_use]
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Input {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Input {}

/// One run of a node that is to come. As JSON: `"node"`, or `["node", input]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The node.
    pub node: Arc<str>,
    /// What it was sent, if it takes an input.
    pub input: Option<Input>,
}

impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(input) = &self.input else { return serializer.serialize_str(&self.node) };
        let mut pair = serializer.serialize_seq(Some(2))?;
        pair.serialize_element(&self.node)?;
        pair.serialize_element(input)?;
        pair.end()
    }
}

impl<'de> Deserialize<'de> for Planned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NodeOrPair;
        impl<'de> Visitor<'de> for NodeOrPair {
            type Value = Planned;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a node, or a list of name and input")
            }
            fn visit_str<E>(self, name: &str) -> Result<Planned, E> {
                Ok(Planned { node: name.into(), input: None })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Planned, A::Error> {
                let node = pair.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let input = pair.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                Ok(Planned { node, input: Some(input) })
            }
        }
        deserializer.deserialize_any(NodeOrPair)
    }
}

/// One run of a node with an input of its own, as a fan-out asks for it. (Not the trait of that name: where both are
/// needed, write `longhaul_durable::Send`.)
#[derive(Debug, Clone)]
pub struct Send {
    pub(crate) to: Arc<str>,
    pub(crate) input: Result<Input, Arc<serde_json::Error>>,
}

impl Send {
    /// A run of `node` with this input. An input that cannot be written as JSON is reported when it is sent.
    pub fn new<I: Serialize + ?Sized>(node: &str, input: &I) -> Self {
        Self { to: node.into(), input: Input::of(input).map_err(Arc::new) }
    }

    pub(crate) fn planned(self) -> Result<Planned, (Arc<str>, Arc<serde_json::Error>)> {
        match self.input {
            Ok(input) => Ok(Planned { node: self.to, input: Some(input) }),
            Err(source) => Err((self.to, source)),
        }
    }
}

/// Where a node itself said to go. Empty, it goes along its edges. Recorded with the task's updates, and small:
/// `{"g":["a"],"s":[["work",{}]]}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Nodes to go to, or END.
    #[serde(rename = "g", default, skip_serializing_if = "Vec::is_empty")]
    pub goto: Vec<Arc<str>>,
    /// Runs with inputs.
    #[serde(rename = "s", default, skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<Planned>,
}

impl Route {
    /// Whether the node leaves it to its edges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.goto.is_empty() && self.sends.is_empty()
    }
}

/// What a node answers. A node that only changes the state may return its update itself.
#[derive(Debug)]
pub struct Flow<U> {
    update: Option<U>,
    goto: Vec<Arc<str>>,
    sends: Vec<Send>,
}

impl<U> Flow<U> {
    /// A change of the state.
    #[must_use]
    pub fn update(update: U) -> Self {
        Self { update: Some(update), ..Self::nothing() }
    }

    /// No change.
    #[must_use]
    pub fn nothing() -> Self {
        Self { update: None, goto: Vec::new(), sends: Vec::new() }
    }

    /// Goes to this node (or END) instead of along the node's edges. The graph must declare it with
    /// [`crate::GraphBuilder::goto`]. Said several times, the nodes run in parallel.
    #[must_use]
    pub fn goto(mut self, node: &str) -> Self {
        self.goto.push(node.into());
        self
    }

    /// Runs this node with an input of its own instead of going along the edges; several times in parallel. The graph
    /// must declare it with [`crate::GraphBuilder::goto`].
    #[must_use]
    pub fn send<I: Serialize + ?Sized>(mut self, node: &str, input: &I) -> Self {
        self.sends.push(Send::new(node, input));
        self
    }

    /// The update and the route; or the node whose input cannot be written as JSON.
    pub(crate) fn into_answer(self) -> Result<Answer<U>, (Arc<str>, Arc<serde_json::Error>)> {
        let sends = self.sends.into_iter().map(Send::planned).collect::<Result<_, _>>()?;
        Ok(Answer { updates: self.update.into_iter().collect(), route: Route { goto: self.goto, sends } })
    }
}

impl<U> From<U> for Flow<U> {
    fn from(update: U) -> Self {
        Self::update(update)
    }
}

/// What a task came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer<U> {
    /// Usually one; none when nothing changes; a shared subgraph gives one for each of its tasks, in order.
    pub(crate) updates: Vec<U>,
    /// Where to, if not along the edges.
    pub(crate) route: Route,
}
