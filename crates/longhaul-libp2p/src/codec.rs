//! Frames on a stream: an unsigned varint with the length, then that many bytes, as everywhere in libp2p.
//!
//! It owns lengths and times; what a frame says is in `wire`. Invariant: of a frame that is too large nothing is kept,
//! memory grows with what has come and not with what was announced, and a frame that has begun ends within its time.

use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A frame that has begun to come or to go is whole after this, or its stream ends.
pub(crate) const FRAME_TIME: Duration = Duration::from_secs(20);

/// What ended a stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The other side announced more than is taken.
    #[error("a frame of {announced} bytes was announced, and at most {most} are taken")]
    TooLarge { announced: u64, most: usize },
    /// The length is no varint of at most nine bytes.
    #[error("the length before a frame is not an unsigned varint")]
    Length,
    /// It began and did not end, or nothing came at all.
    #[error("no whole frame came in time")]
    Slow,
    /// The stream broke.
    #[error("the stream broke")]
    Io(#[source] std::io::Error),
}

/// The next frame; nothing when the other side has ended the stream between two frames. Without `first` the first
/// byte may take as long as it likes.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    reader: &mut R,
    most: usize,
    first: Option<Duration>,
) -> Result<Option<Vec<u8>>, FrameError> {
    read_within(reader, most, first, FRAME_TIME).await
}

async fn read_within<R: AsyncRead + Unpin>(
    reader: &mut R,
    most: usize,
    first: Option<Duration>,
    whole: Duration,
) -> Result<Option<Vec<u8>>, FrameError> {
    let byte = match first {
        Some(first) => tokio::time::timeout(first, byte(reader)).await.map_err(|_| FrameError::Slow)??,
        None => byte(reader).await?,
    };
    let Some(byte) = byte else { return Ok(None) };
    tokio::time::timeout(whole, rest(reader, byte, most)).await.map_err(|_| FrameError::Slow)?.map(Some)
}

async fn rest<R: AsyncRead + Unpin>(reader: &mut R, first: u8, most: usize) -> Result<Vec<u8>, FrameError> {
    let (mut announced, mut shift, mut last) = (u64::from(first & 0x7f), 7, first);
    while last & 0x80 != 0 {
        if shift > 56 {
            return Err(FrameError::Length);
        }
        last = byte(reader).await?.ok_or_else(torn)?;
        announced |= u64::from(last & 0x7f) << shift;
        shift += 7;
    }
    let length = usize::try_from(announced).ok().filter(|length| *length <= most);
    let length = length.ok_or(FrameError::TooLarge { announced, most })?;
    let mut body = Vec::with_capacity(length.min(16 * 1024));
    let read = reader.take(announced).read_to_end(&mut body).await.map_err(FrameError::Io)?;
    if read < length { Err(torn()) } else { Ok(body) }
}

fn torn() -> FrameError {
    FrameError::Io(std::io::ErrorKind::UnexpectedEof.into())
}

async fn byte<R: AsyncRead + Unpin>(reader: &mut R) -> Result<Option<u8>, FrameError> {
    let mut byte = [0];
    let read = reader.read(&mut byte).await.map_err(FrameError::Io)?;
    Ok((read == 1).then_some(byte[0]))
}

/// Puts a frame into the writer; whoever calls flushes.
pub(crate) async fn write<W: AsyncWrite + Unpin>(writer: &mut W, body: &[u8]) -> Result<(), FrameError> {
    let whole = async {
        let (mut length, mut head) = (body.len(), Vec::with_capacity(10));
        while length >= 0x80 {
            head.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        head.push((length & 0x7f) as u8);
        writer.write_all(&head).await?;
        writer.write_all(body).await
    };
    tokio::time::timeout(FRAME_TIME, whole).await.map_err(|_| FrameError::Slow)?.map_err(FrameError::Io)
}

/// Sends what was written.
pub(crate) async fn flush<W: AsyncWrite + Unpin>(writer: &mut W) -> Result<(), FrameError> {
    tokio::time::timeout(FRAME_TIME, writer.flush()).await.map_err(|_| FrameError::Slow)?.map_err(FrameError::Io)
}

#[cfg(test)]
mod tests {
    use futures::io::Cursor;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn what_was_written_is_read_and_the_end_is_the_end() {
        runtime().block_on(async {
            for length in [0, 1, 127, 128, 300, 70_000] {
                let body = vec![7; length];
                let mut wire = Cursor::new(Vec::new());
                write(&mut wire, &body).await.unwrap();
                wire.set_position(0);
                assert_eq!(read(&mut wire, 70_000, None).await.unwrap(), Some(body));
                assert_eq!(read(&mut wire, 70_000, None).await.unwrap(), None);
            }
        });
    }

    #[test]
    fn too_much_too_long_and_torn_frames_are_refused() {
        let runtime = runtime();
        let refused = |wire: &[u8]| runtime.block_on(read(&mut Cursor::new(wire.to_vec()), 100, None)).unwrap_err();
        assert!(matches!(refused(&[101]), FrameError::TooLarge { announced: 101, most: 100 }));
        assert!(matches!(refused(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), FrameError::TooLarge { .. }));
        assert!(matches!(refused(&[0xff; 12]), FrameError::Length));
        assert!(matches!(refused(&[5, 1, 2]), FrameError::Io(_)));
        assert!(matches!(refused(&[0x80]), FrameError::Io(_)));
    }

    #[test]
    fn a_frame_that_never_ends_ends_its_stream() {
        /// Gives what it has, and then nothing, without an end.
        struct Stalling(Vec<u8>);
        impl AsyncRead for Stalling {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
                into: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                if self.0.is_empty() {
                    return std::task::Poll::Pending;
                }
                into[0] = self.0.remove(0);
                std::task::Poll::Ready(Ok(1))
            }
        }
        let soon = Duration::from_millis(5);
        runtime().block_on(async {
            let begun = read_within(&mut Stalling(vec![50, b'{']), 100, None, soon).await;
            assert!(matches!(begun.unwrap_err(), FrameError::Slow));
            let nothing = read_within(&mut Stalling(Vec::new()), 100, Some(soon), FRAME_TIME).await;
            assert!(matches!(nothing.unwrap_err(), FrameError::Slow));
        });
    }
}
