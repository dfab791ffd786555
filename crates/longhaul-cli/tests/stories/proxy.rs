//! A proxy between the program and the cassette's server that takes something out of the requests. HTTP/1.1, one request
//! a connection; answers are passed on as they come.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use serde_json::Value;

/// What is done to a request's JSON.
pub(crate) type Edit = fn(&mut Value);

/// The proxy, until it is dropped.
pub(crate) struct Proxy {
    address: SocketAddr,
    edit: Arc<Mutex<Edit>>,
    ended: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Passes everything on to `upstream` unchanged, until told otherwise.
    pub(crate) fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let edit: Arc<Mutex<Edit>> = Arc::new(Mutex::new(untouched));
        let ended = Arc::new(AtomicBool::new(false));
        let (shared, over) = (edit.clone(), ended.clone());
        let listening = thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let edit = *shared.lock().unwrap();
                // A client that goes away in the middle is its own affair.
                thread::spawn(move || pass(client, upstream, edit));
            }
        });
        Self { address, edit, ended, listening: Some(listening) }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    pub(crate) fn edit(&self, edit: Edit) {
        *self.edit.lock().unwrap() = edit;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.listening.take().unwrap().join();
    }
}

/// Leaves the request as it is.
pub(crate) fn untouched(_: &mut Value) {}

fn pass(mut client: TcpStream, upstream: SocketAddr, edit: Edit) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap(),
            "connection" => {}
            _ if line.trim().is_empty() => break,
            _ => head.push_str(&line),
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if !body.is_empty() {
        let mut request: Value = serde_json::from_slice(&body).unwrap();
        edit(&mut request);
        body = request.to_string().into_bytes();
    }
    let mut server = TcpStream::connect(upstream)?;
    write!(server, "{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
    server.write_all(&body)?;
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Both)
}
