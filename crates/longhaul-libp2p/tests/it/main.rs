//! A node at its boundary: real networks, real connections, peers in three languages.

#[cfg(test)]
mod gossip;
#[cfg(test)]
mod peers;
#[cfg(test)]
mod raw;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
