//! Who may come to the door and how much: bounds, names of the host, pages, addresses that show wrong secrets, TLS.

mod guard;
mod limits;
mod rate;
mod tls;

pub(crate) use guard::{Guard, Stranger};
pub use limits::Limits;
pub(crate) use rate::Buckets;
pub use tls::TlsSettings;
pub(crate) use tls::acceptor;
