//! A small HTTP server for pages under test: whatever a closure answers, on a free loopback port, until it is dropped.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// A request as a test needs it.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    /// A file that the browser keeps under this name.
    pub(crate) fn attachment(self, name: &'static str) -> Self {
        // The one header that a page's answers need beside these is smuggled in behind the media type.
        let media_type = format!("{}\r\nContent-Disposition: attachment; filename=\"{name}\"", self.media_type);
        Self { media_type: Box::leak(media_type.into_boxed_str()), ..self }
    }
}

pub(crate) fn html(body: impl Into<String>) -> Answer {
    let body = body.into();
    let title = if body.contains("<title>") { "" } else { "<title>Test</title>" };
    let page = format!("<!doctype html><html lang=en><meta charset=utf-8>{title}{body}");
    Answer { status: 200, media_type: "text/html; charset=utf-8", body: page }
}

pub(crate) fn status(status: u16) -> Answer {
    Answer { status, media_type: "text/plain", body: "nothing here".to_owned() }
}

type Handler = dyn Fn(&Request) -> Answer + Send + Sync;

pub(crate) struct Site {
    address: std::net::SocketAddr,
    stopped: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Site {
    pub(crate) fn serve(handler: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let handler: Arc<Handler> = Arc::new(handler);
        let thread = std::thread::spawn({
            let (stopped, seen) = (stopped.clone(), seen.clone());
            move || {
                for stream in listener.incoming().flatten() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let (handler, seen) = (handler.clone(), seen.clone());
                    std::thread::spawn(move || answer(stream, &*handler, &seen));
                }
            }
        });
        Self { address, stopped, seen, thread: Some(thread) }
    }

    /// The same page whatever is asked for, but 404 for a favicon.
    pub(crate) fn page(body: &str) -> Self {
        let body = body.to_owned();
        Self::serve(move |request| if request.path == "/" { html(body.clone()) } else { status(404) })
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `METHOD path` of every request so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, handler: &Handler, seen: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or("").to_owned(), words.next().unwrap_or("").to_owned());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some((_, value)) = line.split_once(':').filter(|(key, _)| key.eq_ignore_ascii_case("content-length")) {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    seen.lock().unwrap().push(format!("{method} {path}"));
    let answer = handler(&Request { method, path, body });
    let _ = write!(
        stream,
        "HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        answer.status,
        answer.media_type,
        answer.body.len(),
        answer.body
    );
}
