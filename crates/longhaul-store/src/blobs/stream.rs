//! Content in pieces: from a reader to where it is kept, and back.
//!
//! It owns the pieces' way between the runtime and the thread that does files, hashing and compression. Invariants: a
//! few pieces are in memory, however much content there is; what is not put to its end leaves nothing; a reader is
//! told of the end only when the digest was right, and the last piece waits for that.

use std::{
    io::Write,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use longhaul_core::{Digest, Digester, TenantId};
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    sync::mpsc,
};

use super::encoding::{Encoding, Packing, Verified, from_stream};
use crate::StoreError;

/// Size of a piece.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;

/// Pieces that may wait between two threads.
const PIECES_MAX: usize = 4;

/// Where stored bytes are written until they get their name. Dropped without a name it leaves nothing.
pub(crate) trait Sink: Write + Send {
    /// Gives it its name, when everything is durable.
    fn keep(self: Box<Self>, content: Content) -> Result<(), StoreError>;
}

/// What was written.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    pub(crate) tenant: TenantId,
    pub(crate) digest: Digest,
    pub(crate) encoding: Encoding,
    /// Of the content itself.
    pub(crate) bytes: u64,
}

/// Content on its way in: hashed, compressed, written.
pub(crate) struct Writing {
    packing: Packing<Box<dyn Sink>>,
    hash: Digester,
    encoding: Encoding,
    bytes: u64,
    /// What to call the place.
    path: PathBuf,
}

impl Writing {
    pub(crate) fn new(sink: Box<dyn Sink>, encoding: Encoding, path: PathBuf) -> Result<Self, StoreError> {
        let packing = Packing::new(encoding, sink).map_err(|error| from_stream(&path, error))?;
        Ok(Self { packing, hash: Digester::new(), encoding, bytes: 0, path })
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        self.hash.update(piece);
        self.bytes += piece.len() as u64;
        self.packing.add(piece).map_err(|error| from_stream(&self.path, error))
    }

    pub(crate) fn finish(self, tenant: TenantId) -> Result<Content, StoreError> {
        let Self { packing, hash, encoding, bytes, path } = self;
        let sink = packing.finish().map_err(|error| from_stream(&path, error))?;
        let content = Content { tenant, digest: hash.finish(), encoding, bytes };
        sink.keep(content.clone())?;
        Ok(content)
    }
}

/// Pieces on their way to the thread that writes; nothing more comes after the one that says so.
pub(crate) enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// Takes pieces until the end, and makes nothing of it if that never comes.
pub(crate) fn write_pieces(
    mut writing: Writing,
    mut pieces: mpsc::Receiver<Piece>,
    tenant: TenantId,
) -> Result<Option<Content>, StoreError> {
    while let Some(piece) = pieces.blocking_recv() {
        match piece {
            Piece::Bytes(piece) => writing.add(&piece)?,
            Piece::End => return writing.finish(tenant).map(Some),
        }
    }
    Ok(None)
}

pub(crate) fn channel() -> (mpsc::Sender<Piece>, mpsc::Receiver<Piece>) {
    mpsc::channel(PIECES_MAX)
}

/// The next piece, as full as possible; an empty one at the end.
pub(crate) async fn next_piece(reader: &mut (impl AsyncRead + Unpin), bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(bytes);
    let mut reader = reader.take(bytes as u64);
    while piece.len() < bytes && reader.read_buf(&mut piece).await? > 0 {}
    Ok(piece)
}

/// Content in pieces, verified: whoever has seen the end has read what was put, and whoever has not has an error. Also
/// an [`AsyncRead`], whose errors hold a [`StoreError`].
#[derive(Debug)]
pub struct BlobReader {
    /// Nothing stands for the end.
    pieces: mpsc::Receiver<Result<Option<Bytes>, StoreError>>,
    current: Bytes,
    /// The end, or an error, has been told.
    ended: bool,
}

impl BlobReader {
    /// Starts a thread that reads ahead by a few pieces.
    pub(crate) fn new(mut content: Verified) -> Self {
        let (sender, pieces) = mpsc::channel(PIECES_MAX);
        tokio::task::spawn_blocking(move || {
            let mut read = || -> Result<(), StoreError> {
                let mut held = Bytes::new();
                loop {
                    let mut piece = vec![0; PIECE_BYTES];
                    let read = content.read(&mut piece)?;
                    let is_last = read < piece.len();
                    piece.truncate(read);
                    let before = std::mem::replace(&mut held, piece.into());
                    // A reader that has gone needs no more.
                    if !before.is_empty() && sender.blocking_send(Ok(Some(before))).is_err() {
                        return Ok(());
                    }
                    if is_last {
                        for last in [Some(held), None] {
                            let _ = sender.blocking_send(Ok(last));
                        }
                        return Ok(());
                    }
                }
            };
            if let Err(error) = read() {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Self { pieces, current: Bytes::new(), ended: false }
    }

    /// The next piece, of at most 256 KiB; nothing at the verified end.
    ///
    /// # Errors
    /// [`StoreError::BlobDamaged`] in place of the last piece or before, [`StoreError::Io`].
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        std::future::poll_fn(|context| self.poll_piece(context)).await
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StoreError>> {
        if !self.current.is_empty() {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.current))));
        }
        while !self.ended {
            match ready!(self.pieces.poll_recv(context)) {
                Some(Ok(None)) => self.ended = true,
                Some(Ok(Some(piece))) if piece.is_empty() => {}
                Some(Ok(Some(piece))) => return Poll::Ready(Ok(Some(piece))),
                Some(Err(error)) => {
                    self.ended = true;
                    return Poll::Ready(Err(error));
                }
                None => {
                    self.ended = true;
                    let message = "the thread that read a blob has gone".to_owned();
                    return Poll::Ready(Err(StoreError::Panicked { message }));
                }
            }
        }
        Poll::Ready(Ok(None))
    }
}

impl AsyncRead for BlobReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match ready!(self.poll_piece(context)) {
            Ok(Some(mut piece)) => {
                let now = piece.split_to(piece.len().min(to.remaining()));
                to.put_slice(&now);
                self.current = piece;
                Poll::Ready(Ok(()))
            }
            Ok(None) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(std::io::Error::other(error))),
        }
    }
}
