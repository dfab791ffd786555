//! Servers that die, forget, stand still or are none.

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::{Duration, Instant},
};

use longhaul_memory::remote::{RemoteError, RemoteVectors};
use longhaul_testbed::MilvusServer;

use crate::servers::{Question, connect, kind, rows, space, vector};

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_is_away_and_comes_back_with_what_it_acknowledged() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let mut question = Question::open(&server.uri(), "killed").await;
    question.apply("p", &rows(0..200)).await;
    server.kill().unwrap();
    let started = Instant::now();
    let error = question.nearest("p", &vector(1), 10).await.unwrap_err();
    assert!(matches!(error, RemoteError::Away(_)), "{error:?}");
    let error = question.milvus.apply(&question.space, "p", &rows([300])).await.unwrap_err();
    assert!(matches!(error, RemoteError::Away(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
    server.start_again().unwrap();
    let opened = question.milvus.open(&question.space).await.unwrap();
    assert_eq!(opened.incarnation, question.incarnation);
    assert_eq!(question.milvus.count(&question.space, "p").await.unwrap(), 200);
    assert_eq!(question.seqs("p", &vector(7), 1).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lost_its_data_is_noticed() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let mut question = Question::open(&server.uri(), "wiped").await;
    question.apply("p", &rows(0..20)).await;
    server.wipe().unwrap();
    server.start_again().unwrap();
    let error = question.nearest("p", &vector(1), 10).await.unwrap_err();
    assert!(matches!(error, RemoteError::Lost(_)), "{error:?}");
    // Somebody else has made the collection again: an empty answer of it is none.
    connect(&server.uri()).open(&question.space).await.unwrap();
    let error = question.nearest("p", &vector(1), 10).await.unwrap_err();
    assert!(matches!(error, RemoteError::Lost(_)), "{error:?}");
    question.incarnation = question.milvus.open(&question.space).await.unwrap().incarnation;
    assert_eq!(question.milvus.count(&question.space, "p").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stands_still_costs_no_more_than_the_limit() {
    let mut server = MilvusServer::start(kind()).unwrap();
    let mut question = Question::open(&server.uri(), "still").await;
    question.apply("p", &rows(0..20)).await;
    assert_eq!(question.seqs("p", &vector(1), 1).await, [1]);
    server.pause().unwrap();
    let started = Instant::now();
    let error = question.nearest("p", &vector(1), 10).await.unwrap_err();
    assert!(matches!(error, RemoteError::Away(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_millis(2_500), "{:?}", started.elapsed());
    server.resume().unwrap();
    let mut found = question.nearest("p", &vector(1), 1).await;
    while matches!(found, Err(RemoteError::Away(_))) && started.elapsed() < Duration::from_secs(30) {
        found = question.nearest("p", &vector(1), 1).await;
    }
    assert_eq!(found.unwrap()[0].seq, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_milvus_is_an_error_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    // Answers everything with the same nonsense; ends with the process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut asked = [0; 1024];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    });
    let started = Instant::now();
    let error = connect(&uri).open(&space("garbage")).await.unwrap_err();
    assert!(matches!(error, RemoteError::Away(_) | RemoteError::Unusable(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(35));
}
