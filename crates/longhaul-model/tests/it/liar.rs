//! A TCP server that reads an HTTP request properly and answers with whatever bytes the test wants.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// What to do after a request was read.
#[derive(Clone)]
pub(crate) enum Lie {
    /// Send these bytes and close.
    Bytes(String),
    /// Send the first, then the second for ever.
    Endless(String, String),
    /// Send these and say nothing more until the client goes away.
    Silence(String),
}

/// Serves one lie a connection, in order; the last one again and again.
pub(crate) struct Liar {
    pub(crate) base_url: String,
    requests: Arc<Mutex<Vec<String>>>,
    left: watch::Receiver<u32>,
    task: JoinHandle<()>,
}

impl Liar {
    pub(crate) async fn start(lies: Vec<Lie>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (leaving, left) = watch::channel(0);
        let seen = requests.clone();
        let task = tokio::spawn(async move {
            for turn in 0.. {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                seen.lock().unwrap().push(request);
                lie(&mut stream, &lies[turn.min(lies.len() - 1)]).await;
                leaving.send_modify(|clients| *clients += 1);
            }
        });
        Self { base_url, requests, left, task }
    }

    /// The requests read so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until a connection is over, by either side.
    pub(crate) async fn client_left(&mut self) {
        self.left.wait_for(|clients| *clients > 0).await.unwrap();
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn lie(stream: &mut TcpStream, lie: &Lie) {
    // A client that has gone away is part of some tests, so failing to write is not a failure here.
    match lie {
        Lie::Bytes(bytes) => {
            let _ = stream.write_all(bytes.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
        Lie::Endless(first, again) => {
            let _ = stream.write_all(first.as_bytes()).await;
            while stream.write_all(again.as_bytes()).await.is_ok() {}
        }
        Lie::Silence(first) => {
            let _ = stream.write_all(first.as_bytes()).await;
            let _ = stream.read(&mut [0; 64]).await;
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A whole HTTP answer with its length.
pub(crate) fn http(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// The head of an answer whose end is the connection's.
pub(crate) fn stream_head() -> String {
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n".to_owned()
}

/// An event with a piece of text.
pub(crate) fn text_event(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// The events that end an answer properly.
pub(crate) fn ending() -> &'static str {
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
}

/// A good answer as a stream.
pub(crate) fn good(text: &str) -> Lie {
    Lie::Bytes(format!("{}{}{}", stream_head(), text_event(text), ending()))
}
