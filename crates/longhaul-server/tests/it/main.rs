//! The gateway from outside: a real server on loopback, a real client.

mod coming_in;
mod doors;
mod going_out;
mod house;
mod keeping;
mod killing;
mod listening;
mod page;
mod streams;
