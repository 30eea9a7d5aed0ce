//! CustomResourceDefinitions: usable once they are established.

use super::scene::Scene;
use crate::diagnosis::{Blocker, Cause};
use crate::report::{Phase, Report};

pub(super) fn report(scene: &Scene<'_>) -> Report {
    let refused = scene
        .condition("NamesAccepted")
        .filter(|condition| condition.status == "False");
    let established = scene.condition("Established");
    let failed = established.filter(|it| it.status == "False" && it.reason != "Installing");
    if let Some(condition) = scene.true_condition("Terminating") {
        let what = "the API server is deleting it";
        let blocker = scene.of_condition(Cause::ConditionFalse, what, condition);
        return scene.open(Phase::Progressing, "is terminating", blocker);
    }
    if let Some(condition) = scene.true_condition("NonStructuralSchema") {
        let what = "its schema is not structural";
        let mut blocker = scene.of_condition(Cause::ConditionFalse, what, condition);
        blocker.remedy = "correct the schema".to_owned();
        return scene.failed("has failed", blocker, Vec::new());
    }
    if let Some(condition) = refused.or(failed) {
        let remedy = "correct the names of the definition, or remove the conflicting one";
        let mut blocker =
            scene.of_condition(Cause::ConditionFalse, "it is not accepted", condition);
        blocker.remedy = remedy.to_owned();
        return scene.failed("has failed", blocker, Vec::new());
    }
    if scene.true_condition("Established").is_some() {
        return scene.complete("is established", Vec::new());
    }
    let message = "the API server has not established it yet".to_owned();
    let blocker = Blocker::new(Cause::ConditionFalse, message, "");
    scene.open(Phase::Progressing, "is being installed", blocker)
}
