//! Files, the shared cache, artifacts and the feed: who may have what, and which version of it.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::ground::{Ground, names};

#[tokio::test]
async fn files_go_to_whom_they_were_shared_with_and_their_names_lead_nowhere() {
    let config =
        json!({"max_file_size": 100, "max_file_bytes_per_agent": 60, "allowed_file_types": ["text/*", ".bin"]});
    let ground = Ground::with(&[("messaging", config)]).await;
    let (alice, bob, eve) = (ground.join("alice").await, ground.join("bob").await, ground.join("eve").await);
    let file = |name: &str, content: &[u8]| {
        json!({
            "filename": name, "file_content": STANDARD.encode(content), "target_agent_id": "bob",
        })
    };
    let up = ground.ask(&alice, "thread.file.upload", file("/tmp/a/b.txt", b"hello world")).await;
    assert_eq!(
        (&up["filename"], &up["file_size"], &up["mime_type"]),
        (&json!("b.txt"), &json!(11), &json!("text/plain"))
    );
    let heard = ground.heard(&bob).await;
    assert_eq!(names(&heard), ["thread.file.upload_response"]);
    assert_eq!(heard[0].payload["file"]["filename"], "b.txt");
    let wanted = json!({"file_id": up["file_id"], "action": "download"});
    for who in [&alice, &bob] {
        let down = ground.ask(who, "thread.file.download", wanted.clone()).await;
        assert_eq!(STANDARD.decode(down["content"].as_str().expect("base64")).expect("base64"), b"hello world");
    }
    assert!(ground.send(&eve, "thread.file.download", "", wanted.clone()).await.1.no().contains("no file"));
    let wrong = [
        (file("../b.txt", b"x"), "no plain name"),
        (file("b.exe", b"x"), "not taken"),
        (file("b.txt", &[b'x'; 101]), "more than 100 bytes"),
        (json!({"filename": "b.txt", "file_content": "dummy_file_content"}), "no base64"),
        (json!({"filename": "b.txt", "file_content": "eA==", "file_size": 7}), "file_size"),
        (json!({"file_content": "eA=="}), "payload.filename is missing"),
        (file("b.bin", &[0; 50]), "no room"),
    ];
    for (payload, why) in wrong {
        let no = ground.send(&alice, "thread.file.upload", "", payload).await.1.no();
        assert!(no.contains(why), "{no}");
    }
    // In a channel that is private it is for its members; without one, for everybody.
    let make = json!({"channel": "plans", "private": true, "members": ["alice"]});
    ground.ask(&bob, "thread.channel.create", make).await;
    let shared = json!({"filename": "p.txt", "file_content": "cA==", "channel": "plans"});
    let plan = ground.ask(&bob, "thread.file.upload", shared).await;
    let open = ground.ask(&bob, "thread.file.upload", json!({"filename": "o.txt", "file_content": "bw=="})).await;
    let get = |up: &Value| json!({"file_id": up["file_id"]});
    assert!(ground.send(&eve, "thread.file.download", "", get(&plan)).await.1.no().contains("no file"));
    assert_eq!(ground.ask(&alice, "thread.file.download", get(&plan)).await["content"], "cA==");
    assert_eq!(ground.ask(&eve, "thread.file.download", get(&open)).await["content"], "bw==");
}

