//! The example of a mod in one file does what it says.

#[expect(dead_code, reason = "the example's own beginning")]
#[path = "../../examples/third_party_mod.rs"]
mod third_party_mod;

#[tokio::test]
async fn a_mod_in_one_file_is_loaded_by_the_networks_file_and_answers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let votes = third_party_mod::poll_in(folder.path()).await.expect("the poll ends");
    assert_eq!(votes, serde_json::json!({"spaces": 2, "tabs": 1}));
}
