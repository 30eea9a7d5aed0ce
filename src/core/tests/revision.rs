//! Revisions and annotations.

use std::cmp::Ordering;

use std::borrow::Cow;

use rollplan_core::revision::{
    DESIRED_REPLICAS, LAST_APPLIED, MAX_REPLICAS, POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY,
    ROLLBACK_TO, TEMPLATE_DIGEST, by_age, desired_replicas, desired_replicas_lenient, is_skipped,
    last_revision, max_replicas, max_revision, next_revision, revision_of,
    set_replicas_annotations, sync_annotations,
};
use rollplan_core::snapshot::StringMap;
use rollplan_world::{at, mk_deployment, mk_set, strings};

/// Objects in running clusters have these annotations.
#[test]
fn annotation_names_match_upstream() {
    assert_eq!(REVISION, "deployment.kubernetes.io/revision");
    assert_eq!(
        REVISION_HISTORY,
        "deployment.kubernetes.io/revision-history"
    );
    assert_eq!(
        DESIRED_REPLICAS,
        "deployment.kubernetes.io/desired-replicas"
    );
    assert_eq!(MAX_REPLICAS, "deployment.kubernetes.io/max-replicas");
    assert_eq!(ROLLBACK_TO, "deprecated.deployment.rollback.to");
    assert_eq!(
        LAST_APPLIED,
        "kubectl.kubernetes.io/last-applied-configuration"
    );
    assert_eq!(TEMPLATE_DIGEST, "rollplan.dev/template-digest");
    assert_eq!(POD_TEMPLATE_HASH, "pod-template-hash");
}

#[test]
fn some_annotations_are_not_copied() {
    for key in [
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
        LAST_APPLIED,
        TEMPLATE_DIGEST,
    ] {
        assert!(is_skipped(key), "{key}");
    }
    for key in [
        "",
        "team",
        "kubernetes.io/change-cause",
        "deployment.kubernetes.io/other",
        POD_TEMPLATE_HASH,
    ] {
        assert!(!is_skipped(key), "{key}");
    }
}

