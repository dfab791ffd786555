//! Copies of a folder in which applications are tried out, so that the folder itself stays as it is and flows side by
//! side cannot see each other's files. Blocking; its callers give it a thread.
//!
//! Invariant: nothing is ever written, linked or owned in the folder that was copied. A copy taken from the pool equals
//! what the pool was made of, whatever the flow before left in it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

/// Copies that flows take and give back.
#[derive(Debug)]
pub(crate) struct Copies {
    original: PathBuf,
    state: BTreeMap<PathBuf, Stamp>,
    free: Mutex<Vec<PathBuf>>,
    parent: PathBuf,
}

/// What tells whether an entry was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stamp {
    Folder,
    File { length: u64, modified: Option<SystemTime> },
    Link(PathBuf),
}

impl Copies {
    /// Copies of `original` as it is now, made below `parent` when they are needed.
    pub(crate) fn of(original: &Path, parent: &Path) -> io::Result<Self> {
        let mut state = BTreeMap::new();
        walk(original, Path::new(""), &mut |at, stamp| {
            state.insert(at.to_owned(), stamp);
            Ok(())
        })?;
        Ok(Self { original: original.to_owned(), state, free: Mutex::default(), parent: parent.to_owned() })
    }

    /// A copy that nobody else uses.
    pub(crate) fn take(&self, number: usize) -> io::Result<PathBuf> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(copy) = free {
            self.put_back(&copy)?;
            return Ok(copy);
        }
        let copy = self.parent.join(format!("copy-{number}"));
        copy_folder(&self.original, &copy)?;
        Ok(copy)
    }

    /// Gives a copy back.
    pub(crate) fn give(&self, copy: PathBuf) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
    }

    /// Undoes what a flow did in its copy.
    fn put_back(&self, copy: &Path) -> io::Result<()> {
        let mut found = BTreeMap::new();
        walk(copy, Path::new(""), &mut |at, stamp| {
            found.insert(at.to_owned(), stamp);
            Ok(())
        })?;
        for (at, stamp) in &found {
            if self.state.get(at) != Some(stamp) {
                remove(&copy.join(at))?;
            }
        }
        for (at, stamp) in &self.state {
            let here = copy.join(at);
            if fs::symlink_metadata(&here).is_err() {
                place(&self.original.join(at), &here, stamp)?;
            }
        }
        Ok(())
    }
}

/// Copies a folder without its `.git`, in whose place is an empty one; sockets, pipes and devices are left out.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    walk(from, Path::new(""), &mut |at, stamp| place(&from.join(at), &to.join(at), &stamp))?;
    fs::create_dir_all(to.join(".git"))
}

fn place(from: &Path, to: &Path, stamp: &Stamp) -> io::Result<()> {
    match stamp {
        Stamp::Folder => {
            fs::create_dir_all(to)?;
            let mode = fs::metadata(from)?.permissions();
            fs::set_permissions(to, mode)
        }
        Stamp::Link(target) => std::os::unix::fs::symlink(target, to),
        Stamp::File { modified, .. } => {
            fs::copy(from, to)?;
            let Some(modified) = modified else { return Ok(()) };
            // A file that only its owner may write cannot be given a time by others; it is then looked at as changed.
            fs::File::options().append(true).open(to).and_then(|file| file.set_modified(*modified)).or(Ok(()))
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    // With its folder, just now.
    removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Tells every entry below `top` but `.git`, parents first.
fn walk(top: &Path, at: &Path, tell: &mut dyn FnMut(&Path, Stamp) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(top.join(at))? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if at.as_os_str().is_empty() && name == ".git" {
            continue;
        }
        let path = at.join(&name);
        if kind.is_dir() {
            tell(&path, Stamp::Folder)?;
            walk(top, &path, tell)?;
        } else if kind.is_symlink() {
            tell(&path, Stamp::Link(fs::read_link(entry.path())?))?;
        } else if kind.is_file() {
            let found = entry.metadata()?;
            tell(&path, Stamp::File { length: found.len(), modified: found.modified().ok() })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_as_it_was_when_it_is_taken_again() {
        let place = tempfile::tempdir().unwrap();
        let original = place.path().join("app");
        fs::create_dir_all(original.join("sub")).unwrap();
        fs::create_dir_all(original.join(".git/objects")).unwrap();
        fs::write(original.join("a"), "1").unwrap();
        fs::write(original.join("sub/b"), "2").unwrap();
        std::os::unix::fs::symlink("a", original.join("link")).unwrap();
        let copies = Copies::of(&original, place.path()).unwrap();
        let copy = copies.take(0).unwrap();
        assert!(copy.join(".git").is_dir() && !copy.join(".git/objects").exists());
        fs::write(copy.join("a"), "changed").unwrap();
        fs::write(copy.join("sub/data.db"), "left behind").unwrap();
        fs::remove_file(copy.join("link")).unwrap();
        fs::remove_dir_all(copy.join("sub")).unwrap();
        fs::write(copy.join("sub"), "a file now").unwrap();
        copies.give(copy.clone());
        assert_eq!(copies.take(1).unwrap(), copy, "copies are used again");
        assert_eq!(fs::read_to_string(copy.join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(copy.join("sub/b")).unwrap(), "2");
        assert_eq!(fs::read_link(copy.join("link")).unwrap(), Path::new("a"));
        assert!(!copy.join("sub/data.db").exists());
        assert_eq!(fs::read_to_string(original.join("a")).unwrap(), "1");
        assert_ne!(copies.take(2).unwrap(), copy, "nobody shares one");
    }
}
