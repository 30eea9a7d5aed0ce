//! The states of rollouts, in one word each.

use rollplan_wire::proto::Phase;

use super::page::Style;

/// The state of a rollout: the name of the phase in the contract, without its prefix and in plain words.
pub fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Unspecified => "unknown",
        Phase::Progressing => "progressing",
        Phase::Complete => "complete",
        Phase::Paused => "paused",
        Phase::Stalled => "stalled",
        Phase::Deleting => "deleting",
        Phase::Refused => "refused",
        Phase::Degraded => "degraded",
        Phase::NotJudged => "not judged",
    }
}

/// The state of an object that no longer exists. The contract has no such phase, because a request needs the object.
pub const DELETED: &str = "deleted";

/// The emphasis of the state of a rollout in this phase.
pub fn state_style(phase: Phase) -> Style {
    match phase {
        Phase::Complete => Style::Good,
        Phase::Stalled | Phase::Refused | Phase::Deleting => Style::Bad,
        Phase::Paused | Phase::Degraded | Phase::NotJudged => Style::Warn,
        Phase::Unspecified | Phase::Progressing => Style::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_match_the_contract() {
        for phase in (1..).map_while(|number| Phase::try_from(number).ok()) {
            let name = phase.as_str_name();
            let word = state(phase).to_uppercase().replace(' ', "_");
            assert_eq!(format!("PHASE_{word}"), name);
        }
        assert!(Phase::try_from(8).is_ok(), "all are tried");
    }
}
