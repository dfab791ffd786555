//! How many authenticated questions about a task the gateway answers on loopback, and how soon: a real store in a file,
//! a real server, real connections that stay open. Client and server share the machine's cores.
//!
//! `cargo xtask bench gateway` builds and runs it, and prints its figures with the bars. Each question names one of a
//! thousand tasks; each answer is checked to be about it. Connections ask one question at a time.
//!
//! Options: `--seconds N` (5), `--connections N` (16), `--tasks N` (1000).

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use longhaul_core::{Ambient, Scope};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_server::{
    Gateway, Limits, Parts, Server, ServerSettings,
    keys::{NewKey, Role},
};
use longhaul_store::{Store, StoreError, StoreSettings, tasks};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// Answers before the clock starts: connections are open and caches are warm then.
const WARM_UP: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut seconds, mut connections, mut many) = (5, 16, 1_000);
    let args: Vec<String> = std::env::args().skip(1).collect();
    for pair in args.chunks(2) {
        match pair {
            [name, value] if name == "--seconds" => seconds = value.parse()?,
            [name, value] if name == "--connections" => connections = value.parse()?,
            [name, value] if name == "--tasks" => many = value.parse()?,
            _ => return Err(format!("unknown option {pair:?}: --seconds N, --connections N, --tasks N").into()),
        }
    }
    let serving = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let dir = tempfile::tempdir()?;
    let (address, requests, shutdown) = serving.block_on(serve(dir.path(), many))?;
    let over = Arc::new(AtomicBool::new(false));
    let asking = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = asking.block_on(async {
        let requests = Arc::new(requests);
        let started = Instant::now();
        let asking: Vec<_> = (0..connections)
            .map(|number| tokio::spawn(ask(address, requests.clone(), number, started, over.clone())))
            .collect();
        tokio::time::timeout(WARM_UP + Duration::from_secs(seconds), std::future::pending::<()>()).await.ok();
        over.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for one in asking {
            all.extend(one.await.map_err(io::Error::other)??);
        }
        Ok::<_, io::Error>(all)
    })?;
    shutdown.cancel();
    print(measured, seconds, connections);
    Ok(())
}

/// A server over a store with so many tasks, and a request for each.
async fn serve(
    dir: &std::path::Path,
    many: usize,
) -> Result<(std::net::SocketAddr, Vec<Question>, CancellationToken), Box<dyn std::error::Error>> {
    let ambient = Ambient::system();
    let sets = [
        longhaul_durable::MIGRATIONS,
        longhaul_memory::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_server::MIGRATIONS,
    ];
    let store = Store::open(StoreSettings::new(dir), ambient.clone(), &sets).await?;
    let scope = Scope::single_user();
    let made = store.write({
        let scope = scope.clone();
        move |tx| {
            let new = |number: usize| tasks::NewTask {
                thread: format!("thread-{number}").parse().expect("a literal thread id"),
                kind: "bench".to_owned(),
                title: format!("task number {number} of the bench"),
                dir: None,
                model: None,
                data: serde_json::json!({ "number": number }),
            };
            (0..many).map(|number| tasks::create(tx, &scope, None, new(number))).collect::<Result<Vec<_>, StoreError>>()
        }
    });
    let made = made.await?;
    let limits = Limits { requests_per_second: u32::MAX, requests_burst: u32::MAX, ..Limits::default() };
    let (runtime, memory) = (Runtime::new(store.clone(), ambient), Memory::new(store.clone(), None));
    let gateway = Gateway::new(Parts { store, runtime, memory, graphs: [].into() }, limits);
    let key = gateway.keys().create(NewKey { role: Role::Viewer, ..NewKey::first(scope) }).await?;
    let server = Server::bind(gateway, ServerSettings::new("127.0.0.1:0".parse()?)).await?;
    let (address, shutdown) = (server.address(), CancellationToken::new());
    tokio::spawn(server.run(shutdown.clone()));
    let requests = made.into_iter().map(|task| {
        let id = task.scope.task.to_string();
        let text = format!(
            "GET /v1/tasks/{id} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nAccept: application/json\r\n\r\n",
            key.secret.expose()
        );
        Question { text: text.into_bytes(), id: id.into_bytes() }
    });
    Ok((address, requests.collect(), shutdown))
}

struct Question {
    text: Vec<u8>,
    id: Vec<u8>,
}

/// Asks until it is over; how long each answer took, in microseconds, without those of the warm-up.
async fn ask(
    address: std::net::SocketAddr,
    questions: Arc<Vec<Question>>,
    number: usize,
    started: Instant,
    over: Arc<AtomicBool>,
) -> io::Result<Vec<u32>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut took, mut answer) = (Vec::with_capacity(100_000), Vec::with_capacity(8 * 1024));
    let mut next = number * 7;
    while !over.load(Ordering::Relaxed) {
        let question = &questions[next % questions.len()];
        next += 1;
        let begun = Instant::now();
        stream.write_all(&question.text).await?;
        answer.clear();
        let end = loop {
            if stream.read_buf(&mut answer).await? == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
            if let Some(end) = end_of(&answer) {
                break end;
            }
        };
        if begun.duration_since(started) > WARM_UP {
            took.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        let right =
            answer.starts_with(b"HTTP/1.1 200 ") && answer.windows(question.id.len()).any(|part| part == question.id);
        if !right || end != answer.len() {
            return Err(io::Error::other(format!("a wrong answer: {}", String::from_utf8_lossy(&answer))));
        }
    }
    Ok(took)
}

/// Where the answer ends, once all of it has come.
fn end_of(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    (answer.len() >= head + length).then_some(head + length)
}

fn print(mut took: Vec<u32>, seconds: u64, connections: usize) {
    took.sort_unstable();
    let at = |part: f64| took.get(((took.len() as f64) * part) as usize).copied().unwrap_or(u32::MAX);
    let figures = serde_json::json!({
        "requests": took.len(),
        "per_second": took.len() as f64 / seconds as f64,
        "connections": connections,
        "p50_us": at(0.5),
        "p99_us": at(0.99),
        "max_us": took.last(),
    });
    println!("{figures}");
}
