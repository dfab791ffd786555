//! Verifying a store walks every reference: in states, checkpoints, results of steps, waits, milestones and links.

use longhaul_operate::{KeptFilter, Operator};

use crate::{
    ground::{Ground, on_both, scope},
    story::Program,
};

on_both!(every_reference_is_walked_and_what_is_lost_or_changed_is_named);

async fn findings(operator: &Operator) -> Vec<String> {
    let report = operator.verify().await.unwrap();
    report.findings.into_iter().map(|finding| format!("{}: {}", finding.check, finding.what)).collect()
}

async fn every_reference_is_walked_and_what_is_lost_or_changed_is_named(ground: Ground) {
    Program::of(&ground, &scope()).await.fail("report-1").await;
    let operator = ground.operator().await;
    assert_eq!(findings(&operator).await, Vec::<String>::new());
    let draft = operator.kept("report-1", KeptFilter::default()).await.unwrap()[1].id.clone();

    // The content is another one than every reference means.
    ground.meddle("UPDATE records SET digest = replace(digest, 'sha256:', 'sha256:0') WHERE kind = 'decision'").await;
    let found = findings(&operator).await;
    assert!(
        found.iter().any(|what| what.contains("the milestone milestone_") && what.contains("its content is sha256:0")),
        "{found:#?}"
    );
    ground.meddle("UPDATE records SET digest = replace(digest, 'sha256:0', 'sha256:') WHERE kind = 'decision'").await;

    // The record is gone.
    ground.meddle("DELETE FROM records WHERE kind = 'artifact'").await;
    let found = findings(&operator).await.join("\n");
    for part in [
        "the step exec_",
        "/draft/2/write#1 refers at / to ",
        "the checkpoint exec_",
        "@2 refers at ",
        "the wait wait_",
        " refers at /draft to ",
        "the milestone milestone_",
        " refers at /0 to ",
        &format!("{draft}, which is not there"),
        &format!("{draft} is linked and not there"),
    ] {
        assert!(found.contains(part), "{part} is missing from:\n{found}");
    }
}
