//! What kind of work a project is: software with pages, research whose claims cite their sources, documents whose numbers
//! add up (H9). A profile chooses words and what there is to start; what counts as proof is always the checks.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The kind of a project's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// An application that people use in a browser.
    #[default]
    Software,
    /// Texts whose claims cite stored sources.
    Research,
    /// Tables, models and texts that are made by commands and hold to rules.
    Documents,
}

/// A name that is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a profile; choose software, research or documents")]
pub struct ProfileError(String);

impl Profile {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Research => "research",
            Self::Documents => "documents",
        }
    }

    /// Whether there is an application that `init.sh` starts.
    #[must_use]
    pub fn has_app(self) -> bool {
        matches!(self, Self::Software)
    }

    pub(crate) fn is_default(&self) -> bool {
        *self == Self::Software
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        [Self::Software, Self::Research, Self::Documents]
            .into_iter()
            .find(|profile| profile.name() == text)
            .ok_or_else(|| ProfileError(text.to_owned()))
    }
}
