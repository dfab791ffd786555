//! The store's behaviour at its boundary, on real files and real servers.

#[cfg(test)]
mod backups;
#[cfg(test)]
mod blobs;
#[cfg(test)]
mod bucket;
#[cfg(test)]
mod checking;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod cutter;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod full_disk;
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
mod processes;
#[cfg(test)]
mod s3_server;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod writing;
