//! Cassettes written by tests: for stories too long or too regular to be written by hand.

use serde_json::Value;

/// One entry: what selects it, what the latest tool results must contain, what it calls.
pub(crate) fn entry(id: &str, prompt: &[&str], turn: usize, needs: &[&str], calls: &[(&str, Value)]) -> String {
    let text = |text: &str| Value::from(text).to_string();
    let prompt: Vec<String> = prompt.iter().map(|part| text(part)).collect();
    let needs: Vec<String> = needs.iter().map(|part| format!("{{ in = \"tool\", text = {} }}", text(part))).collect();
    let mut entry = format!(
        "[[entry]]\nid = {}\nprompt = [{}]\nturn = {turn}\nrequire = [{}]\nreply = \"On with it.\"\n",
        text(id),
        prompt.join(", "),
        needs.join(", ")
    );
    for (tool, arguments) in calls {
        let arguments = text(&arguments.to_string());
        entry.push_str(&format!("[[entry.call]]\ntool = {}\narguments_text = {arguments}\n", text(tool)));
    }
    entry
}

/// The whole file.
pub(crate) fn whole(title: &str, request: &str, entries: &[String]) -> String {
    let head = format!(
        "cassette = 1\ntitle = {}\nrequest = {}\nmodel = \"cassette-story\"\n\n",
        Value::from(title),
        Value::from(request)
    );
    head + &entries.join("\n")
}
