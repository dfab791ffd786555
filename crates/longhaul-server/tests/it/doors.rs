//! Who is let in, and to whose rows.

use longhaul_server::keys::Role;

use crate::house::House;

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
    let stranger = crate::house::send(house.request(reqwest::Method::GET, &path)).await;
    assert_eq!((stranger.status.as_u16(), stranger.code()), (401, "unauthorized"));
}
