//! Webhooks: who is told of a task's updates, where that may be, and the telling.

mod courier;
pub(crate) mod rows;
pub(crate) mod target;

pub(crate) use courier::Courier;
