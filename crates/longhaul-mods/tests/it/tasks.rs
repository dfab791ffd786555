//! Tasks from one agent to another, deadlines, routing to who fits, trust from outcomes, the social graph.

use std::time::Duration;

use serde_json::{Value, json};

use crate::hall::{Guest, Hall, Open};

fn hall() -> Hall {
    Hall::new(&[("delegation", json!({})), ("discovery", json!({}))])
}

/// The coordinator and the three experts, with their keywords.
async fn community(open: &Open) -> [Guest; 4] {
    let expert = |domain: &str, keywords: [&str; 4]| json!({"domain": domain, "keywords": keywords});
    [
        open.join("coordinator").await,
        open.join_expert("python_expert", expert("python", ["python", "django", "flask", "async"])).await,
        open.join_expert("milvus_expert", expert("milvus", ["milvus", "vector", "index", "performance"])).await,
        open.join_expert("devops_expert", expert("devops", ["deployment", "docker", "kubernetes", "operations"])).await,
    ]
}

async fn assigned(guest: &Guest) -> Value {
    guest.waits_for("task.notification.assigned").await[0].payload["task_id"].clone()
}

async fn done_by(guest: &Guest, task: &Value) {
    guest.ask("task.accept", json!({"task_id": task})).await;
    guest.ask("task.complete", json!({"task_id": task, "result": {"answer": "yes"}})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_accepted_reported_on_and_completed_by_its_assignee_alone() {
    let hall = hall();
    let open = hall.open().await;
    let (boss, worker, other) = (open.join("boss").await, open.join("worker").await, open.join("other").await);
    let payload = json!({"assignee_id": "worker", "description": "count", "payload": {"to": 3}, "timeout_seconds": 60});
    let given = boss.ask("task.delegate", payload.clone()).await;
    assert_eq!(given["status"], "submitted");
    let task = given["task_id"].clone();
    let told = worker.waits_for("task.notification.assigned").await;
    assert_eq!(told[0].payload["payload"]["to"], 3);
    assert_eq!(told[0].payload["delegator_id"], "boss");
    let it = json!({"task_id": task});

    assert_eq!(other.refused("task.accept", it.clone()).await, "TASK_NOT_FOUND", "it is none of theirs");
    assert_eq!(boss.refused("task.accept", it.clone()).await, "NOT_ASSIGNEE");
    assert_eq!(worker.refused("task.complete", it.clone()).await, "WRONG_STATE");
    worker.ask("task.accept", it.clone()).await;
    let report = json!({"task_id": task, "progress": {"message": "two", "data": {"n": 2}}});
    assert_eq!(worker.ask("task.report", report).await["progress_count"], 1);
    worker.ask("task.complete", json!({"task_id": task, "result": {"n": 3}})).await;
    assert_eq!(worker.refused("task.fail", it.clone()).await, "WRONG_STATE");
    assert_eq!(boss.refused("task.cancel", it.clone()).await, "WRONG_STATE");
    let heard: Vec<String> = boss.names_heard().await.into_iter().filter(|name| name.starts_with("task.")).collect();
    let expected = ["accepted", "progress", "completed"].map(|what| format!("task.notification.{what}"));
    assert_eq!(heard, expected);

    let seen = boss.ask("task.get", it.clone()).await;
    assert_eq!((&seen["status"], &seen["result"]["n"]), (&json!("completed"), &json!(3)));
    assert_eq!(seen["progress"][0]["message"], "two");
    assert_eq!(other.refused("task.get", it).await, "TASK_NOT_FOUND");
    let mine = worker.ask("task.list", json!({"filter": {"role": "assigned_to_me", "status": ["completed"]}})).await;
    assert_eq!(mine["total_count"], 1);
    assert_eq!(other.ask("task.list", json!({})).await["total_count"], 0);
    let nobody = json!({"assignee_id": "ghost", "description": "x"});
    assert_eq!(boss.refused("task.delegate", nobody).await, "AGENT_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_task_once_even_over_a_restart() {
    let hall = hall();
    let open = hall.open().await;
    let (boss, worker) = (open.join("boss").await, open.join("worker").await);
    let payload = json!({"assignee_id": "worker", "description": "hurry", "timeout_seconds": 30});
    let task = boss.ask("task.delegate", payload).await["task_id"].clone();
    open.network.close().await;
    drop((boss, worker, open));

    // Its lease has ended as well, so that the name may be had again.
    hall.clock.advance(Duration::from_secs(61));
    let open = hall.open().await;
    let boss = open.join("boss").await;
    assert_eq!(boss.waits_for("task.notification.timeout").await[0].payload["task_id"], task);
    let seen = boss.ask("task.get", json!({"task_id": task})).await;
    assert_eq!((&seen["status"], &seen["is_timeout"]), (&json!("failed"), &json!(true)));
    let early = json!({"assignee_id": "worker", "description": "later", "timeout_seconds": 30});
    let later = boss.ask("task.delegate", early).await["task_id"].clone();
    let forged = boss.send("task.expire", "", json!({"task_id": later, "attempt": 1})).await.expect("answered");
    assert!(!forged.success, "nobody else's word ends a task");
    assert_eq!(boss.ask("task.get", json!({"task_id": later})).await["status"], "submitted");
    let trust = boss.ask("social.trust.get", json!({"agent_id": "worker"})).await;
    assert_eq!(trust["timed_out"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_go_to_who_knows_and_elsewhere_when_that_comes_to_nothing() {
    let hall = hall();
    let open = hall.open().await;
    let [coordinator, python, milvus, devops] = community(&open).await;
    let route = |text: &str| json!({"description": text, "fallback_assignee_id": "devops_expert"});
    for (question, expert) in [
        ("How do I write async views in Django?", "python_expert"),
        ("Which vector index has the best performance?", "milvus_expert"),
        ("a kubernetes deployment that restarts", "devops_expert"),
        ("what shall we cook", "devops_expert"),
    ] {
        let routed = coordinator.ask("task.route", route(question)).await;
        assert_eq!(routed["assignee_id"], expert, "{question}: {routed}");
    }
    let lost = json!({"description": "what shall we cook"});
    assert_eq!(coordinator.refused("task.route", lost).await, "NOBODY_FITS");

    // Two know of it; the one who declines is followed by the other.
    let both = json!({"description": "run flask and python in docker"});
    let routed = coordinator.ask("task.route", both).await;
    assert_eq!(routed["assignee_id"], "python_expert");
    assert_eq!(routed["matched_count"], 2);
    let task = routed["task_id"].clone();
    let declined = python.ask("task.reject", json!({"task_id": task, "reason": "busy"})).await;
    assert_eq!(declined["rerouted_to"], "devops_expert");
    let told = coordinator.waits_for("task.notification.rerouted").await;
    assert_eq!(told[0].payload["previous_assignee_id"], "python_expert");
    // The second one fails: nobody is left, so the task has failed.
    devops.ask("task.accept", json!({"task_id": task})).await;
    assert_eq!(devops.ask("task.fail", json!({"task_id": task, "error": "no"})).await["rerouted_to"], json!(null));
    assert_eq!(coordinator.waits_for("task.notification.failed").await[0].payload["error"], "no");
    assert_eq!(python.refused("task.accept", json!({"task_id": task})).await, "NOT_ASSIGNEE");
    drop(milvus);
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_decide_between_experts_and_one_who_fails_rests() {
    let hall = hall();
    let open = hall.open().await;
    let boss = open.join("boss").await;
    let skills = json!({"skills": [{"id": "translate", "tags": ["language"]}]});
    let (a, b) = (open.join_expert("a", skills.clone()).await, open.join_expert("b", skills).await);
    let route =
        json!({"description": "to German", "required_capabilities": {"skills": ["translate"]}, "reroute": false});
    assert_eq!(boss.ask("task.route", route.clone()).await["assignee_id"], "a", "equal: by name");
    let task = assigned(&a).await;
    a.ask("task.accept", json!({"task_id": task})).await;
    a.ask("task.fail", json!({"task_id": task})).await;
    assert_eq!(boss.ask("task.route", route.clone()).await["assignee_id"], "b");
    done_by(&b, &assigned(&b).await).await;
    let trust = async |agent: &str| {
        let data = boss.ask("social.trust.get", json!({"agent_id": agent})).await;
        (data["trust"].as_f64().expect("a number"), data["areas"]["translate"].as_f64().expect("a number"))
    };
    assert!(trust("a").await.0 < 0.5 && trust("b").await.0 > 0.5 && trust("b").await.1 > 0.5);

    // The delegator finds the result bad.
    let task = boss.ask("task.list", json!({"filter": {"status": ["completed"]}})).await["tasks"][0]["task_id"].clone();
    assert_eq!(b.refused("task.rate", json!({"task_id": task, "good": false})).await, "NOT_DELEGATOR");
    boss.ask("task.rate", json!({"task_id": task, "good": false})).await;
    assert_eq!(boss.refused("task.rate", json!({"task_id": task, "good": true})).await, "RATED_ALREADY");
    assert!(trust("b").await.0 < 0.5);

    // Three failures in a row: nothing is given to them for half a minute, and then again.
    for _ in 0..2 {
        let given = json!({"assignee_id": "a", "description": "x"});
        let task = boss.ask("task.delegate", given).await["task_id"].clone();
        a.ask("task.accept", json!({"task_id": task})).await;
        a.ask("task.fail", json!({"task_id": task})).await;
    }
    let only_a = json!({"description": "x", "required_capabilities": ["translate"], "excluded_agents": ["b"]});
    assert_eq!(boss.refused("task.route", only_a.clone()).await, "NOBODY_FITS");
    hall.clock.advance(Duration::from_secs(31));
    assert_eq!(boss.ask("task.route", only_a).await["assignee_id"], "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_can_do_is_ones_own_to_say_and_found_by_others() {
    let hall = hall();
    let open = hall.open().await;
    let [coordinator, python, ..] = community(&open).await;
    coordinator.heard().await;
    python.ask("discovery.capabilities.set", json!({"capabilities": {"skills": ["review"], "level": {"py": 3}}})).await;
    assert_eq!(coordinator.names_heard().await, ["discovery.notification.capabilities_updated"]);
    let of = coordinator.ask("discovery.capabilities.get", json!({"agent_id": "python_expert"})).await;
    assert_eq!(of["capabilities"]["skills"], json!(["review"]));
    for (filter, count) in [
        (json!({"skills": ["review", "paint"]}), 1),
        (json!({"level": {"py": 3}}), 1),
        (json!({"level": {"py": 4}}), 0),
        (json!({"domain": "milvus"}), 1),
        (json!({}), 4),
    ] {
        let found = coordinator.ask("discovery.agents.search", json!({"filter": filter})).await;
        assert_eq!(found["count"], count, "{filter}");
    }
    let experts = coordinator.ask("social.experts.find", json!({"question": "tune a vector index"})).await;
    assert_eq!(experts["experts"][0]["agent_id"], "milvus_expert");
    assert_eq!(experts["experts"][0]["matched"], json!(["index", "vector"]));

    let followed = coordinator.ask("social.follow", json!({"agent_id": "python_expert"})).await;
    assert_eq!(followed["is_new"], true);
    assert!(python.names_heard().await.contains(&"social.notification.followed".to_owned()));
    assert_eq!(coordinator.refused("social.follow", json!({"agent_id": "coordinator"})).await, "YOURSELF");
    assert_eq!(coordinator.refused("social.follow", json!({"agent_id": "ghost"})).await, "AGENT_NOT_FOUND");
    assert_eq!(python.ask("social.followers.list", json!({})).await["agents"][0]["agent_id"], "coordinator");
    coordinator.ask("social.unfollow", json!({"agent_id": "python_expert"})).await;
    assert_eq!(coordinator.ask("social.following.list", json!({})).await["total_count"], 0);
}
