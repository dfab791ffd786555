//! The file of a partition's bytes and lists, so that a new process need not read and divide every row.
//!
//! `MAGIC`, the length of the head, the head as JSON, the centres, one record for each live vector, and a SHA-256 of all
//! of it. Derived: a file that is missing, cut, changed, of another version, or that does not fit the rows is not used,
//! and written anew later. Invariants: a file is complete once it has its name; two processes do not write one at once.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::namespace::PartitionId;

use super::{
    centres::Centres,
    lists::{Lists, NO_LIST, Sketch},
    partition::{Partition, State},
    quantise::ROTATION,
    slots::Slots,
};

const MAGIC: &[u8; 8] = b"lhvector";
const VERSION: u32 = 2;
const HEAD_BYTES_MAX: u32 = 64 * 1024;
const DIGEST_BYTES: u64 = 32;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Head {
    version: u32,
    rotation: u32,
    tenant: String,
    namespace: String,
    embedder: String,
    dimensions: usize,
    /// All rows up to this `vector_seq` are in.
    read_to: i64,
    vectors: u64,
    centres: u64,
    /// Live vectors when the centres were found.
    trained: u64,
}

impl Head {
    /// The length of the whole file, if it is one that can be.
    fn file_bytes(&self, head_bytes: u64, width: u64) -> Option<u64> {
        let centres = self.centres.checked_mul(width + 4)?;
        let vectors = self.vectors.checked_mul(width + 16)?;
        (12 + head_bytes + DIGEST_BYTES).checked_add(centres)?.checked_add(vectors)
    }
}

/// Where a partition's file is. The name is a digest, since a tenant's id may hold anything.
fn path(dir: &Path, id: &PartitionId) -> PathBuf {
    dir.join(format!("{}.vectors", &hex::encode(Sha256::digest(id.to_string()))[..32]))
}

/// Writes the partition's file, if it has an index and none of it may have been erased.
pub(super) fn save(dir: &Path, partition: &Partition) -> io::Result<()> {
    let purges = partition.purges();
    let (slots, list_of, centres, read_to, trained) = {
        let state = partition.state();
        let Some(lists) = state.lists.as_ref().filter(|_| !state.must_learn) else { return Ok(()) };
        (state.slots.clone(), lists.list_of().to_vec(), lists.centres().clone(), state.read_to, state.trained)
    };
    let head = Head {
        version: VERSION,
        rotation: ROTATION,
        tenant: partition.id.tenant.to_string(),
        namespace: partition.id.namespace.to_string(),
        embedder: partition.embedder.clone(),
        dimensions: partition.rotation.dimensions(),
        read_to,
        vectors: slots.live() as u64,
        centres: centres.len() as u64,
        trained: trained as u64,
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = path(dir, &partition.id);
    let new = path.with_extension("new");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&new)?;
    if file.try_lock().is_err() {
        return Ok(()); // Another process is writing the same.
    }
    file.set_len(0)?;
    let mut out = Hashed { inner: BufWriter::with_capacity(1 << 20, &file), digest: Sha256::new() };
    write(&mut out, &head, &slots, &list_of, &centres)?;
    let digest = out.digest.finalize();
    out.inner.write_all(&digest)?;
    out.inner.flush()?;
    drop(out.inner);
    file.sync_all()?;
    fs::rename(&new, &path)?;
    if partition.purges() != purges {
        // What it was written from may hold what has been erased meanwhile.
        partition.state_mut().saved_to = 0;
        return remove(dir, &partition.id).map(drop);
    }
    File::open(dir)?.sync_all()
}

