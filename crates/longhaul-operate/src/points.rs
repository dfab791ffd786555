//! What a checkpoint is, or the superstep that is open.
//!
//! Invariant: it changes nothing.

use longhaul_durable::{Happening, Point};

use crate::{Explanation, OperateError, Operator, chain::Focus, explaining::LOOKED_FOR, moments::moment};

impl Operator {
    /// A checkpoint, or the superstep that is open.
    pub(crate) async fn explain_point(&self, point: &Point, most: usize) -> Result<Explanation, OperateError> {
        let view = self.execution(point.execution.as_str()).await?;
        let Point { execution, ns, superstep } = point;
        let before = Some(superstep.saturating_add(1));
        let found = self.runtime.history_inside(&self.scope, execution, ns, before, 1).await?;
        let found = found.into_iter().find(|found| found.superstep == *superstep);
        let is_open = ns.is_empty() && *superstep == view.superstep + 1;
        if found.is_none() && !is_open {
            return Err(self.unknown(&point.to_string(), LOOKED_FOR));
        }
        let moments = self.runtime.story(&self.scope, execution, u32::MAX).await?;
        let id = point.to_string();
        let mut told = Explanation::new(&id, if is_open { "open superstep" } else { "checkpoint" });
        told.owner(&view.execution.scope, &view.execution.thread);
        told.fact("execution", execution.to_string());
        told.fact("graph", format!("{} {}", view.execution.graph, view.execution.graph_version));
        match &found {
            Some(found) => {
                let nodes = found.nodes.join(", ");
                told.fact("after", if *superstep == 0 { "the beginning".to_owned() } else { nodes });
                let mut next: Vec<&str> = found.position.frontier.iter().map(|planned| &*planned.node).collect();
                next.dedup();
                told.fact("then", if next.is_empty() { "the end".to_owned() } else { next.join(", ") });
                told.fact("stored as", found.form.as_str());
                told.fact("digest", found.digest.to_string());
                told.fact("committed", format!("{} UTC", moment(found.at.0)));
            }
            None => told.fact("then", view.next.join(", ")),
        }
        let within = format!("{superstep}.");
        let mine = |what: &Happening| match what {
            Happening::Checkpoint { ns: of, superstep: number, .. } => of == ns && number == superstep,
            Happening::Step { .. } | Happening::Intent { .. } | Happening::Receipt { .. } | Happening::Asked { .. } => {
                what.step().is_some_and(|step| {
                    (step.ns == *ns && step.superstep == *superstep) || (ns.is_empty() && step.ns.starts_with(&within))
                })
            }
            Happening::Attempt { .. } => false,
        };
        let mine: Vec<_> = moments.iter().filter(|moment| mine(&moment.what)).cloned().collect();
        told.story = self.told(execution, &mine, u32::try_from(most).unwrap_or(u32::MAX)).await?;
        told.story.retain(|line| line.kind != "event");
        told.now.push(if is_open {
            "not closed: its nodes run again from their top, but for recorded steps".to_owned()
        } else if ns.is_empty() && *superstep == view.superstep && !view.execution.status.is_finished() {
            format!("the execution resumes here: {}", self.how_to_go_on(&view).await?)
        } else {
            "passed: it can be looked at, and forked".to_owned()
        });
        told.chain = self.chain(&view, &moments, Focus { point: Some(point.clone()), ..Focus::default() }).await?;
        told.evidence = self.evidence(&id).await?;
        Ok(told)
    }
}
