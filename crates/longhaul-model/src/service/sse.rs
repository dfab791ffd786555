//! Server-sent events, decoded from bytes as they come. No I/O and no JSON.
//!
//! Source: the "Parsing an event stream" section of the HTML standard; lines end in CR, LF or CRLF, lines that start
//! with a colon are comments, several `data` lines of an event are joined by line breaks. One deviation: an event that
//! the end of the stream cuts before its blank line is still given out, since some services forget the blank line.

/// Collects bytes into the `data` of whole events. The caller bounds how much it feeds.
#[derive(Debug, Default)]
pub(crate) struct SseDecoder {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
    started: bool,
}

impl SseDecoder {
    /// Takes the next bytes and gives the data of each event they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\r' | b'\n' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
        }
        events
    }

    /// The stream is over: gives the event that was under way, if there was one.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let completed = if self.line.is_empty() { None } else { self.end_line() };
        completed.or_else(|| self.data.take())
    }

    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return self.data.take();
        }
        let value = line.strip_prefix(b"data")?;
        let value = if value.is_empty() { value } else { value.strip_prefix(b":")? };
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match &mut self.data {
            Some(data) => {
                data.push('\n');
                data.push_str(&value);
            }
            None => self.data = Some(value.into_owned()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::{
        anthropic::assemble as messages,
        openai::{assemble as chat, responses::assemble as responses},
        service::Assemble,
    };

    fn decoded(stream: &[u8], piece_bytes: usize) -> Vec<String> {
        let mut decoder = SseDecoder::default();
        let mut events: Vec<String> = stream.chunks(piece_bytes).flat_map(|piece| decoder.push(piece)).collect();
        events.extend(decoder.finish());
        events
    }

    #[test]
    fn every_line_ending_and_every_cut_gives_the_same_events() {
        let stream = "\u{feff}: a comment\nevent: x\ndata: 你好\nid: 7\n\n:\n\ndata:two\ndata: lines\n\nretry: 5\n\ndatax: no\n\ndata\n\ndata: [DONE]";
        let expected = ["你好", "two\nlines", "", "[DONE]"];
        for ending in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', ending);
            for piece_bytes in [1, 2, 3, 7, stream.len()] {
                assert_eq!(decoded(stream.as_bytes(), piece_bytes), expected, "{ending:?} in pieces of {piece_bytes}");
            }
        }
    }

    proptest! {
        /// Whatever a service sends: nothing panics, and how the network cut it does not matter.
        #[test]
        fn any_bytes_decode_the_same_however_they_are_cut(
            lines in vec(prop_oneof![
                Just(b"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}".to_vec()),
                Just(b"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":9}]}}]}".to_vec()),
                Just(b"data: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}".to_vec()),
                Just(b"data: {\"type\":\"response.output_item.done\",\"output_index\":9,\"item\":{\"type\":\"reasoning\"}}".to_vec()),
                Just(b"\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"\r".to_vec()), Just(b"data".to_vec()),
                vec(any::<u8>(), 0..20),
            ], 0..30),
            piece_bytes in 1_usize..40,
        ) {
            let stream = lines.concat();
            let whole = decoded(&stream, stream.len().max(1));
            prop_assert_eq!(&decoded(&stream, piece_bytes), &whole);
            // Broken events are errors; the property is that they are nothing worse.
            let mut chat = chat::Assembler::default();
            let mut messages = messages::Assembler::default();
            let mut responses = responses::Assembler::default();
            for event in whole {
                let _ = (chat.take(&event), messages.take(&event), responses.take(&event));
            }
        }
    }
}
