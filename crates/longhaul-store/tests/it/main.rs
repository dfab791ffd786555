//! The store's behaviour at its boundary, on real files and real servers.

#[cfg(test)]
mod blobs;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod cutter;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod support;
#[cfg(test)]
mod writing;
