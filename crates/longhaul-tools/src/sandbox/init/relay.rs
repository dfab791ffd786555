//! Carries connections between a Unix socket and a port of the sandbox's loopback, in either direction.
//!
//! Each direction of a connection ends by itself (half-close), so that a client may send, close its side, and read on.

use std::{
    io,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::event::{PollFd, Timespec};

use super::report;
use crate::sandbox::{
    app::SOCKET_NAME,
    bwrap::{APP_FOLDER, NET_FOLDER},
    plan::{Relay, Status},
};

/// Connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 128;
/// Between two tries to reach a port that does not accept yet.
const TRY_EVERY: Duration = Duration::from_millis(10);

/// In a command's sandbox: the application's port on loopback leads to its socket.
pub(super) fn from_port(port: u16) -> Result<(), String> {
    to_socket(port, format!("{APP_FOLDER}/{SOCKET_NAME}"))
}

/// In a command's sandbox: a port of its loopback leads to a socket of the harness.
pub(super) fn outward(relay: &Relay) -> Result<(), String> {
    to_socket(relay.port, format!("{NET_FOLDER}/{}", relay.socket))
}

fn to_socket(port: u16, path: String) -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|error| format!("cannot listen on port {port} inside: {error}"))?;
    serve(move || {
        let (near, _) = listener.accept()?;
        let far = UnixStream::connect(&path);
        Ok(far.map(|far| (Stream::Tcp(near), Stream::Unix(far))).ok())
    })
}

/// In the application's sandbox: connections to the socket lead to its port.
pub(super) fn from_socket(listener: UnixListener, port: u16) -> Result<(), String> {
    serve(move || {
        let (near, _) = listener.accept()?;
        let far = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        Ok(far.map(|far| (Stream::Unix(near), Stream::Tcp(far))).ok())
    })
}

/// Reports [`Status::Ready`] once the port accepts a connection.
pub(super) fn report_when_ready(port: u16) -> Result<(), String> {
    spawn(move || {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            pause(TRY_EVERY);
        }
        report(&Status::Ready);
    })
}

fn serve(mut accept: impl FnMut() -> io::Result<Option<(Stream, Stream)>> + Send + 'static) -> Result<(), String> {
    let open = Arc::new(AtomicUsize::new(0));
    spawn(move || {
        loop {
            match accept() {
                Ok(Some((near, far))) if open.load(Ordering::Relaxed) < CONNECTIONS_MAX => {
                    open.fetch_add(1, Ordering::Relaxed);
                    let count = open.clone();
                    let carried = spawn(move || {
                        carry(near, far);
                        count.fetch_sub(1, Ordering::Relaxed);
                    });
                    if carried.is_err() {
                        open.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                // Too many, or the far side does not answer: the near side is closed by dropping it.
                Ok(_) => {}
                // No file descriptors for a moment, or the peer went away.
                Err(_) => pause(TRY_EVERY),
            }
        }
    })
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                Self::Tcp(stream.try_clone()?)
            }
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    fn shutdown(&self, how: Shutdown) {
        // The peer may have closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        };
    }
}

impl io::Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl io::Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn carry(near: Stream, far: Stream) {
    let (Ok(near_again), Ok(far_again)) = (near.try_clone(), far.try_clone()) else { return };
    let back = thread::Builder::new().spawn(move || one_way(far_again, near_again));
    let Ok(back) = back else { return };
    one_way(near, far);
    // A panic in the other direction has already ended it.
    let _ = back.join();
}

fn one_way(mut from: Stream, mut to: Stream) {
    if io::copy(&mut from, &mut to).is_err() {
        // One side broke: nothing more can arrive.
        from.shutdown(Shutdown::Read);
    }
    to.shutdown(Shutdown::Write);
}

fn spawn(body: impl FnOnce() + Send + 'static) -> Result<(), String> {
    thread::Builder::new().spawn(body).map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Waits between two tries of a condition that nothing announces.
fn pause(duration: Duration) {
    let none: &mut [PollFd<'_>] = &mut [];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(duration.subsec_nanos()) };
    // An interrupted wait only means an earlier try.
    let _ = rustix::event::poll(none, Some(&timeout));
}
