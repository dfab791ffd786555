//! Looking at everything that is stored, and changing nothing.
//!
//! It owns the walk, the checks of the database and of the blobs, and the report; what other crates' rows must satisfy
//! they say themselves, as [`Check`]s. Invariant: what is wrong with one part does not keep others from being looked at.

use std::{collections::HashSet, error::Error, fmt};

use longhaul_core::{Digest, TenantId, TimeMs};

use crate::{Place, ReadTx, Store, StoreError, blobs::off_the_runtime, references::references, shelf::Kept};

/// Findings kept of one check; the rest is counted.
const FINDINGS_MAX: usize = 1000;

/// A blob younger than this may be waiting for the row that will refer to it.
const YOUNG_MS: i64 = 60 * 60 * 1000;

/// Something that a component's rows must satisfy.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The crate, without its `longhaul-` prefix.
    pub component: &'static str,
    /// What must hold, in words: `every checkpoint has its parent`.
    pub name: &'static str,
    /// What to do about what it finds.
    pub advice: &'static str,
    /// How it looks.
    pub look: Look,
}

/// How a check looks at the rows.
#[derive(Debug, Clone, Copy)]
pub enum Look {
    /// A query whose every row is something wrong, described in its one column of text.
    Sql(&'static str),
    /// Code that describes everything wrong.
    Code(fn(&ReadTx<'_>) -> Result<Vec<String>, StoreError>),
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It takes space and does no harm.
    Waste,
    /// Something is lost or cannot be trusted.
    Damage,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Whose check it was.
    pub component: &'static str,
    /// What should hold.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub advice: &'static str,
}

/// What a verification has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Everything found, check by check.
    pub findings: Vec<Finding>,
    /// Findings beyond the first 1000 of a check.
    pub omitted: u64,
    /// Checks made.
    pub checks: u64,
    /// Blobs read and compared with their digest.
    pub blobs: u64,
}

impl Report {
    /// Nothing is damaged; there may be waste.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity == Severity::Waste)
    }

    fn add(&mut self, title: Title, severity: Severity, found: Result<Vec<String>, StoreError>) {
        let Title { component, name: check, advice } = title;
        self.checks += 1;
        let (found, severity) = match found {
            Ok(found) => (found, severity),
            Err(error) => (vec![format!("could not be looked at: {}", with_sources(&error))], Severity::Damage),
        };
        self.omitted += found.len().saturating_sub(FINDINGS_MAX) as u64;
        self.findings.extend(found.into_iter().take(FINDINGS_MAX).map(|what| Finding {
            component,
            check,
            severity,
            what,
            advice,
        }));
    }
}

/// One paragraph a finding, then a line that sums up.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding { component, check, severity, what, advice } = finding;
            let severity = if *severity == Severity::Damage { "damage" } else { "waste" };
            writeln!(f, "{severity}: {what}\n  {component}: {check}\n  what to do: {advice}")?;
        }
        if self.omitted > 0 {
            writeln!(f, "and {} more", self.omitted)?;
        }
        let damaged = self.findings.iter().filter(|finding| finding.severity == Severity::Damage).count();
        let outcome = if damaged == 0 { "sound".to_owned() } else { format!("damaged in {damaged} places") };
        write!(f, "{outcome}: {} checks made, {} blobs read", self.checks, self.blobs)
    }
}

/// What a check is called and what it advises.
#[derive(Debug, Clone, Copy)]
struct Title {
    component: &'static str,
    name: &'static str,
    advice: &'static str,
}

const fn own(name: &'static str, advice: &'static str, look: Look) -> Check {
    Check { component: "store", name, advice, look }
}

const PAGES: Check = own(
    "the database is well formed",
    "keep a copy and restore a backup; `sqlite3 longhaul.db .recover` saves what can still be read",
    Look::Code(|read| {
        // A row says `ok`, or one thing that is wrong.
        let rows = read.query("PRAGMA integrity_check(1000)", &[], |row| row.get::<String>(0))?;
        Ok(rows.into_iter().filter(|row| row != "ok").collect())
    }),
);

const PARENTS: Check = own(
    "every row that another one refers to is there",
    "restore a backup, or report it with this line",
    Look::Code(|read| {
        read.query("PRAGMA foreign_key_check", &[], |row| {
            let (table, parent) = (row.text(0)?, row.text(2)?);
            let which = row.get::<Option<i64>>(1)?.map_or_else(String::new, |id| format!(" {id}"));
            Ok(format!("row{which} of {table} refers to a row of {parent} that is not there"))
        })
    }),
);