#[test]
fn revisions_parse_like_go() {
    assert_eq!(revision_of(&StringMap::new()), Some(0));
    for (text, want) in [
        ("7", Some(7)),
        ("007", Some(7)),
        ("+7", Some(7)),
        ("-7", Some(-7)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("", None),
        (" 7", None),
        ("7 ", None),
        ("7.0", None),
        ("0x7", None),
        ("1_000", None),
        ("seven", None),
    ] {
        assert_eq!(revision_of(&strings([(REVISION, text)])), want, "{text:?}");
    }
}

#[test]
fn highest_and_last_revision_are_found() {
    for (texts, highest, last) in [
        (&[][..], 0, 0),
        (&["1"], 1, 0),
        (&["1", "2"], 2, 1),
        (&["2", "1"], 2, 1),
        (&["9", "2", "5"], 9, 5),
        (&["2", "5", "9"], 9, 5),
        (&["9", "5", "2"], 9, 5),
        (&["5", "9", "2"], 9, 5),
        // If two are highest, the last one is the same.
        (&["3", "3"], 3, 3),
        (&["3", "1", "3"], 3, 3),
        (&["x", "4", "", "2"], 4, 2),
        (&["-1", "-2"], 0, 0),
        (&["-1", "3"], 3, 0),
    ] {
        let sets: Vec<StringMap> = texts
            .iter()
            .map(|text| strings([(REVISION, *text)]))
            .collect();
        assert_eq!(max_revision(&sets), highest, "{texts:?}");
        assert_eq!(last_revision(&sets), last, "{texts:?}");
    }
    // A missing revision counts as 0.
    let sets = [StringMap::new(), strings([(REVISION, "2")])];
    assert_eq!((max_revision(&sets), last_revision(&sets)), (2, 0));
    assert_eq!(next_revision(0), 1);
    assert_eq!(next_revision(41), 42);
    assert_eq!(next_revision(i64::MAX), i64::MAX);
}

#[track_caller]
fn check_sync<const B: usize, const A: usize>(
    before: [(&str, &str); B],
    revision: i64,
    after: [(&str, &str); A],
    changed: bool,
) {
    let deployment = strings([("team", "a"), (REVISION, "99"), (ROLLBACK_TO, "1")]);
    let before = strings(before);
    let mut set = Cow::Borrowed(&before);
    assert_eq!(sync_annotations(&deployment, &mut set, revision), changed);
    assert_eq!(*set, strings(after));
    // Unchanged annotations are not copied.
    assert_eq!(matches!(set, Cow::Borrowed(_)), *set == before);
}

#[test]
fn annotations_are_copied_with_the_revision() {
    check_sync([], 1, [("team", "a"), (REVISION, "1")], true);
    check_sync(
        [("team", "b"), ("own", "c"), (REVISION, "1")],
        1,
        [("team", "a"), ("own", "c"), (REVISION, "1")],
        true,
    );
    check_sync(
        [("team", "a"), (REVISION, "1")],
        1,
        [("team", "a"), (REVISION, "1")],
        false,
    );
    // A higher revision is kept.
    check_sync(
        [("team", "a"), (REVISION, "7")],
        3,
        [("team", "a"), (REVISION, "7")],
        false,
    );
    // A lower revision is moved to the history.
    check_sync(
        [("team", "a"), (REVISION, "1")],
        3,
        [("team", "a"), (REVISION, "3"), (REVISION_HISTORY, "1")],
        true,
    );
    check_sync(
        [("team", "a"), (REVISION, "4"), (REVISION_HISTORY, "1,2")],
        9,
        [("team", "a"), (REVISION, "9"), (REVISION_HISTORY, "1,2,4")],
        true,
    );
    // A history with an empty first entry is discarded.
    check_sync(
        [("team", "a"), (REVISION, "4"), (REVISION_HISTORY, ",2")],
        9,
        [("team", "a"), (REVISION, "9"), (REVISION_HISTORY, "4")],
        true,
    );
    check_sync(
        [("team", "a"), (REVISION, "")],
        1,
        [("team", "a"), (REVISION, "1"), (REVISION_HISTORY, "")],
        true,
    );
    // A revision that is not a number is kept, and copied annotations do not count as changes.
    check_sync(
        [(REVISION, "x")],
        5,
        [("team", "a"), (REVISION, "x")],
        false,
    );
    check_sync(
        [("team", "a"), (REVISION, "-3")],
        0,
        [("team", "a"), (REVISION, "0"), (REVISION_HISTORY, "-3")],
        true,
    );
}

/// A history of the given length: `5`, then numbers of four digits.
fn history(bytes: usize) -> String {
    let mut text = "5".repeat(1 + (bytes - 1) % 5);
    while text.len() < bytes {
        text.push_str(",1234");
    }
    text
}

#[track_caller]
fn check_history(before: &str, old_revision: &str, after: &str) {
    let set = strings([(REVISION, old_revision), (REVISION_HISTORY, before)]);
    let mut set = Cow::Borrowed(&set);
    assert!(sync_annotations(&StringMap::new(), &mut set, 1_000_000));
    assert_eq!(
        *set,
        strings([(REVISION, "1000000"), (REVISION_HISTORY, after)])
    );
}

#[test]
fn revision_history_is_limited() {
    // 1997 bytes, a comma and two digits are exactly 2000.
    let just = history(1997);
    assert_eq!(just.len(), 1997);
    check_history(&just, "42", &format!("{just},42"));
    // With one more byte, the oldest revision is dropped.
    let (_, rest) = just.split_once(',').unwrap();
    check_history(&just, "421", &format!("{rest},421"));
    // Several are dropped for a long revision.
    let (_, rest) = rest.split_once(',').unwrap();
    let long = format!("{:08}", 421);
    check_history(&just, &long, &format!("{rest},{long}"));
    // All are dropped if necessary.
    let longest = format!("{:02000}", 7);
    check_history("1,2,3", &longest, &longest);
    check_history(&"9".repeat(2500), "7", "7");
    // A revision that is longer than the limit is not recorded.
    check_history("1,2,3", &format!("{:02001}", 7), "1,2,3");
}

#[test]
fn size_annotations_are_updated_on_change() {
    let mut set = Cow::Owned(strings([("team", "a")]));
    assert!(set_replicas_annotations(&mut set, 10, 11));
    let noted = strings([
        ("team", "a"),
        (DESIRED_REPLICAS, "10"),
        (MAX_REPLICAS, "11"),
    ]);
    assert_eq!(*set, noted);
    assert!(!set_replicas_annotations(&mut set, 10, 11));
    assert_eq!(*set, noted);
    assert!(set_replicas_annotations(&mut set, 10, 12));
    assert!(set_replicas_annotations(&mut set, 8, 12));
    assert_eq!(set[DESIRED_REPLICAS], "8");
    assert_eq!(set[MAX_REPLICAS], "12");
}

/// `TestGetNonNegativeInt32FromAnnotation` of Kubernetes, and other texts that Go's integer parsers accept.
#[test]
fn size_annotations_are_parsed_strictly_and_leniently() {
    assert_eq!(desired_replicas(&StringMap::new()), None);
    assert_eq!(max_replicas(&StringMap::new()), None);
    assert_eq!(desired_replicas_lenient(&StringMap::new()), None);
    for (text, strict, lenient) in [
        ("invalid", None, None),
        ("", None, None),
        ("-1", None, Some(-1)),
        ("+10", None, Some(10)),
        ("0", Some(0), Some(0)),
        ("13", Some(13), Some(13)),
        ("0013", Some(13), Some(13)),
        (" 13", None, None),
        ("2147483647", Some(i32::MAX), Some(i32::MAX)),
        ("2147483648", None, Some(i32::MIN)),
        ("4294967296", None, Some(0)),
        ("4294967306", None, Some(10)),
        ("9223372036854775807", None, Some(-1)),
        ("9223372036854775808", None, None),
    ] {
        let desired = strings([(DESIRED_REPLICAS, text), (MAX_REPLICAS, "1")]);
        assert_eq!(desired_replicas(&desired), strict, "{text:?}");
        assert_eq!(desired_replicas_lenient(&desired), lenient, "{text:?}");
        let max = strings([(MAX_REPLICAS, text), (DESIRED_REPLICAS, "1")]);
        assert_eq!(max_replicas(&max), strict, "{text:?}");
    }
}

#[test]
fn replica_sets_are_ordered_by_age_then_name() {
    let deployment = mk_deployment(1);
    let set = |name: &str, created: Option<i64>| {
        let mut set = mk_set(&deployment, name, 1, 1);
        set.metadata.creation_timestamp = created.map(at);
        set
    };
    for (a, b, want) in [
        (set("b", Some(0)), set("a", Some(1)), Ordering::Less),
        (set("a", Some(1)), set("b", Some(0)), Ordering::Greater),
        (set("a", Some(0)), set("b", Some(0)), Ordering::Less),
        (set("a", Some(0)), set("a", Some(0)), Ordering::Equal),
        // A missing time is Go's zero time.
        (set("b", None), set("a", Some(-3600)), Ordering::Less),
    ] {
        assert_eq!(by_age(&a, &b), want);
    }
}
