//! Simultaneous decisions about one object: the first on a version stands, others are told what stands; whoever may
//! decide over others overrules, and what was overruled is kept.

use longhaul_mods::agents::{Desk, LocalLink};
use longhaul_network::{Address, Registration, Reply, Via};
use serde_json::{Value, json};

use super::ground::{CHIEFS, Ground, Open, Person};

async fn decide(desk: &Desk, base: i64, value: &str) -> Reply {
    let payload = json!({"object": "plan/index", "base_version": base, "value": value, "reason": "it is faster"});
    send(desk, "decision.make", payload).await
}

async fn send(desk: &Desk, name: &str, payload: Value) -> Reply {
    let to = Address::Mod("longhaul.mods.decisions".to_owned());
    desk.send(name, to, payload.as_object().unwrap().clone()).await.unwrap()
}

async fn chief(open: &Open) -> Desk {
    let registration =
        Registration { credential: CHIEFS.to_owned(), ..Registration::new("chief".parse().unwrap(), Via::InProcess) };
    let (link, _) = LocalLink::join(&open.network, registration).await.unwrap();
    Desk::new(std::sync::Arc::new(link), Default::default(), "chief")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_decisions_made_at_the_same_time_one_stands_and_the_others_learn_which() {
    let ground = Ground::new();
    let open = ground.open(&["decisions"]).await;
    let mut deciding = Vec::new();
    for number in 0..8 {
        let person = Person::join(&open, &format!("agent-{number}")).await;
        deciding.push(tokio::spawn(async move { (number, decide(&person.desk, 0, &format!("HNSW {number}")).await) }));
    }
    let mut replies = Vec::new();
    for one in deciding {
        replies.push(one.await.unwrap());
    }
    let (stands, told): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(_, reply)| reply.success);
    assert_eq!(stands.len(), 1, "{stands:?}");
    let winner = format!("HNSW {}", stands[0].0);
    for (_, reply) in &told {
        let data = reply.data.as_ref().unwrap();
        assert_eq!((&data["conflict"], &data["standing"]["value"]), (&json!(true), &json!(winner)), "{reply:?}");
        assert!(reply.message.contains("decide again on that version"), "{}", reply.message);
    }
    // Knowing it, the next decides on what stands.
    let eve = Person::join(&open, "eve").await;
    let next = decide(&eve.desk, 1, "IVF").await;
    assert_eq!((next.success, &next.data.unwrap()["version"]), (true, &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_decide_over_others_overrules_and_nothing_is_lost() {
    let ground = Ground::new();
    let open = ground.open(&["decisions"]).await;
    let ada = Person::join(&open, "ada").await;
    let chief = chief(&open).await;
    assert!(decide(&ada.desk, 0, "HNSW").await.success);
    let overruled = decide(&chief, 0, "DiskANN").await;
    assert_eq!((overruled.success, &overruled.data.unwrap()["overrules"]), (true, &json!([1])));
    assert!(!decide(&ada.desk, 1, "HNSW again").await.success, "and is told that it was");
    let history = send(&ada.desk, "decision.history", json!({"object": "plan/index"})).await.data.unwrap();
    let values: Vec<&Value> = history["decisions"].as_array().unwrap().iter().map(|one| &one["value"]).collect();
    assert_eq!(values, ["DiskANN", "HNSW"]);
    assert!(!decide(&ada.desk, 7, "from nowhere").await.success, "a version that is not there cannot have been seen");
}