/// Removes a partition's file. Tells whether there was one.
pub(super) fn remove(dir: &Path, id: &PartitionId) -> io::Result<bool> {
    let path = path(dir, id);
    let mut removed = false;
    for file in [path.with_extension("new"), path] {
        match fs::remove_file(file) {
            Ok(()) => removed = true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    if removed {
        File::open(dir)?.sync_all()?;
    }
    Ok(removed)
}

fn write(out: &mut impl Write, head: &Head, slots: &Slots, list_of: &[u32], centres: &Centres) -> io::Result<()> {
    let json = serde_json::to_vec(head)?;
    out.write_all(MAGIC)?;
    out.write_all(&(json.len() as u32).to_le_bytes())?;
    out.write_all(&json)?;
    write_bytes(out, centres.bytes())?;
    for scale in centres.scales() {
        out.write_all(&scale.to_le_bytes())?;
    }
    for slot in 0..slots.len() {
        let Some(seq) = slots.seq(slot) else { continue };
        let (bytes, scale) = slots.code(slot);
        let list = list_of.get(slot).copied().unwrap_or(NO_LIST);
        out.write_all(&seq.to_le_bytes())?;
        out.write_all(&list.to_le_bytes())?;
        out.write_all(&scale.to_le_bytes())?;
        write_bytes(out, bytes)?;
    }
    Ok(())
}

fn write_bytes(out: &mut impl Write, bytes: &[i8]) -> io::Result<()> {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).collect();
    out.write_all(&bytes)
}

/// What the partition's file holds; `None` when there is none. `newest` is the rows' last `vector_seq`,
/// `last_seq` the largest number of a memory.
///
/// # Errors
/// When the file is not one that can be used: [`io::ErrorKind::InvalidData`] with the reason, or the system's answer.
pub(super) fn load(dir: &Path, partition: &Partition, newest: i64, last_seq: i64) -> io::Result<Option<State>> {
    let file = match File::open(path(dir, &partition.id)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let file_bytes = file.metadata()?.len();
    let mut from = Hashed { inner: BufReader::with_capacity(1 << 20, file), digest: Sha256::new() };
    if &from.take_bytes::<8>()? != MAGIC {
        return Err(unusable("it is not an index"));
    }
    let head_bytes = u32::from_le_bytes(from.take_bytes()?);
    if head_bytes > HEAD_BYTES_MAX {
        return Err(unusable("its head is too long"));
    }
    let mut json = vec![0; head_bytes as usize];
    from.read_exact(&mut json)?;
    let head: Head = serde_json::from_slice(&json)?;
    let expected = Head {
        version: VERSION,
        rotation: ROTATION,
        tenant: partition.id.tenant.to_string(),
        namespace: partition.id.namespace.to_string(),
        embedder: partition.embedder.clone(),
        dimensions: partition.rotation.dimensions(),
        ..head.clone()
    };
    let width = partition.rotation.width();
    if head != expected || head.read_to > newest {
        return Err(unusable("it belongs to another model, version or store"));
    }
    if head.file_bytes(u64::from(head_bytes), width as u64) != Some(file_bytes) || head.centres == 0 {
        return Err(unusable("it is not complete"));
    }
    let state = read(&mut from, &head, width, last_seq)?;
    let digest = from.digest.finalize();
    let mut stored = [0; DIGEST_BYTES as usize];
    from.inner.read_exact(&mut stored)?;
    if digest.as_slice() != stored {
        return Err(unusable("its digest is wrong"));
    }
    Ok(Some(state))
}

fn read(from: &mut Hashed<impl Read>, head: &Head, width: usize, last_seq: i64) -> io::Result<State> {
    let mut bytes = Vec::new();
    let mut all = Vec::with_capacity(head.centres as usize * width);
    for _ in 0..head.centres {
        from.take_signed(width, &mut bytes)?;
        all.extend_from_slice(&bytes);
    }
    let scales: io::Result<Vec<f32>> = (0..head.centres).map(|_| from.take_bytes().map(f32::from_le_bytes)).collect();
    let centres = Arc::new(Centres::new(width, all, scales?));
    let (mut slots, mut lists) = (Slots::new(width), Lists::new(centres.clone()));
    for _ in 0..head.vectors {
        let seq = i64::from_le_bytes(from.take_bytes()?);
        let list = u32::from_le_bytes(from.take_bytes()?);
        let scale = f32::from_le_bytes(from.take_bytes()?);
        from.take_signed(width, &mut bytes)?;
        // Before the digest is checked, what is read is not trusted with memory.
        if !(1..=last_seq).contains(&seq) {
            return Err(unusable("a number in it is impossible"));
        }
        let slot = slots.len();
        slots.put(seq, &bytes, scale);
        if (list as usize) < centres.len() && lists.covered() == slot {
            lists.push(&slots, &Sketch::in_list(&centres, list, &bytes, scale));
        }
    }
    Ok(State {
        slots,
        lists: Some(lists),
        read_to: head.read_to,
        gone_to: 0,
        trained: head.trained as usize,
        saved_to: head.read_to,
        must_learn: false,
    })
}

fn unusable(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// Passes bytes on and digests them.
struct Hashed<T> {
    inner: T,
    digest: Sha256,
}

impl<T: Write> Write for Hashed<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Hashed<T> {
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.inner.read_exact(bytes)?;
        self.digest.update(&*bytes);
        Ok(())
    }

    fn take_bytes<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn take_signed(&mut self, count: usize, into: &mut Vec<i8>) -> io::Result<()> {
        let mut bytes = vec![0_u8; count];
        self.read_exact(&mut bytes)?;
        into.clear();
        into.extend(bytes.into_iter().map(|byte| byte as i8));
        Ok(())
    }
}
