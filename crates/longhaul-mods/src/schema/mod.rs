//! The tables of the mods, one file for each. Every table begins with tenant and network; a released step is only ever
//! followed by another.

mod agents;
mod artifacts;
mod cache;
mod delegation;
mod feed;
mod files;
mod forum;
mod memory;
mod messaging;
mod social;
mod wiki;

use longhaul_store::Migrations;

/// The migrations of this crate; give them to [`longhaul_store::Store::open`].
pub const MIGRATIONS: Migrations = Migrations {
    component: "mods",
    steps: &[
        messaging::TABLES,
        files::TABLES,
        cache::TABLES,
        artifacts::TABLES,
        feed::TABLES,
        forum::TABLES,
        wiki::TABLES,
        social::TABLES,
        delegation::TABLES,
        memory::TABLES,
        agents::TABLES,
    ],
};
