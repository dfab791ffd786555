//! The front matter of a `SKILL.md`: the part of YAML that the format uses. Texts plain, quoted or in blocks (`|`, `>`), and
//! maps of texts; what else YAML can say is refused, so that no reader can see something else in it.

use std::collections::BTreeMap;

/// What a skill says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatter {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Text(String),
    Map(BTreeMap<String, String>),
}

/// The fields as they were written.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, Field>);

impl Fields {
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A text that is not empty.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key)? {
            Field::Text(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            Field::Map(_) => None,
        }
    }

    pub(super) fn into_front_matter(self) -> FrontMatter {
        let text = |key| self.text(key).unwrap_or_default().to_owned();
        FrontMatter { name: text("name"), description: text("description") }
    }
}

/// The body after the front matter.
pub(super) fn body(text: &str) -> &str {
    split(text).map_or(text, |(_, body)| body.trim())
}

pub(super) fn parse(text: &str) -> Result<Fields, String> {
    let (front, _) = split(text)?;
    let mut fields = Fields::default();
    let mut lines = front.lines().peekable();
    while let Some(line) = lines.next() {
        if is_void(line) {
            continue;
        }
        let (key, rest) = pair(line).filter(|_| !line.starts_with([' ', '\t'])).ok_or_else(|| wrong(line))?;
        let mut deeper = Vec::new();
        while let Some(next) = lines.next_if(|next| next.starts_with([' ', '\t']) || next.trim().is_empty()) {
            deeper.push(next);
        }
        let field = match rest {
            "|" | "|-" | "|+" => Field::Text(block(&deeper, "\n")),
            ">" | ">-" | ">+" => Field::Text(block(&deeper, " ")),
            "" if deeper.iter().any(|line| !is_void(line)) => Field::Map(map(&deeper)?),
            _ => Field::Text(scalar(rest, &deeper)?),
        };
        if fields.0.insert(key.to_owned(), field).is_some() {
            return Err(format!("the field `{key}` is there twice"));
        }
    }
    Ok(fields)
}

fn split(text: &str) -> Result<(&str, &str), String> {
    let rest = text.strip_prefix("---").ok_or("SKILL.md does not begin with front matter (`---`)")?;
    rest.split_once("\n---").ok_or_else(|| "the front matter has no end (`---`)".to_owned())
}

fn is_void(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once(':')?;
    let fits = !key.trim().is_empty() && (rest.is_empty() || rest.starts_with([' ', '\t']));
    fits.then(|| (key.trim().trim_matches(['"', '\'']), rest.trim()))
}

fn wrong(line: &str) -> String {
    format!("the front matter cannot be read at {:?}", line.chars().take(80).collect::<String>())
}

/// One text, over several lines if they are indented.
fn scalar(first: &str, deeper: &[&str]) -> Result<String, String> {
    let mut text = first.to_owned();
    for line in deeper.iter().map(|line| line.trim()).filter(|line| !line.is_empty()) {
        text.push(' ');
        text.push_str(line);
    }
    if let Some(inner) = text.strip_prefix('"') {
        let inner = inner.strip_suffix('"').ok_or_else(|| wrong(&text))?;
        return serde_json::from_str(&format!("\"{inner}\"")).map_err(|_| wrong(&text));
    }
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'').ok_or_else(|| wrong(&text))?;
        return Ok(inner.replace("''", "'"));
    }
    let text = text.split(" #").next().unwrap_or_default().trim().to_owned();
    if text.starts_with(['[', '{', '&', '*', '!', '@', '`', '%', '|', '>'])
        || text.contains(": ")
        || text.ends_with(':')
    {
        return Err(wrong(&text));
    }
    Ok(text)
}

fn block(lines: &[&str], between: &str) -> String {
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    trimmed.join(between).trim().to_owned()
}

fn map(lines: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let pairs = lines.iter().filter(|line| !is_void(line)).map(|line| {
        let (key, value) = pair(line).ok_or_else(|| wrong(line))?;
        Ok((key.to_owned(), scalar(value, &[])?))
    });
    pairs.collect()
}
