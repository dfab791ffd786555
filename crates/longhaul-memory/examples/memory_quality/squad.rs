//! SQuAD and what took its format (XQuAD, JaQuAD, KorQuAD): each different paragraph is a memory without a thread, each
//! question has one paragraph that answers it.

use std::collections::BTreeMap;

use longhaul_memory::{
    Kind, NewMemory, Query, Source,
    eval::{Question, evaluate},
};
use serde_json::{Value, json};

use crate::{Place, Result, read};

pub(crate) async fn measure(file: &str, model: Option<(&str, &str)>) -> Result<Value> {
    let place = Place::new(model).await?;
    let file = read(file)?;
    let (mut paragraphs, mut asked): (BTreeMap<&str, usize>, Vec<(&str, &str)>) = (BTreeMap::new(), Vec::new());
    for paragraph in items(&file, "data").flat_map(|article| items(article, "paragraphs")) {
        let context = paragraph["context"].as_str().unwrap_or_default();
        let next = paragraphs.len();
        paragraphs.entry(context).or_insert(next);
        asked.extend(items(paragraph, "qas").map(|asked| (asked["question"].as_str().unwrap_or_default(), context)));
    }
    let mut contexts: Vec<(&str, usize)> = paragraphs.iter().map(|(context, place)| (*context, *place)).collect();
    contexts.sort_by_key(|(_, place)| *place);
    let memory = |context: &str| NewMemory::new("paragraphs", Kind::Fact, Source::Outside, context);
    let memories = contexts.iter().map(|(context, _)| memory(context)).collect();
    let ids = place.memory.insert_many(&place.scope, memories).await?;
    if model.is_some() {
        while place.memory.index_pending().await?.embedded > 0 {}
    }
    let question = |(text, context): &(&str, &str)| Question::new(*text, [ids[paragraphs[context]].clone()]);
    let questions: Vec<Question> = asked.iter().map(question).collect();
    let report = evaluate(&place.memory, &place.scope, &questions, &Query::new("", 50)).await?;
    Ok(json!({ "paragraphs": ids.len(), "questions": questions.len(), "report": report }))
}

fn items<'a>(above: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    above[name].as_array().into_iter().flatten()
}
