//! The amounts in messages about exceeded quotas, for example "requested: pods=1,limits.cpu=3, used: pods=0,limits.cpu=0,
//! limited: pods=4,limits.cpu=2".

use rollplan_core::template::Quantity;

use super::Message;

/// Whether a single request exceeds the hard limit of a quota.
pub(super) fn exceeds(requested: &str, limited: &str) -> bool {
    amounts(requested).any(|(name, amount)| {
        let requested = nanos(amount).zip(amount_of(limited, name));
        requested.is_some_and(|(requested, limit)| requested > limit)
    })
}

/// Whether a quota that rejected a pod may accept it now: if `pods` like it use less of the quota than was used then, and
/// leave enough for one more.
pub(crate) fn quota_may_have_room(refusal: &Message, pods: i64) -> bool {
    let hole = |name| refusal.hole(name);
    let Some(((requested, used), limited)) =
        hole("requested").zip(hole("used")).zip(hole("limited"))
    else {
        return false;
    };
    amounts(requested).all(|(name, amount)| {
        let amounts = nanos(amount).zip(amount_of(used, name));
        let amounts = amounts.zip(amount_of(limited, name));
        amounts.is_some_and(|((requested, used), limit)| {
            let own = requested.saturating_mul(pods.into());
            own < used && own.saturating_add(requested) <= limit
        })
    })
}

fn amounts(list: &str) -> impl Iterator<Item = (&str, &str)> {
    list.split(',').filter_map(|entry| entry.split_once('='))
}

fn amount_of(list: &str, name: &str) -> Option<i128> {
    let mut amounts = amounts(list);
    let (_, amount) = amounts.find(|(other, _)| *other == name)?;
    nanos(amount)
}

/// `None` for amounts that are invalid or too large: these are not judged.
fn nanos(amount: &str) -> Option<i128> {
    Quantity::parse(amount)?.to_nanos()
}

#[cfg(test)]
mod tests {
    use super::super::refusal::TABLE;
    use super::*;

    fn may_have_room(requested: &str, used: &str, limited: &str, pods: i64) -> bool {
        let message = TABLE.look_up(&format!(
            "exceeded quota: q, requested: {requested}, used: {used}, limited: {limited}"
        ));
        quota_may_have_room(&message, pods)
    }

    #[test]
    fn quota_may_have_room_once_fewer_pods_exist_than_used_it() {
        assert!(may_have_room("pods=1", "pods=4", "pods=4", 3));
        assert!(!may_have_room("pods=1", "pods=4", "pods=4", 4));
        // It was lowered, and its own pods exceed it.
        assert!(!may_have_room("pods=1", "pods=4", "pods=3", 3));
        let cpu = [
            "requests.cpu=100m",
            "requests.cpu=400m",
            "requests.cpu=450m",
        ];
        assert!(may_have_room(cpu[0], cpu[1], cpu[2], 3));
        assert!(!may_have_room(cpu[0], cpu[1], cpu[2], 4));
        let both = [
            "pods=1,requests.cpu=2",
            "pods=4,requests.cpu=2",
            "pods=4,requests.cpu=3",
        ];
        assert!(!may_have_room(both[0], both[1], both[2], 3));
        assert!(!quota_may_have_room(&TABLE.look_up("exceeded quota: q"), 0));
        assert!(!quota_may_have_room(&TABLE.look_up("something new"), 0));
    }

    #[test]
    fn single_request_may_exceed_a_quota() {
        assert!(!exceeds("pods=1", "pods=4"));
        assert!(exceeds("limits.cpu=3,pods=1", "limits.cpu=2,pods=4"));
        assert!(exceeds("requests.memory=1536Mi", "requests.memory=1Gi"));
        assert!(!exceeds("requests.memory=1Gi", "requests.memory=1Gi"));
        assert!(!exceeds("pods", "pods=x"));
        assert!(!exceeds("", ""));
    }
}
