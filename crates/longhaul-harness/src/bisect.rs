//! Which commit broke a feature: the commits since it last passed, halved by verifying the one in the middle in a
//! checkout beside the project. It decides nothing; what it finds is told with the verdict.
//!
//! Invariant: the project's folder and repository are only read, and never more verifications are made than the settings
//! grant. Only what a verdict saw narrows the search: a commit whose application does not start proves nothing.

use std::{fs, io, path::Path, time::Duration};

use longhaul_durable::StepError;
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    application::Launch,
    environment::Harness,
    features::Feature,
    git::{Commit, Git, GitError},
    project::Project,
    projections::GUARDED,
    standalone::copy_folder,
    verification::{self, Occasion, RecordedVerdict, Subject, Wishes},
};

/// Most ignored files and folders (installed packages, build output) that are taken over into a checkout.
const IGNORED_MAX: usize = 64;

/// What the search may cost. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BisectSettings {
    /// Most verifications; with 0 only a single commit is named.
    pub verifications_max: u32,
    /// No further verification begins after this time.
    pub time_max: Duration,
}

impl Default for BisectSettings {
    fn default() -> Self {
        Self { verifications_max: 6, time_max: Duration::from_mins(3) }
    }
}

/// The commit since which a feature fails, as far as it was searched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Culprit {
    /// The newest commit that may have broken it; the one that did when there is one candidate.
    pub commit: Commit,
    /// The newest commit with which it is known to have passed.
    pub passed_with: String,
    /// How many commits may have broken it.
    pub candidates: usize,
    /// Verifications that the search took.
    pub verifications: u32,
}

impl Culprit {
    /// In words, for prompts, files and people.
    #[must_use]
    pub fn told(&self) -> String {
        let commit = format!("{} \"{}\"", self.commit.short(), self.commit.subject);
        match self.candidates {
            1 => format!("broken by commit {commit}"),
            n => format!("broken by one of {n} commits, the last of them {commit}"),
        }
    }
}

/// Tells a refused verdict which commit broke its feature, if that can be found at the cost that the settings grant. A
/// search that fails leaves the verdict as it is.
pub(crate) async fn blame(harness: &Harness, project: &Project, feature: &Feature, verdict: &mut RecordedVerdict) {
    if verdict.passed() || !feature.standing.passes {
        return;
    }
    match culprit(harness, project, feature).await {
        Ok(found) => verdict.blame(found),
        Err(error) => {
            let error = error.into_source();
            tracing::warn!(feature = %feature.id(), %error, "the commit that broke it was not found");
        }
    }
}

async fn culprit(harness: &Harness, project: &Project, feature: &Feature) -> Result<Option<Culprit>, StepError> {
    let (owner, wanted) = (project.owner.clone(), feature.definition.clone());
    let last_pass = harness
        .store
        .read::<_, StoreError>(move |read| verification::last_pass(read, &owner, &wanted.id, &wanted.checks_hash));
    let Some(passed_with) = last_pass.await?.or_else(|| feature.standing.commit.clone()) else { return Ok(None) };
    let git = Git::of_project(&project.dir);
    if !git.contains(&passed_with).await? {
        return Ok(None);
    }
    let suspects = suspects(&git, &passed_with).await?;
    let mut search = Search::new(suspects.len());
    if search.is_over() || harness.settings.bisect.verifications_max == 0 {
        return Ok(search.outcome(&suspects, &passed_with));
    }
    let checkout = Checkout::make(harness, project, &git).await?;
    let started = Instant::now();
    let bounds = &harness.settings.bisect;
    while let Some(middle) = search.next() {
        if search.verifications >= bounds.verifications_max || started.elapsed() >= bounds.time_max {
            break;
        }
        match checkout.judge(harness, project, feature, &suspects[middle]).await? {
            Some(passed) => search.saw(middle, passed),
            None => break,
        }
    }
    checkout.remove();
    Ok(search.outcome(&suspects, &passed_with))
}

/// The commits since then that changed anything but the harness's own files, oldest first.
async fn suspects(git: &Git, since: &str) -> Result<Vec<Commit>, GitError> {
    let range = format!("{since}..HEAD");
    let guarded = GUARDED.map(|name| format!(":(exclude,top){name}"));
    let mut args = vec!["log", "--first-parent", "--reverse", "--format=%H%x09%s", &range, "--", "."];
    args.extend(guarded.iter().map(String::as_str));
    let text = git.run(&args).await?;
    let parse = |line: &str| {
        let (id, subject) = line.split_once('\t')?;
        Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
    };
    Ok(text.lines().filter_map(parse).collect())
}

/// Halving, without doing anything: the last suspect is known to fail, what came before the first to pass.
#[derive(Debug, PartialEq, Eq)]
struct Search {
    /// Everything before this passes.
    first: usize,
    /// This fails.
    last: usize,
    count: usize,
    verifications: u32,
}

impl Search {
    fn new(count: usize) -> Self {
        Self { first: 0, last: count.saturating_sub(1), count, verifications: 0 }
    }

