//! A cluster's life.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use longhaul_testbed::PrivateCluster;

const OWNER: &str = "LONGHAUL_TEST_CLUSTER_OWNER";

#[test]
fn a_database_keeps_what_was_committed_through_crash_and_restart() {
    let cluster = PrivateCluster::shared().unwrap();
    let (database, other) = (cluster.create_database().unwrap(), cluster.create_database().unwrap());
    database.psql("CREATE TABLE a (x int); INSERT INTO a VALUES (1)").unwrap();
    assert!(other.psql("SELECT x FROM a").is_err());
    cluster.crash_and_restart().unwrap();
    assert_eq!(database.psql("SELECT x FROM a").unwrap(), "1");
    cluster.restart().unwrap();
    assert_eq!(database.psql("SHOW fsync").unwrap(), "on");
    database.cut_connections().unwrap();
    let stranger = Command::new("psql")
        .args(["-h", "127.0.0.1", "-U", "longhaul", "-w", "-d", "postgres", "-c", "SELECT 1", "-p"])
        .arg(cluster.port().to_string())
        .env_remove("PGPASSWORD")
        .output()
        .unwrap();
    assert!(!stranger.status.success());
}

#[test]
fn the_server_ends_when_its_process_is_killed() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cluster::owner_process", "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let url = lines.find_map(|line| line.unwrap().split("url=").nth(1).map(str::to_owned)).unwrap();
    let mut client = Command::new("psql")
        .args([&url, "-At", "-c", "SELECT 'connected'", "-c", "SELECT pg_sleep(600)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(answers.next().unwrap().unwrap(), "connected");
    owner.kill().unwrap();
    owner.wait().unwrap();
    // It ends when the server ends.
    assert!(!client.wait().unwrap().success());
}

/// Not a test by itself: the process that the test above kills.
#[test]
fn owner_process() {
    if std::env::var_os(OWNER).is_none() {
        return;
    }
    let cluster = PrivateCluster::start().unwrap();
    println!("url={}", cluster.create_database().unwrap().url());
    let _ = std::io::stdin().read_line(&mut String::new());
}
