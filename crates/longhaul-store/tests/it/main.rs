//! The store's behaviour at its boundary, on real files.

#[cfg(test)]
mod blobs;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod support;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod writing;
