//! A stable address for the browser. The application's port may change when it is restarted; cookies, local storage and
//! the open page belong to an origin, so a small relay keeps the origin and forwards bytes to wherever the application is.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Most connections at a time; a browser opens six to one origin, and web sockets beside them.
const CONNECTIONS_MAX: usize = 64;

/// The relay. It ends with its owner.
pub(super) struct Front {
    base_url: String,
    app: Arc<Mutex<String>>,
    task: JoinHandle<()>,
}

impl Front {
    /// Listens on a free loopback port and forwards to the application at `base_url`.
    pub(super) async fn open(base_url: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let front = format!("http://{}", listener.local_addr()?);
        let app = Arc::new(Mutex::new(host_of(base_url)));
        let task = tokio::spawn(relay(listener, app.clone()));
        Ok(Self { base_url: front, app, task })
    }

    /// Where the browser finds the application.
    pub(super) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// From now on forwards there.
    pub(super) fn forward_to(&self, base_url: &str) {
        *self.app.lock().unwrap_or_else(PoisonError::into_inner) = host_of(base_url);
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// `127.0.0.1:8000` of `http://127.0.0.1:8000/`.
pub(super) fn host_of(base_url: &str) -> String {
    let rest = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

async fn relay(listener: TcpListener, app: Arc<Mutex<String>>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        if connections.len() >= CONNECTIONS_MAX {
            let _ = connections.join_next().await; // its outcome was the browser's to see
        }
        let host = app.lock().unwrap_or_else(PoisonError::into_inner).clone();
        connections.spawn(async move {
            // An application that is not there closes the connection, as it would without us.
            if let Ok(mut server) = TcpStream::connect(&host).await {
                let _ = copy_bidirectional(&mut client, &mut server).await; // either side may hang up
            }
        });
    }
}
