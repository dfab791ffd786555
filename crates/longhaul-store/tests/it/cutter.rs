//! A connection between a store and its server that is cut in the middle of a commit, when a test plans it.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// What of the next commit is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The server never hears of it.
    Question,
    /// The server has done it, and nobody hears of that.
    Answer,
}

/// Passes on what comes, until a commit is to be cut.
pub(crate) struct Cutter {
    pub(crate) port: u16,
    plan: Arc<Mutex<Option<Cut>>>,
    cuts: Arc<AtomicUsize>,
}

impl Cutter {
    /// Stands before the server at this port of 127.0.0.1.
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (plan, cuts) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
        let (planned, counted) = (plan.clone(), cuts.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await.unwrap();
                tokio::spawn(pass(client, server, planned.clone(), counted.clone()));
            }
        });
        Self { port, plan, cuts }
    }

    pub(crate) fn plan(&self, cut: Cut) {
        *self.plan.lock().unwrap() = Some(cut);
    }

    pub(crate) fn cuts(&self) -> usize {
        self.cuts.load(Ordering::SeqCst)
    }
}

async fn pass(mut client: TcpStream, mut server: TcpStream, plan: Arc<Mutex<Option<Cut>>>, cuts: Arc<AtomicUsize>) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(bytes @ 1..) = read else { return };
                let commits = asked[..bytes].windows(8).any(|word| word == b"; COMMIT");
                let cut = if commits { plan.lock().unwrap().take() } else { None };
                if cut.is_some() {
                    cuts.fetch_add(1, Ordering::SeqCst);
                }
                if cut == Some(Cut::Question) {
                    return;
                }
                server.write_all(&asked[..bytes]).await.unwrap();
                if cut == Some(Cut::Answer) {
                    // Once the server answers it has committed.
                    assert!(server.read(&mut answered).await.unwrap() > 0);
                    return;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(bytes @ 1..) = read else { return };
                if client.write_all(&answered[..bytes]).await.is_err() {
                    return;
                }
            }
        }
    }
}
