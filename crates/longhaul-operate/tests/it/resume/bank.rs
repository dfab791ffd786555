//! The world outside: a payment server on loopback, in the test's own process, which counts what arrives.
//!
//! It deduplicates by key where a request has one, as a careful service does; a shipment has none.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// What has arrived: kind, order, key, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    arrivals: Vec<(String, String)>,
    /// What was done, by kind and order, or by key.
    done: BTreeMap<String, u32>,
    receipts: BTreeMap<String, String>,
}

impl Book {
    /// Serves until the test's process ends.
    pub(crate) fn open() -> (Self, SocketAddr) {
        let book = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = book.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                // A client that is killed in the middle is none of the server's business.
                thread::spawn(move || drop(serving.serve(&stream)));
            }
        });
        (book, address)
    }

    /// `KIND ORDER KEY`, where the key may be `-`; the answer is the receipt, or `none` to a question.
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, order, key] = words[..] else { return Ok(()) };
        let answer = {
            let mut inner = self.0.lock().unwrap();
            if kind == "asked" {
                inner.receipts.get(&format!("ship {order}")).cloned().unwrap_or_else(|| "none".to_owned())
            } else {
                inner.arrivals.push((kind.to_owned(), order.to_owned()));
                let name = if key == "-" { format!("{kind} {order}") } else { key.to_owned() };
                let known = inner.receipts.get(&name).cloned().filter(|_| key != "-");
                known.unwrap_or_else(|| {
                    *inner.done.entry(format!("{kind} {order}")).or_default() += 1;
                    // The same whichever life it is made in, so that ends can be compared.
                    let receipt = format!("{kind}-receipt-of-{order}");
                    inner.receipts.insert(name, receipt.clone());
                    receipt
                })
            }
        };
        (&*stream).write_all(format!("{answer}\n").as_bytes())
    }

    /// How often this was really done for the order.
    pub(crate) fn done(&self, kind: &str, order: &str) -> u32 {
        self.0.lock().unwrap().done.get(&format!("{kind} {order}")).copied().unwrap_or(0)
    }

    /// How often somebody came for it.
    pub(crate) fn arrivals(&self, kind: &str, order: &str) -> usize {
        self.0.lock().unwrap().arrivals.iter().filter(|(is, of)| is == kind && of == order).count()
    }
}

/// A request to the server.
pub(crate) async fn request(address: SocketAddr, kind: &str, order: &str, key: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(format!("{kind} {order} {key}\n").as_bytes()).await?;
    let mut answer = String::new();
    tokio::io::BufReader::new(stream).read_line(&mut answer).await?;
    Ok(answer.trim().to_owned())
}