#[tokio::test]
async fn the_cache_keeps_versions_groups_and_ends() {
    let mut ground = Ground::with(&[("openagents.mods.core.shared_cache", json!({"max_entries_per_agent": 3}))]).await;
    let (alice, bob) = (ground.join_as("alice", "devs").await, ground.join("bob").await);
    let dev = ground.join_as("dev", "devs").await;
    let made = ground.ask(&alice, "shared_cache.create", json!({"value": "one", "mime_type": "text/plain"})).await;
    let id = json!({"cache_id": made["cache_id"]});
    assert_eq!(ground.ask(&bob, "shared_cache.get", id.clone()).await["value"], "one");
    let change =
        |value: &str, version: i64| json!({"cache_id": made["cache_id"], "value": value, "expected_version": version});
    assert_eq!(ground.ask(&bob, "shared_cache.update", change("two", 1)).await["version"], 2);
    let no = ground.send(&alice, "shared_cache.update", "", change("mine", 1)).await.1.no();
    assert!(no.contains("version 2"), "{no}");
    let secret = json!({"value": {"a": 1}, "allowed_agent_groups": ["devs"]});
    let secret = ground.ask(&alice, "shared_cache.create", secret).await;
    for name in ["shared_cache.get", "shared_cache.update", "shared_cache.delete"] {
        let payload = json!({"cache_id": secret["cache_id"], "value": "stolen"});
        assert!(ground.send(&bob, name, "", payload).await.1.no().contains("no cache entry"), "{name}");
    }
    assert_eq!(ground.ask(&dev, "shared_cache.get", secret.clone()).await["value"], "{\"a\":1}");
    assert_eq!(names(&ground.heard(&bob).await), ["shared_cache.notification.created"]);
    let heard = ground.heard(&dev).await;
    assert_eq!(names(&heard)[2], "shared_cache.notification.created");
    assert!(!heard[2].payload.contains_key("value"));
    let short =
        ground.ask(&alice, "shared_cache.create", json!({"value": "soon gone", "expires_in_seconds": 60})).await;
    assert!(ground.send(&alice, "shared_cache.create", "", json!({"value": "x"})).await.1.no().contains("3 entries"));
    ground.clock.advance(Duration::from_secs(61));
    ground.reopen().await;
    assert!(ground.send(&alice, "shared_cache.get", "", short).await.1.no().contains("no cache entry"));
    let file =
        json!({"filename": "x.bin", "file_data": STANDARD.encode([0, 159, 255]), "allowed_agent_groups": ["devs"]});
    let file = ground.ask(&alice, "shared_cache.file.upload", file).await;
    let wanted = json!({"cache_id": file["cache_id"]});
    let down = ground.ask(&dev, "shared_cache.file.download", wanted.clone()).await;
    assert_eq!(STANDARD.decode(down["file_data"].as_str().expect("base64")).expect("base64"), [0, 159, 255]);
    assert!(
        ground.send(&bob, "shared_cache.file.download", "", wanted.clone()).await.1.no().contains("no cache entry")
    );
    ground.ask(&dev, "shared_cache.delete", wanted.clone()).await;
    assert!(ground.send(&dev, "shared_cache.file.download", "", wanted).await.1.no().contains("no file"));
}

#[tokio::test]
async fn artifacts_have_versions_on_the_workspace() {
    let mut ground = Ground::with(&[("artifacts", json!({"max_artifact_size": 100_000}))]).await;
    let (alice, bob) = (ground.join_as("alice", "devs").await, ground.join("bob").await);
    let first = "draft\n".repeat(5_000);
    let made = ground.ask(&alice, "shared_artifact.create", json!({"content": first, "name": "report"})).await;
    let id = &made["artifact_id"];
    assert_eq!(names(&ground.heard(&bob).await), ["shared_artifact.notification.created"]);
    let revise = |content: &str, base: i64| json!({"artifact_id": id, "content": content, "base_version": base});
    assert_eq!(ground.ask(&bob, "shared_artifact.update", revise("final", 1)).await["version"], 2);
    let no = ground.send(&alice, "shared_artifact.update", "", revise("mine", 1)).await.1.no();
    assert!(no.contains("version 2"), "{no}");
    ground.reopen().await;
    let newest = ground.ask(&bob, "shared_artifact.get", json!({"artifact_id": id})).await;
    assert_eq!(
        (&newest["content"], &newest["version"], &newest["name"]),
        (&json!("final"), &json!(2), &json!("report"))
    );
    let older = ground.ask(&bob, "shared_artifact.get", json!({"artifact_id": id, "version": 1})).await;
    assert_eq!((older["content"].as_str(), &older["newest_version"]), (Some(first.as_str()), &json!(2)));
    let history = ground.ask(&bob, "shared_artifact.history", json!({"artifact_id": id})).await;
    let by: Vec<_> = history["versions"].as_array().expect("versions").iter().map(|each| &each["made_by"]).collect();
    assert_eq!(by, ["bob", "alice"]);
    let picture =
        json!({"content": STANDARD.encode([137, 80, 0]), "mime_type": "image/png", "allowed_agent_groups": ["devs"]});
    let picture = ground.ask(&alice, "shared_artifact.create", picture).await;
    let got = ground.ask(&alice, "shared_artifact.get", picture.clone()).await;
    assert_eq!(got["content"], json!(STANDARD.encode([137, 80, 0])));
    assert!(ground.send(&bob, "shared_artifact.get", "", picture.clone()).await.1.no().contains("no artifact"));
    let count = |list: Value| (list["artifacts"].as_array().expect("artifacts").len(), list["total_count"].clone());
    assert_eq!(count(ground.ask(&bob, "shared_artifact.list", json!({})).await), (1, json!(1)));
    assert_eq!(
        count(ground.ask(&alice, "shared_artifact.list", json!({"mime_type": "image/png"})).await),
        (1, json!(1))
    );
    ground.ask(&alice, "shared_artifact.delete", json!({"artifact_id": id})).await;
    assert!(
        ground
            .send(&bob, "shared_artifact.get", "", json!({"artifact_id": id, "version": 1}))
            .await
            .1
            .no()
            .contains("no artifact")
    );
    let large = json!({"content": "x".repeat(100_001)});
    assert!(ground.send(&bob, "shared_artifact.create", "", large).await.1.no().contains("at most 100000"));
}

