//! CustomResourceDefinitions: usable once they are established.

use super::observed::ObservedObject;
use crate::explain::{Blocker, Cause};
use crate::report::{Phase, Report};

pub(super) fn report(object: &ObservedObject<'_>) -> Report {
    let refused = object
        .condition("NamesAccepted")
        .filter(|condition| condition.status == "False");
    let established = object.condition("Established");
    let failed = established.filter(|it| it.status == "False" && it.reason != "Installing");
    if let Some(condition) = object.true_condition("Terminating") {
        let what = "the API server is deleting it";
        let blocker = object.of_condition(Cause::ConditionFalse, what, condition);
        return object.open(Phase::Progressing, "is terminating", blocker);
    }
    if let Some(condition) = object.true_condition("NonStructuralSchema") {
        let what = "its schema is not structural";
        let mut blocker = object.of_condition(Cause::ConditionFalse, what, condition);
        blocker.remedy = "correct the schema".to_owned();
        return object.failed("has failed", blocker, Vec::new());
    }
    if let Some(condition) = refused.or(failed) {
        let remedy = "correct the names of the definition, or remove the conflicting one";
        let mut blocker =
            object.of_condition(Cause::ConditionFalse, "it is not accepted", condition);
        blocker.remedy = remedy.to_owned();
        return object.failed("has failed", blocker, Vec::new());
    }
    if object.true_condition("Established").is_some() {
        return object.complete("is established", Vec::new());
    }
    let message = "the API server has not established it yet".to_owned();
    let blocker = Blocker::new(Cause::ConditionFalse, message, "");
    object.open(Phase::Progressing, "is being installed", blocker)
}
