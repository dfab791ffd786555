//! Durable execution at its boundary: real stores, real crashes.

#[cfg(test)]
mod branches;
#[cfg(test)]
mod children;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod derive;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod graphs;
#[cfg(test)]
mod ground;
#[cfg(test)]
mod history;
#[cfg(test)]
mod interventions;
#[cfg(test)]
mod keeping;
#[cfg(test)]
mod observing;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod parallel;
#[cfg(test)]
mod policies;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod queue_ends;
#[cfg(test)]
mod queue_processes;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod replaying;
#[cfg(test)]
mod resumes;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod sealing;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod support;
#[cfg(test)]
mod taking_over;
#[cfg(test)]
mod timers;
#[cfg(test)]
mod torn;
#[cfg(test)]
mod waiting;
