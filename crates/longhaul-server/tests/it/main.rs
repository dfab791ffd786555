//! The gateway from outside: a real server on loopback, a real client.

mod bounds;
mod changes;
mod coming_in;
mod description;
mod doors;
mod going_out;
mod house;
mod keeping;
mod killing;
mod listening;
mod page;
mod streams;
mod tls;
mod work;
