//! The protocol at its edge: real requests to a real network. With `LONGHAUL_TEST_STORE=postgres` on a private server.

#[cfg(test)]
mod callers;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod other_bindings;
#[cfg(test)]
mod webhooks;
