//! The gateway from outside: a real server on loopback, a real client.

mod doors;
mod house;
