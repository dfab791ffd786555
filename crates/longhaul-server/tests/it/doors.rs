//! Who is let in, and to whose rows.

use std::time::{Duration, Instant};

use longhaul_core::{Scope, TimeMs};
use longhaul_server::keys::{KeyRing, NewKey, Role};
use reqwest::Method;
use serde_json::json;

use crate::house::{House, scope, send};

#[tokio::test]
async fn a_key_reaches_its_own_tasks_and_no_others() {
    let house = House::new().await;
    let (ada, bob) = (house.key("acme", "ada", Role::Viewer).await, house.key("other", "ada", Role::Owner).await);
    let task = house.task("acme", "ada", "project_001").await;
    let path = format!("/v1/tasks/{task}");
    let found = house.get(&ada, &path).await;
    assert_eq!((found.status.as_u16(), &found.body["task"]), (200, &task.to_string().into()));
    let refused = house.get(&bob, &path).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (404, "not_found"));
    let stranger = send(house.request(Method::GET, &path)).await;
    assert_eq!((stranger.status.as_u16(), stranger.code()), (401, "unauthorized"));
}

/// Keys that are none, each for another reason; a stranger is told the same of all.
#[tokio::test]
async fn only_the_whole_right_key_opens() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Owner).await;
    let ended = NewKey { expires_at: Some(TimeMs(1)), ..NewKey::first(scope("acme", "ada")) };
    let ended = house.gateway.keys().create(ended).await.unwrap().secret.expose().to_owned();
    let flipped = if key.ends_with('0') { "1" } else { "0" };
    let (prefix, other) = (&key[..15], house.key("acme", "bob", Role::Owner).await);
    let wrong = [
        String::new(),
        "Bearer".to_owned(),
        format!("Bearer {}", &key[..key.len() - 1]),
        format!("Bearer {}{flipped}", &key[..key.len() - 1]),
        format!("Bearer {key}0"),
        // The prefix of one key before the secret of another.
        format!("Bearer {prefix}{}", &other[15..]),
        format!("Bearer {}", key.to_uppercase()),
        format!("Bearer lh_{}_{}", "0".repeat(12), "0".repeat(64)),
        format!("Bearer {ended}"),
        format!("Basic {key}"),
        key.clone(),
        "Bearer undefined".to_owned(),
        "Bearer null".to_owned(),
        "Bearer ' OR 1=1 --".to_owned(),
    ];
    for value in &wrong {
        let answer = send(house.request(Method::GET, "/v1/me").header("authorization", value)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (401, "unauthorized"), "{value:?}");
        assert!(answer.headers.contains_key("www-authenticate"));
        assert!(!answer.body.to_string().contains(&key[15..]), "{answer:?}");
    }
    let twice = house.request(Method::GET, "/v1/me").bearer_auth(&key).header("authorization", "Bearer x");
    assert_eq!(send(twice).await.status, 401, "two keys are none");
    for place in ["/v1/me?key=", "/v1/me?access_token=", "/v1/me?authorization=Bearer%20"] {
        let answer = send(house.request(Method::GET, &format!("{place}{key}"))).await;
        assert_eq!(answer.status, 401, "a key in the address is none");
    }
    let cookie = house.request(Method::GET, "/v1/me").header("cookie", format!("authorization={key}"));
    assert_eq!(send(cookie).await.status, 401);
    assert_eq!(house.get(&key, "/v1/me").await.body["role"], "owner");
}

#[tokio::test]
async fn a_revoked_key_opens_nothing_any_more_also_where_another_process_revokes_it() {
    let house = House::new().await;
    let (first, second) = (house.key("acme", "ada", Role::Viewer).await, house.key("acme", "ada", Role::Viewer).await);
    assert_eq!(house.get(&first, "/v1/me").await.status, 200);
    assert_eq!(house.get(&second, "/v1/me").await.status, 200);
    let tenant = scope("acme", "ada").tenant;
    house.gateway.keys().revoke(&tenant, &first[3..15]).await.unwrap().unwrap();
    refused_within(&house, &first, Duration::from_secs(2)).await;
    // Another handle of the same store, as another process has one.
    let elsewhere = KeyRing::of(house.second_store().await);
    let revoked = Instant::now();
    elsewhere.revoke(&tenant, &second[3..15]).await.unwrap().unwrap();
    refused_within(&house, &second, Duration::from_secs(5)).await;
    println!("refused {} ms after another handle revoked it", revoked.elapsed().as_millis());
    assert_eq!(elsewhere.revoke(&scope("other", "ada").tenant, &second[3..15]).await.unwrap(), None);
}

