//! The five questions of a process that comes back, each answered on both stores: what may run again and what not, which
//! live resources it needs, where it goes on, whether what was kept can be trusted, why it failed.

mod again;
mod bank;
mod resources;
mod trust;
mod where_on;
