//! The gateway from outside: a real server on loopback, a real client.

mod coming_in;
mod doors;
mod house;
mod listening;
mod streams;