const BLOBS_WHOLE: Title = Title {
    component: "store",
    name: "every blob is what its name says",
    advice: "restore the file from a backup, or put the same content again",
};

const BLOBS_THERE: Title = Title {
    component: "store",
    name: "every blob that a row refers to is there",
    advice: "restore the file from a backup",
};

const BLOBS_NEEDED: Title =
    Title { component: "store", name: "every blob is referred to", advice: "a sweep of the blobs removes it" };

const BLOBS_ONLY: Title = Title {
    component: "store",
    name: "the folder of blobs holds nothing else",
    advice: "look at it, then move it away",
};

impl Store {
    /// Looks at everything: the database's own structure, the references between rows, every blob's content and who
    /// needs it, and what these checks say. Changes nothing. Reads the whole store once, beside whoever uses it; what
    /// cannot be looked at is a finding too.
    ///
    /// # Errors
    /// [`StoreError::Panicked`] when a check panics; [`StoreError::Io`] when the folder of locks cannot be used.
    pub async fn verify(&self, checks: &[Check]) -> Result<Report, StoreError> {
        let (store, checks) = (self.clone(), checks.to_vec());
        off_the_runtime(move || {
            let _every_blob_stays = store.blobs().keep_all()?;
            let mut report = Report::default();
            let needed = store.read_now(|read| {
                // PostgreSQL looks after its pages and its foreign keys by itself.
                let own: &[Check] = if store.is_on_sqlite() { &[PAGES, PARENTS] } else { &[] };
                for check in own.iter().chain(&checks) {
                    let found = match check.look {
                        Look::Sql(sql) => read.query(sql, &[], |row| row.get::<String>(0)),
                        Look::Code(look) => look(read),
                    };
                    let Check { component, name, advice, .. } = *check;
                    report.add(Title { component, name, advice }, Severity::Damage, found);
                }
                references(read)
            });
            let needed = match needed {
                Ok(needed) if needed.are_known => Some(needed.blobs),
                Ok(_) => None,
                Err(error) => {
                    report.add(BLOBS_THERE, Severity::Damage, Err(error));
                    None
                }
            };
            store.verify_blobs(needed, &mut report);
            Ok(report)
        })
        .await
    }

    fn is_on_sqlite(&self) -> bool {
        match self.place() {
            Place::Folder(_) | Place::Memory => true,
            Place::Postgres { .. } => false,
        }
    }

    /// `needed` is nothing where it is not known.
    fn verify_blobs(&self, needed: Option<HashSet<(TenantId, Digest)>>, report: &mut Report) {
        let blobs = self.blobs();
        let listed = match blobs.list() {
            Ok(listed) => listed,
            Err(error) => return report.add(BLOBS_THERE, Severity::Damage, Err(error)),
        };
        let young = blobs.now().map(|now| TimeMs(now.0.saturating_sub(YOUNG_MS)));
        let is_old = |put_at: TimeMs| young.as_ref().is_ok_and(|young| put_at < *young);
        let mut lacking = needed.clone().unwrap_or_default();
        let (mut damaged, mut waste, mut strangers) = (Vec::new(), Vec::new(), Vec::new());
        for kept in listed {
            match kept {
                Kept::Blob { tenant, digest, path, put_at, .. } => {
                    report.blobs += 1;
                    let key = (tenant, digest);
                    lacking.remove(&key);
                    if let Err(error) = blobs.check_now(&key.0, &digest) {
                        damaged.push(with_sources(&error));
                    }
                    if needed.as_ref().is_some_and(|needed| !needed.contains(&key)) && is_old(put_at) {
                        waste.push(format!("nothing refers to {}", path.display()));
                    }
                }
                Kept::Leftover { path, put_at } if is_old(put_at) => {
                    waste.push(format!("{} was never finished", path.display()));
                }
                Kept::Leftover { .. } => {}
                Kept::Stranger { path } => strangers.push(format!("{} is no blob", path.display())),
            }
        }
        let mut missing: Vec<_> =
            lacking.iter().filter_map(|(tenant, digest)| blobs.check_now(tenant, digest).err()).collect();
        missing.sort_by_key(ToString::to_string);
        report.add(BLOBS_WHOLE, Severity::Damage, Ok(damaged));
        report.add(BLOBS_THERE, Severity::Damage, Ok(missing.iter().map(with_sources).collect()));
        report.add(BLOBS_NEEDED, Severity::Waste, Ok(waste));
        report.add(BLOBS_ONLY, Severity::Waste, Ok(strangers));
    }
}

/// The error and what lies beneath it, on one line.
fn with_sources(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
