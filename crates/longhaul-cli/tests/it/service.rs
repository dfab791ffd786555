//! Something that listens where a model's service is expected, and answers as it was told to.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// What it does with a request for the model's work (`POST`). The list of models is a proper one unless told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// Refuses every key.
    WrongKey,
    /// Is a web site.
    WebPage,
    /// Takes the request and never answers.
    Silent,
    /// Is overloaded.
    Overloaded,
}

/// A running service. Its threads end with the test's process.
pub(crate) struct Service {
    pub(crate) base_url: String,
    posts: Receiver<()>,
}

impl Service {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (tell, posts) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let tell = tell.clone();
                thread::spawn(move || {
                    serve(&stream, manner, &|| {
                        let _ = tell.send(());
                    })
                });
            }
        });
        Self { base_url, posts }
    }

    /// Returns when the model was asked for its work.
    pub(crate) fn asked(&self) {
        self.posts.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

/// Answers one request; the connection ends with it.
fn serve(stream: &TcpStream, manner: Manner, on_post: &dyn Fn()) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(bytes) = line.strip_prefix("content-length:") {
            length = bytes.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let post = first.starts_with("POST");
    if post {
        on_post();
    }
    let (status, kind, body) = match (manner, post) {
        (Manner::WrongKey, _) => {
            ("401 Unauthorized", "application/json", r#"{"error":{"message":"Incorrect API key provided"}}"#)
        }
        (Manner::WebPage, _) => ("200 OK", "text/html", "<html><body>Welcome</body></html>"),
        (Manner::Silent | Manner::Overloaded, false) => {
            ("200 OK", "application/json", r#"{"object":"list","data":[{"id":"m","object":"model"}]}"#)
        }
        (Manner::Silent, true) => {
            let _ = reader.read(&mut [0]); // until the asker goes away
            return None;
        }
        (Manner::Overloaded, true) => ("529 Overloaded", "application/json", r#"{"error":{"message":"overloaded"}}"#),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    (&*stream).write_all(answer.as_bytes()).ok()
}
