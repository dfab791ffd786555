//! The SQL that is written once, as PostgreSQL wants it.
//!
//! It owns the few places where the shared SQL differs: placeholders, and the types and options of `CREATE TABLE`.
//! Invariant: what stands in quotes and comments is never touched.

/// A statement with `?1` as `$1`, and `CAST(x AS INTEGER)` with PostgreSQL's name of the type.
pub(crate) fn statement(sql: &str) -> String {
    let tokens = tokens(sql);
    let mut out = String::with_capacity(sql.len() + 8);
    let mut behind_as = false;
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Placeholder(number) => {
                out.push('$');
                out.push_str(number);
            }
            Token::Word(word) if behind_as && closes(&tokens[index + 1..]) => {
                out.push_str(type_of(word).unwrap_or(word));
            }
            Token::Word(text) | Token::Other(text) => out.push_str(text),
        }
        if !token.is_blank() {
            behind_as = token.is("as");
        }
    }
    out
}

/// Whether a bracket closes next: then what stood behind AS was a type, and no name.
fn closes(tokens: &[Token<'_>]) -> bool {
    tokens.iter().find(|token| !token.is_blank()) == Some(&Token::Other(")"))
}

/// A script of a migration: several statements, those that make tables with PostgreSQL's types.
pub(crate) fn script(sql: &str) -> String {
    let tokens = tokens(sql);
    let each = tokens.split_inclusive(|token| matches!(token, Token::Other(";")));
    each.map(|tokens| if defines_table(tokens) { definition(tokens) } else { statement(&text_of(tokens)) }).collect()
}

fn defines_table(tokens: &[Token<'_>]) -> bool {
    let mut words = tokens.iter().filter(|token| !token.is_blank());
    words.next().is_some_and(|word| word.is("create") || word.is("alter"))
        && words.next().is_some_and(|word| word.is("table"))
}

fn text_of(tokens: &[Token<'_>]) -> String {
    tokens
        .iter()
        .map(|token| match token {
            Token::Placeholder(number) => format!("?{number}"),
            Token::Word(text) | Token::Other(text) => (*text).to_owned(),
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    /// A bare word or number.
    Word(&'a str),
    /// The number of `?1`.
    Placeholder(&'a str),
    /// White space, a comment, something quoted, or one other character.
    Other(&'a str),
}

impl Token<'_> {
    fn is_blank(self) -> bool {
        matches!(self, Self::Other(text) if text.trim().is_empty() || text.starts_with("--") || text.starts_with("/*"))
    }

    fn is(self, word: &str) -> bool {
        matches!(self, Self::Word(text) if text.eq_ignore_ascii_case(word))
    }
}

fn tokens<'a>(sql: &'a str) -> Vec<Token<'a>> {
    let mut tokens = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let until = |end: &str, skip: usize| rest[skip..].find(end).map_or(rest.len(), |at| skip + at + end.len());
        let word = |rest: &str| rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let (length, kind): (usize, fn(&'a str) -> Token<'a>) = match first {
            // A doubled quote inside ends one token and begins the next: both stay as they are.
            '\'' => (until("'", 1), Token::Other),
            '"' => (until("\"", 1), Token::Other),
            '-' if rest.starts_with("--") => (until("\n", 2), Token::Other),
            '/' if rest.starts_with("/*") => (until("*/", 2), Token::Other),
            '?' => (1 + word(&rest[1..]), |text| Token::Placeholder(&text[1..])),
            c if c.is_alphanumeric() || c == '_' => (word(rest), Token::Word),
            c if c.is_whitespace() => (rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()), Token::Other),
            c => (c.len_utf8(), Token::Other),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(kind(token));
        rest = after;
    }
    tokens
}

fn type_of(word: &str) -> Option<&'static str> {
    const TYPES: &[(&str, &str)] =
        &[("INTEGER", "BIGINT"), ("INT", "BIGINT"), ("REAL", "DOUBLE PRECISION"), ("BLOB", "BYTEA")];
    TYPES.iter().find(|(known, _)| word.eq_ignore_ascii_case(known)).map(|(_, is)| *is)
}

/// The type of a column. Text compares by its bytes on both databases, whatever the language of the server.
fn column_type_of(word: &str) -> Option<&'static str> {
    if word.eq_ignore_ascii_case("TEXT") { Some("TEXT COLLATE \"C\"") } else { type_of(word) }
}

/// One statement of a script: the second word of each column's definition is its type.
fn definition(tokens: &[Token<'_>]) -> String {
    let words: Vec<_> = tokens.iter().filter(|token| !token.is_blank()).take(2).collect();
    let table = words.len() == 2 && words[1].is("table");
    let (creates, alters) = (table && words[0].is("create"), table && words[0].is("alter"));
    let mut out = String::new();
    let mut depth = 0_usize;
    // How many words of the column's definition have been seen; `None` outside of one.
    let mut position: Option<usize> = None;
    let mut behind = false;
    let mut skip_to = 0;
    for (index, token) in tokens.iter().enumerate() {
        if index < skip_to {
            continue;
        }
        match token {
            Token::Other("(") => {
                depth += 1;
                if creates && depth == 1 {
                    position = Some(0);
                }
            }
            Token::Other(")") => {
                depth = depth.saturating_sub(1);
                behind = creates && depth == 0;
            }
            Token::Other(",") if creates && depth == 1 => position = Some(0),
            // The options of SQLite behind the last bracket: STRICT, WITHOUT ROWID.
            Token::Word(_) | Token::Other(",") if behind => continue,
            Token::Word(word) if alters && (token.is("add") || token.is("column")) => {
                position = Some(0);
                out.push_str(word);
                continue;
            }
            Token::Word(word) if depth <= 1 => {
                let at = position;
                position = position.map(|seen| seen + 1);
                if at == Some(1)
                    && let Some(replaced) = column_type_of(word)
                {
                    if let Some(after) = serial_key(&tokens[index..]) {
                        out.push_str("BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY");
                        skip_to = index + after;
                    } else {
                        out.push_str(replaced);
                    }
                    continue;
                }
            }
            Token::Word(_) | Token::Placeholder(_) | Token::Other(_) => {}
        }
        match token {
            Token::Placeholder(number) => out.push_str(&format!("${number}")),
            Token::Word(text) | Token::Other(text) => out.push_str(text),
        }
    }
    out
}

/// `INTEGER PRIMARY KEY [AUTOINCREMENT]`, whose values SQLite hands out: how many tokens it takes.
fn serial_key(tokens: &[Token<'_>]) -> Option<usize> {
    let mut end = 0;
    for (expected, optional) in [("integer", false), ("primary", false), ("key", false), ("autoincrement", true)] {
        let next = end + tokens[end..].iter().take_while(|token| token.is_blank()).count();
        match tokens.get(next) {
            Some(token) if token.is(expected) => end = next + 1,
            _ if optional => {}
            _ => return None,
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_numbers_outside_of_quotes_and_comments() {
        for (shared, postgres) in [
            ("SELECT ?1, ?12 FROM a WHERE b = ?1", "SELECT $1, $12 FROM a WHERE b = $1"),
            (
                "SELECT '?1', 'it''s ?2', \"?3\" /* ?4 */, ?5 -- ?6\n, ?7",
                "SELECT '?1', 'it''s ?2', \"?3\" /* ?4 */, $5 -- ?6\n, $7",
            ),
            (
                "SELECT CAST(a AS INTEGER), CAST(b || ?1 AS  BLOB ), CAST(c AS TEXT), d AS real, e as int FROM f",
                "SELECT CAST(a AS BIGINT), CAST(b || $1 AS  BYTEA ), CAST(c AS TEXT), d AS real, e as int FROM f",
            ),
            ("SELECT '質問?1', 変数 FROM ?2", "SELECT '質問?1', 変数 FROM $2"),
            ("SELECT 'open ?1", "SELECT 'open ?1"),
        ] {
            assert_eq!(statement(shared), postgres);
        }
    }

    #[test]
    fn tables_get_the_types_of_postgres_and_lose_the_options_of_sqlite() {
        for (shared, postgres) in [
            (
                "CREATE TABLE a (n INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, b blob, r REAL DEFAULT 1,
                 i integer, CHECK (i IN (1, 2)), PRIMARY KEY (n, i)) STRICT, WITHOUT ROWID;
                 CREATE INDEX x ON a (text, integer);",
                "CREATE TABLE a (n BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, text TEXT COLLATE \"C\" NOT NULL, \
                 b BYTEA, r DOUBLE PRECISION DEFAULT 1,
                 i BIGINT, CHECK (i IN (1, 2)), PRIMARY KEY (n, i))   ;
                 CREATE INDEX x ON a (text, integer);",
            ),
            (
                "ALTER TABLE a ADD COLUMN ms INTEGER NOT NULL DEFAULT 60000; ALTER TABLE a ADD t TEXT",
                "ALTER TABLE a ADD COLUMN ms BIGINT NOT NULL DEFAULT 60000; ALTER TABLE a ADD t TEXT COLLATE \"C\"",
            ),
            ("CREATE UNIQUE INDEX u ON a (b) WHERE c NOT IN ('x')", "CREATE UNIQUE INDEX u ON a (b) WHERE c NOT IN ('x')"),
            ("INSERT INTO a VALUES (1, 'STRICT')", "INSERT INTO a VALUES (1, 'STRICT')"),
            ("INSERT INTO a SELECT CAST(b AS BLOB) FROM c;", "INSERT INTO a SELECT CAST(b AS BYTEA) FROM c;"),
        ] {
            assert_eq!(script(shared), postgres);
        }
    }
}