    fn is_over(&self) -> bool {
        self.first >= self.last
    }

    /// The suspect to look at.
    fn next(&self) -> Option<usize> {
        (!self.is_over()).then(|| self.first + (self.last - self.first) / 2)
    }

    fn saw(&mut self, suspect: usize, passed: bool) {
        self.verifications += 1;
        if passed { self.first = suspect + 1 } else { self.last = suspect }
    }

    fn outcome(&self, suspects: &[Commit], passed_with: &str) -> Option<Culprit> {
        let commit = suspects.get(self.last)?.clone();
        let passed_with = match self.first.checked_sub(1) {
            Some(before) => suspects.get(before)?.id.clone(),
            None => passed_with.to_owned(),
        };
        let candidates = self.last - self.first + 1;
        debug_assert!(candidates <= self.count, "more candidates than suspects");
        Some(Culprit { commit, passed_with, candidates, verifications: self.verifications })
    }
}

/// A folder of its own with a repository that borrows the project's objects.
struct Checkout {
    git: Git,
    launch: Launch,
    place: std::path::PathBuf,
}

impl Checkout {
    async fn make(harness: &Harness, project: &Project, git: &Git) -> Result<Self, StepError> {
        let place = harness.task_dir(&project.owner.task).join("bisect");
        let (work, repository) = (place.join("work"), place.join("git"));
        remove(&place)?;
        fs::create_dir_all(work.join(".git"))?;
        fs::create_dir_all(&repository)?;
        let own = Git::beside(&work, &repository);
        own.run(&["init", "--quiet"]).await?;
        let objects = project.dir.join(".git/objects");
        fs::write(repository.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
        take_over_ignored(git, &project.dir, &work).await?;
        let sandbox = harness.open_sandbox(work, place.join("run"), &[])?;
        let launch = Launch { sandbox, port: harness.settings.app_port, boot_timeout: harness.settings.boot_timeout };
        Ok(Self { git: own, launch, place })
    }

    /// Whether the feature passes with this commit; nothing if that cannot be told.
    async fn judge(
        &self,
        harness: &Harness,
        project: &Project,
        feature: &Feature,
        commit: &Commit,
    ) -> Result<Option<bool>, StepError> {
        self.git.run(&["checkout", "--quiet", "--force", "--detach", &commit.id]).await?;
        self.launch.sandbox.prepare_project()?;
        let occasion = Occasion::Regression;
        let subject = Subject { project, feature, tree: &commit.id, occasion, wishes: Wishes::default() };
        let refusal = verification::look(harness, &self.launch, &subject).await?;
        Ok(match refusal {
            None => Some(true),
            Some(refusal) if refusal.step == 0 => None,
            Some(_) => Some(false),
        })
    }

    fn remove(&self) {
        let _ = remove(&self.place); // the next search removes it
    }
}

fn remove(place: &Path) -> io::Result<()> {
    match fs::remove_dir_all(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Installed packages and build output are in no commit, but the application may need them to start.
async fn take_over_ignored(git: &Git, from: &Path, to: &Path) -> Result<(), StepError> {
    let listed = git.run(&["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]).await?;
    for path in listed.split('\0').filter(|path| !path.is_empty()).take(IGNORED_MAX) {
        let (from, to) = (from.join(path), to.join(path.trim_end_matches('/')));
        let Ok(found) = fs::symlink_metadata(&from) else { continue };
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if found.is_dir() {
            copy_folder(&from, &to)?;
        } else if found.is_file() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_first_that_fails_within_the_logarithm() {
        for count in 1..40_usize {
            let commit = |n: usize| Commit { id: format!("{n}"), subject: String::new() };
            let suspects: Vec<Commit> = (0..count).map(commit).collect();
            for broken in 0..count {
                let mut search = Search::new(count);
                while let Some(middle) = search.next() {
                    search.saw(middle, middle < broken);
                }
                let found = search.outcome(&suspects, "before").unwrap();
                assert_eq!((found.commit.id.as_str(), found.candidates), (broken.to_string().as_str(), 1));
                assert!(f64::from(found.verifications) <= (count as f64).log2().ceil(), "{count}: {found:?}");
                let before = broken.checked_sub(1).map_or("before".to_owned(), |n| n.to_string());
                assert_eq!(found.passed_with, before);
            }
        }
        assert_eq!(Search::new(0).outcome(&[], "before"), None, "no commit broke it");
    }

    #[test]
    fn a_search_that_was_stopped_says_how_many_are_left() {
        let suspects: Vec<Commit> =
            (0..8).map(|n| Commit { id: format!("{n}"), subject: format!("change {n}") }).collect();
        let mut search = Search::new(8);
        let middle = search.next().unwrap();
        search.saw(middle, true);
        let found = search.outcome(&suspects, "before").unwrap();
        assert_eq!((found.candidates, found.passed_with.as_str()), (4, "3"));
        assert_eq!(found.told(), "broken by one of 4 commits, the last of them 7 \"change 7\"");
    }
}
