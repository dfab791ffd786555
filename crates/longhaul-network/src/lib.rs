//! Agent networks: who takes part, the events they send each other, and the port through which mods answer.
//!
//! It owns the registry (agents, groups, channels), the log of events with its routes and cursors, delivery, and the
//! order in which mods see an event. It knows no wire: transports are views in front of [`Network`], each in a crate
//! of its own. Invariants: an event that was answered with success is on the disk; of one id from one sender there is
//! one event, whatever is repeated; a receiver sees its events in the order of the log; nobody acts as somebody else,
//! as every call takes a [`Member`], which only [`Network::authenticate`] and [`Network::register`] make.
//!
//! The way of an event: `draft → admitted (who, how large, how often) → one transaction: mods in their order, each may
//! answer, emit and write rows; the log's row → commit → receivers that wait are woken → each reads from its cursor`.
//! A post in a channel is one row; what a member has had is one cursor.

mod admission;
mod background;
mod credentials;
mod digest;
mod event;
mod history;
mod inbox;
mod locks;
mod log;
mod member;
mod mods;
mod network;
mod opening;
mod overhear;
mod pump;
mod rate;
mod reading;
mod refusal;
mod registry;
mod responses;
mod schema;
mod sending;
pub mod settings;
mod stage;
mod system;
mod wire;

pub use credentials::of_password;
pub use event::{
    Address, Draft, Event, EventName, ID_BYTES_MAX, ID_CHARS_MAX, NAME_BYTES_MAX, Pattern, Reply, Sender, Visibility,
};
pub use history::{History, Said};
pub use member::{AgentId, AgentView, Inbox, Member, Received, Registered, Registration, Via};
pub use mods::{Backstage, Manifest, Mod, ModEvent, ModTool, Outcome, Prepared, Stage};
pub use network::{ChannelView, Network, NetworkView};
pub use overhear::Ear;
pub use refusal::{Refusal, RefusalKind};
pub use schema::MIGRATIONS;
