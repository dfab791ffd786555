//! LoCoMo: long conversations of two people in dated sessions, and questions whose evidence is some of the turns. Counted
//! as its users count: a document is a turn with its date, each conversation is a corpus, a question without usable
//! evidence is left out, and recall is the part of its evidence that is found.

use std::collections::HashMap;

use longhaul_core::{MemoryId, TimeMs};
use longhaul_memory::{
    Kind, Namespace, NewMemory, Query, Source,
    eval::{Question, evaluate},
};
use serde_json::{Value, json};

use crate::{Place, Result, read};

const MS_A_DAY: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(crate) async fn measure(file: &str, model: Option<(&str, &str)>) -> Result<Value> {
    let place = Place::new(model).await?;
    let mut conversations = Vec::new();
    for conversation in read(file)?.as_array().into_iter().flatten() {
        let id = conversation["sample_id"].as_str().unwrap_or("conversation").to_lowercase();
        let namespace: Namespace = id.parse()?;
        let (turns, memories) = turns(&conversation["conversation"], &namespace)?;
        let ids = place.memory.insert_many(&place.scope, memories).await?;
        while place.memory.index_pending().await?.embedded > 0 {}
        let by_turn: HashMap<&str, &MemoryId> = turns.iter().map(String::as_str).zip(&ids).collect();
        let questions = questions(&conversation["qa"], &by_turn);
        let query = Query { namespaces: vec![namespace], ..Query::new("", 50) };
        let report = evaluate(&place.memory, &place.scope, &questions, &query).await?;
        conversations.push(json!({ "id": id, "turns": turns.len(), "questions": questions.len(), "report": report }));
    }
    Ok(json!({ "conversations": conversations }))
}

/// The turns' own ids, and the turns as memories: a session is a thread.
fn turns(conversation: &Value, namespace: &Namespace) -> Result<(Vec<String>, Vec<NewMemory>)> {
    let (mut ids, mut memories) = (Vec::new(), Vec::new());
    for session in 1..=100 {
        let name = format!("session_{session}");
        let Some(turns) = conversation[&name].as_array() else { continue };
        let at = moment(conversation[format!("{name}_date_time")].as_str().unwrap_or_default())?;
        for turn in turns {
            let text = |field: &str| turn[field].as_str().unwrap_or_default();
            let image = turn["blip_caption"].as_str().map_or_else(String::new, |seen| format!(" [image: {seen}]"));
            let content = format!("{}: {}{image}", text("speaker"), text("text"));
            ids.push(text("dia_id").to_owned());
            memories.push(NewMemory {
                namespace: namespace.clone(),
                thread: Some(name.clone()),
                happened_at: Some(at),
                ..NewMemory::new("conversation", Kind::Episode, Source::User, content)
            });
        }
    }
    Ok((ids, memories))
}

fn questions(asked: &Value, by_turn: &HashMap<&str, &MemoryId>) -> Vec<Question> {
    let relevant = |question: &Value| -> Vec<MemoryId> {
        let named = question["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str).flat_map(evidence);
        named.filter_map(|turn| by_turn.get(turn.as_str()).map(|id| (*id).clone())).collect()
    };
    let all = asked.as_array().into_iter().flatten();
    let all = all.map(|question| Question::new(question["question"].as_str().unwrap_or_default(), relevant(question)));
    all.filter(|question| !question.relevant.is_empty()).collect()
}

/// Every `D1:3` in a text that may hold several, `D:1:03` among them.
fn evidence(text: &str) -> Vec<String> {
    let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let mut found = Vec::new();
    for (at, _) in text.match_indices('D') {
        let rest = &text[at + 1..];
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let session = number(rest);
        let Some(rest) = rest[session.len()..].strip_prefix(':') else { continue };
        if let (Ok(session), Ok(turn)) = (session.parse::<u32>(), number(rest).parse::<u32>()) {
            found.push(format!("D{session}:{turn}"));
        }
    }
    found
}

/// `1:56 pm on 8 May, 2023`: noon of that day.
fn moment(text: &str) -> Result<TimeMs> {
    let unreadable = || format!("{text}: not a date of LoCoMo");
    let date = text.split(" on ").nth(1).ok_or_else(unreadable)?.replace(',', "");
    let mut parts = date.split_whitespace();
    let day: i64 = parts.next().ok_or_else(unreadable)?.parse()?;
    let name = parts.next().ok_or_else(unreadable)?;
    let month = MONTHS.iter().position(|month| *month == name).ok_or_else(unreadable)? as i64 + 1;
    let year: i64 = parts.next().ok_or_else(unreadable)?.parse()?;
    // Days from civil: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms.
    let shifted = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = shifted.rem_euclid(400) * 365 + shifted.rem_euclid(400) / 4 - shifted.rem_euclid(400) / 100 + of_year;
    Ok(TimeMs((shifted.div_euclid(400) * 146_097 + of_era - 719_468) * MS_A_DAY + MS_A_DAY / 2))
}
