//! The workspace at its boundary: a real store, and everything that is kept of tasks.

#[cfg(test)]
mod ground;
#[cfg(test)]
mod migration;
#[cfg(test)]
mod records;
#[cfg(test)]
mod reviewing;
#[cfg(test)]
mod sessions;
