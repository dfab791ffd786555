//! How plans are held to account. Plain data; only the user sets it.

/// Who decides on proposals to change a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reviewer {
    /// A person: `longhaul features proposals`.
    #[default]
    Person,
    /// The project's model, in a context of its own that holds nothing of the session.
    Model,
}

/// How plans are held to account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanningSettings {
    /// The least features of a plan; 0 leaves it to what the initializer says of the request's size.
    pub features_min: usize,
    /// Who decides on proposals to change a check.
    pub reviewer: Reviewer,
}