async fn refused_within(house: &House, key: &str, limit: Duration) {
    let since = Instant::now();
    while house.get(key, "/v1/me").await.status != 401 {
        assert!(since.elapsed() < limit, "the key still opens");
    }
}

#[tokio::test]
async fn nobody_gets_a_role_or_a_tenant_by_saying_so() {
    let house = House::new().await;
    let (viewer, operator) =
        (house.key("acme", "ada", Role::Viewer).await, house.key("acme", "ada", Role::Operator).await);
    let owner = house.key("acme", "root", Role::Owner).await;
    let task = json!({ "title": "mine" });
    // A viewer changes nothing, whatever the request claims.
    let claimed = house.request(Method::POST, "/v1/tasks").bearer_auth(&viewer).json(&task);
    let claimed = claimed.header("x-role", "owner").header("x-tenant", "other").header("x-user", "root");
    let answer = send(claimed).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (403, "forbidden"));
    for claim in [json!({ "title": "t", "role": "owner" }), json!({ "title": "t", "tenant": "tenant_other" })] {
        let answer = house.post(&operator, "/v1/tasks", &claim).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "invalid"), "{claim}");
    }
    // Keys and the audit log are the owner's.
    let wanted = json!({ "user": "user_ada", "role": "owner", "label": "more" });
    for key in [&viewer, &operator] {
        assert_eq!(house.post(key, "/v1/keys", &wanted).await.status, 403);
        assert_eq!(house.get(key, "/v1/keys").await.status, 403);
        assert_eq!(house.get(key, "/v1/audit").await.status, 403);
    }
    let elsewhere = json!({ "tenant": "tenant_other", "user": "user_ada", "role": "owner", "label": "more" });
    assert_eq!(house.post(&owner, "/v1/keys", &elsewhere).await.status, 422);
    let unknown = json!({ "user": "user_ada", "role": "admin", "label": "more" });
    assert_eq!(house.post(&owner, "/v1/keys", &unknown).await.status, 422);
    let made = house.post(&owner, "/v1/keys", &wanted).await;
    assert_eq!((made.status.as_u16(), &made.body["key"]["user"]), (201, &"user_ada".into()));
    let me = house.get(made.body["secret"].as_str().unwrap(), "/v1/me").await;
    assert_eq!((&me.body["tenant"], &me.body["role"]), (&"tenant_acme".into(), &"owner".into()));
    // Another tenant's owner neither sees nor revokes them.
    let stranger = house.key("other", "root", Role::Owner).await;
    let id = made.body["key"]["key"].as_str().unwrap();
    let gone = send(house.request(Method::DELETE, &format!("/v1/keys/{id}")).bearer_auth(&stranger)).await;
    assert_eq!((gone.status.as_u16(), gone.code()), (404, "not_found"));
    assert_eq!(house.get(&stranger, "/v1/keys").await.body["items"].as_array().unwrap().len(), 1);
    let gone = send(house.request(Method::DELETE, &format!("/v1/keys/{id}")).bearer_auth(&owner)).await;
    assert!(gone.status == 200 && gone.body["revoked_at"].is_i64(), "{gone:?}");
}

/// What a page in a browser could do with a name of its own for this address.
#[tokio::test]
async fn other_names_and_other_pages_are_turned_away() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Owner).await;
    let port = house.url.rsplit_once(':').unwrap().1;
    for host in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1:1", &format!("127.0.0.1.evil.example:{port}")]
    {
        let answer = send(house.request(Method::GET, "/v1/me").bearer_auth(&key).header("host", host)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (421, "wrong_host"), "{host}");
    }
    for origin in
        ["https://evil.example", "null", &format!("http://evil.example:{port}"), &format!("https://127.0.0.1:{port}")]
    {
        let answer = send(house.request(Method::GET, "/v1/me").bearer_auth(&key).header("origin", origin)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (403, "wrong_origin"), "{origin}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    let ours = house.request(Method::GET, "/v1/me").bearer_auth(&key);
    assert_eq!(send(ours.header("host", format!("LOCALHOST:{port}"))).await.status, 200);
}

#[tokio::test]
async fn the_first_key_is_made_once() {
    let house = House::new().await;
    let keys = house.gateway.keys();
    let first = keys.create_first(NewKey::first(Scope::single_user())).await.unwrap().unwrap();
    assert_eq!(format!("{:?}", first.secret), "Secret(***)");
    assert_eq!(keys.create_first(NewKey::first(Scope::single_user())).await.unwrap().map(|made| made.key), None);
    keys.revoke(&first.key.scope.tenant, &first.key.prefix).await.unwrap().unwrap();
    let again = keys.create_first(NewKey::first(Scope::single_user())).await.unwrap();
    assert!(again.is_none(), "revoking the last key does not open the door to whoever starts the server");
}