#[tokio::test]
async fn the_feed_is_found_by_tag_author_moment_and_word_in_any_script() {
    let ground = Ground::with(&[("feed", Value::Null)]).await;
    let (alice, bob) = (ground.join_as("alice", "devs").await, ground.join("bob").await);
    let post = |title: &str, content: &str, tags: Value, groups: Value| json!({"title": title, "content": content, "tags": tags, "allowed_groups": groups});
    let first =
        ground.ask(&alice, "feed.post.create", post("Release 1.0", "It is 100% out", json!(["News"]), json!([]))).await;
    assert_eq!(first["tags"], json!(["news"]));
    ground.clock.advance(Duration::from_secs(10));
    ground
        .ask(&bob, "feed.post.create", post("发布说明", "新版本 支持向量搜索", json!(["news", "zh"]), json!([])))
        .await;
    let inner =
        ground.ask(&alice, "feed.post.create", post("Plans", "for developers", json!([]), json!(["devs"]))).await;
    let heard = ground.heard(&bob).await;
    assert_eq!(names(&heard), ["feed.notification.post_created"]);
    assert_eq!(heard[0].payload["post"]["title"], "Release 1.0");
    let titles = |list: Value| -> Vec<String> {
        let posts = list["posts"].as_array().expect("posts").clone();
        posts.iter().map(|post| post["title"].as_str().expect("a title").to_owned()).collect()
    };
    assert_eq!(titles(ground.ask(&bob, "feed.posts.list", json!({})).await), ["发布说明", "Release 1.0"]);
    assert_eq!(
        titles(ground.ask(&alice, "feed.posts.list", json!({"sort_by": "oldest", "limit": 1, "offset": 2})).await),
        ["Plans"]
    );
    let search = |query: &str| json!({"query": query});
    assert_eq!(titles(ground.ask(&bob, "feed.posts.search", search("向量")).await), ["发布说明"]);
    assert_eq!(titles(ground.ask(&bob, "feed.posts.search", search("OUT 100%")).await), ["Release 1.0"]);
    assert!(titles(ground.ask(&bob, "feed.posts.search", search("1_0")).await).is_empty());
    assert!(titles(ground.ask(&bob, "feed.posts.search", search("developers")).await).is_empty());
    assert_eq!(
        titles(ground.ask(&bob, "feed.posts.list", json!({"tags": ["zh"], "author_id": "bob"})).await),
        ["发布说明"]
    );
    let recent = ground.ask(&bob, "feed.posts.recent", json!({"since_timestamp": first["created_at"]})).await;
    assert_eq!((titles(recent.clone()), &recent["total_new"]), (vec!["发布说明".to_owned()], &json!(1)));
    assert!(
        ground.send(&bob, "feed.post.get", "", json!({"post_id": inner["post_id"]})).await.1.no().contains("no post")
    );
    assert_eq!(
        ground.ask(&alice, "feed.post.get", json!({"post_id": inner["post_id"]})).await["content"],
        "for developers"
    );
    let no = ground.send(&bob, "feed.post.create", "", json!({"title": "x".repeat(201), "content": "y"})).await.1.no();
    assert!(no.contains("200 characters"), "{no}");
}
