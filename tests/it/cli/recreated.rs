//! Objects that are deleted while `wait` follows them. They may be created again.

use serde_json::{Value, json};

use super::kinds::{alone, certificate, ended_job, running_job, stateful_set};
use super::kubectl::{Answer, Kubectl, Poll, failing, nothing_yet, poll, rollout};
use super::several::lists;

/// The UID of an object that exists again.
const AGAIN: &str = "another";

fn absent() -> Poll {
    poll(vec![])
}

/// The same poll with another UID of the object and of the owner of its ReplicaSets.
fn recreated(mut poll: Poll) -> Poll {
    for answer in [&mut poll.deployment, &mut poll.sets] {
        if let Answer::Out(text) = answer {
            for uid in ["d1", "StatefulSet-db", "Job-db", "Certificate-db"] {
                *text = text.replace(&format!("\"{uid}\""), &format!("\"{AGAIN}\""));
            }
        }
    }
    poll
}

fn note(subject: &str, uid: &str) -> String {
    format!(
        "note: {subject} was deleted and created again while waiting: its UID was {uid}, and is {AGAIN} now\n"
    )
}

#[test]
fn wait_continues_with_an_object_that_is_recreated_between_polls() {
    let complete = || ended_job("Complete", "CompletionsReached");
    for (name, subject, uid, before, after) in [
        (
            "deploy/web",
            "Deployment shop/web",
            "d1",
            nothing_yet(),
            [nothing_yet(), rollout(2)],
        ),
        (
            "sts/db",
            "StatefulSet shop/db",
            "StatefulSet-db",
            alone(stateful_set(1)),
            [1, 2].map(|available| alone(stateful_set(available))),
        ),
        (
            "job/db",
            "Job shop/db",
            "Job-db",
            alone(running_job()),
            [running_job(), complete()].map(alone),
        ),
        (
            "certificate/db",
            "Certificate shop/db",
            "Certificate-db",
            alone(certificate("False")),
            ["False", "True"].map(|ready| alone(certificate(ready))),
        ),
    ] {
        for missed in 0..4 {
            let gap = vec![absent(); missed];
            let after = after.clone().map(recreated).to_vec();
            let kubectl = Kubectl::new(&[vec![before.clone()], gap, after].concat());
            let run = kubectl.watch(&["wait", name, "-n", "shop"]);
            let expected = (0, note(subject, uid));
            assert_eq!((run.exit, run.err), expected, "{missed}: {}", run.out);
        }
    }
}

/// A failed poll between two others says nothing about the object.
#[test]
fn object_is_deleted_after_four_polls_that_do_not_find_it() {
    let expected =
        "error: deleted while waiting: Deployment web not found in namespace shop\n".to_owned();
    let wait = |polls: &[Poll], more: &[&str]| {
        let kubectl = Kubectl::new(polls);
        let run = kubectl.watch(&[&["wait", "web", "-n", "shop"], more].concat());
        let calls = kubectl.calls().into_iter();
        let reads = calls.filter(|call| call.starts_with("get deploy "));
        (run.exit, run.err, run.out, reads.count())
    };
    let (exit, err, _, reads) = wait(&[nothing_yet(), absent()], &[]);
    assert_eq!((exit, err, reads), (1, expected.clone(), 1 + 4));
    let polls = [
        nothing_yet(),
        absent(),
        failing(super::kubectl::DOWN),
        absent(),
        absent(),
        recreated(rollout(2)),
    ];
    let (exit, err, ..) = wait(&polls, &[]);
    assert_eq!((exit, err.lines().count()), (0, 2), "{err}");
    // Only what exists has a message.
    let (exit, err, out, _) = wait(&[nothing_yet(), absent()], &["-o", "json"]);
    assert_eq!((exit, err, out.lines().count()), (1, expected, 1));
    // No poll is needed to confirm a deletion that is waited for.
    let (exit, err, _, reads) = wait(&[nothing_yet(), absent()], &["--for=deleted"]);
    assert_eq!((exit, err.as_str(), reads), (0, "", 2));
    // An object that was never seen may be misspelled.
    let (exit, _, _, reads) = wait(&[absent()], &[]);
    assert_eq!((exit, reads), (2, 1));
}

#[test]
fn object_that_does_not_exist_when_the_timeout_expires_is_deleted() {
    let hang = "sleep 60 & wait".to_owned();
    let hanging = Poll {
        deployment: Answer::Script(hang),
        ..nothing_yet()
    };
    let kubectl = Kubectl::new(&[nothing_yet(), absent(), hanging]);
    let args = ["wait", "web", "-n", "shop", "--interval=0", "--timeout=5s"];
    let run = kubectl.run(&args);
    assert_eq!(run.exit, 1, "{}", run.err);
    let last = run.err.lines().last();
    let expected = "error: deleted while waiting: Deployment web not found in namespace shop";
    assert_eq!(last, Some(expected), "{}", run.err);
}

/// A Deployment in a list, with this UID.
fn listed(name: &str, uid: &str, available: i32) -> Vec<Value> {
    let mut objects = rollout(available).objects();
    let (deployment, set) = objects.split_at_mut(1);
    deployment[0]["metadata"]["name"] = json!(name);
    deployment[0]["metadata"]["uid"] = json!(uid);
    set[0]["metadata"]["name"] = json!(format!("{name}-79c545b47"));
    set[0]["metadata"]["uid"] = json!(format!("set-{uid}"));
    set[0]["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
    objects
}

#[test]
fn recreated_object_is_found_in_lists() {
    let names = ["a", "b", "c", "d", "e"];
    let all = |uid: &str, available: i32| -> Vec<Vec<Value>> {
        let objects = names.iter().map(|name| listed(name, name, available));
        let mut objects: Vec<_> = objects.collect();
        objects[2] = listed("c", uid, available);
        objects
    };
    let without_c = |available: i32| {
        let mut objects = all("c", available);
        objects.remove(2);
        objects
    };
    let args = [&["wait", "-n", "shop"], &names[..]].concat();
    // Even a list without any object is not yet a deletion.
    let polls = [
        lists(all("c", 1)),
        lists(without_c(1)),
        lists(vec![]),
        lists(all(AGAIN, 1)),
        lists(all(AGAIN, 2)),
    ];
    let run = Kubectl::new(&polls).watch(&args);
    let expected = (0, note("Deployment shop/c", "c"));
    assert_eq!((run.exit, run.err), expected, "{}", run.out);
    // The others are followed until they are decided.
    let deleted = [
        lists(all("c", 1)),
        lists(without_c(1)),
        lists(without_c(1)),
        lists(without_c(1)),
        lists(without_c(1)),
        poll(listed("a", "a", 2)),
        poll(listed("b", "b", 2)),
        poll(listed("d", "d", 2)),
        poll(listed("e", "e", 2)),
    ];
    let run = Kubectl::new(&deleted).watch(&args);
    let error = "error: deleted while waiting: Deployment c not found in namespace shop\n";
    assert_eq!((run.exit, run.err.as_str()), (1, error), "{}", run.out);
    assert_eq!(run.out.matches("complete").count(), 4, "{}", run.out);
}
