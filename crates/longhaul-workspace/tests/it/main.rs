//! The workspace at its boundary: a real store, and everything that is kept of tasks.

#[cfg(test)]
mod context;
#[cfg(test)]
mod evidence;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod migration;
#[cfg(test)]
mod milestones;
#[cfg(test)]
mod records;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod retention;
mod reviewing;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod searching;
#[cfg(test)]
mod sessions;
