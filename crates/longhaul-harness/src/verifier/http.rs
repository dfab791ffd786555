//! The `http` check: one request to the application, and the comparison of its answer. HTTP/1.1 over a plain connection
//! to loopback, one request a connection, bounded in time and size.

use std::time::Duration;

use longhaul_tools::browser::fold;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::front::host_of;
use crate::checks::HttpCheck;

const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Carries the check out; the error is the reason for which it does not hold.
pub(super) async fn hold(check: &HttpCheck, base_url: &str, limit: Duration) -> Result<String, String> {
    let named = format!("{} {}", check.method, check.path);
    let answer = match tokio::time::timeout(limit, request(check, &host_of(base_url))).await {
        Err(_) => return Err(format!("{named} was not answered within {} ms", limit.as_millis())),
        Ok(Err(error)) => return Err(format!("{named} failed: {error}")),
        Ok(Ok(answer)) => answer,
    };
    let (status, body) =
        parse(&answer).ok_or_else(|| format!("{named} was answered with something that is not HTTP"))?;
    let shown = || fold(&String::from_utf8_lossy(&body)).chars().take(300).collect::<String>();
    if status != check.status {
        return Err(format!("{named} answered {status}, expected {}: {}", check.status, shown()));
    }
    if let Some(wanted) = &check.json {
        let got: Value = serde_json::from_slice(&body)
            .map_err(|error| format!("{named} answered no JSON ({error}): {}", shown()))?;
        if let Some(difference) = differs(wanted, &got, "") {
            return Err(format!("{named} answered other JSON: {difference}"));
        }
    }
    Ok(format!("{named} answered {status}"))
}

async fn request(check: &HttpCheck, host: &str) -> std::io::Result<Vec<u8>> {
    let body = check.body.as_ref().map(Value::to_string).unwrap_or_default();
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: application/json\r\n",
        check.method, check.path
    );
    if check.body.is_some() {
        head.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    let mut connection = TcpStream::connect(host).await?;
    connection.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    let mut answer = Vec::new();
    let mut limited = (&mut connection).take(ANSWER_BYTES_MAX);
    let mut buffer = vec![0; 16 * 1024];
    // A server may keep the connection open, so the end is read from the answer itself where it says.
    while !is_complete(&answer) {
        match limited.read(&mut buffer).await? {
            0 => break,
            read => answer.extend_from_slice(&buffer[..read]),
        }
    }
    Ok(answer)
}

fn head_of(answer: &[u8]) -> Option<(String, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((String::from_utf8_lossy(&answer[..end]).into_owned(), end + 4))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn is_complete(answer: &[u8]) -> bool {
    let Some((head, start)) = head_of(answer) else { return false };
    if header(&head, "transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked")) {
        return unchunk(&answer[start..]).is_some();
    }
    let length = header(&head, "content-length").and_then(|length| length.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() - start >= length)
}

fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let (head, start) = head_of(answer)?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[start..];
    let chunked = header(&head, "transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked"));
    Some((status, if chunked { unchunk(body)? } else { body.to_vec() }))
}

/// The content of a chunked body; `None` while its last chunk is missing.
fn unchunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let line = body.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&body[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        body = &body[line + 2..];
        if size == 0 {
            return Some(content);
        }
        content.extend_from_slice(body.get(..size)?);
        body = body.get(size.checked_add(2)?..)?;
    }
}

/// Where `got` lacks something of `wanted`: objects may have more members, arrays must be as long.
pub(super) fn differs(wanted: &Value, got: &Value, place: &str) -> Option<String> {
    let at = if place.is_empty() { "the answer" } else { place };
    let cut = |value: &Value| value.to_string().chars().take(200).collect::<String>();
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => wanted.iter().find_map(|(key, value)| {
            let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
            match got.get(key) {
                None => Some(format!("{place} is missing")),
                Some(got) => differs(value, got, &place),
            }
        }),
        (Value::Array(wanted), Value::Array(got)) if wanted.len() != got.len() => {
            Some(format!("{at} has {} entries, expected {}", got.len(), wanted.len()))
        }
        (Value::Array(wanted), Value::Array(got)) => wanted
            .iter()
            .zip(got)
            .enumerate()
            .find_map(|(index, (wanted, got))| differs(wanted, got, &format!("{place}[{index}]"))),
        (wanted, got) if wanted == got => None,
        (wanted, got) => Some(format!("{at} is {}, expected {}", cut(got), cut(wanted))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read_with_and_without_chunks() {
        let plain = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
        assert!(is_complete(plain) && !is_complete(&plain[..plain.len() - 1]));
        assert_eq!(parse(plain), Some((200, b"ok".to_vec())));
        let chunked = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\nay!\r\n0\r\n\r\n";
        assert_eq!(parse(chunked), Some((201, b"okay!".to_vec())));
        assert!(!is_complete(&chunked[..60]));
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
    }

    #[test]
    fn json_must_contain_what_is_wanted() {
        let got = json!({"items": [{"id": 1, "title": "a"}], "total": 1});
        assert_eq!(differs(&json!({"items": [{"title": "a"}]}), &got, ""), None);
        assert_eq!(differs(&json!({"items": []}), &got, "").unwrap(), "items has 1 entries, expected 0");
        assert_eq!(
            differs(&json!({"items": [{"title": "b"}]}), &got, "").unwrap(),
            "items[0].title is \"a\", expected \"b\""
        );
        assert_eq!(differs(&json!({"x": 1}), &got, "").unwrap(), "x is missing");
    }
}
