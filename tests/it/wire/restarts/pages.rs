//! Large requests: pages of answers, limits and interruption.

use prost::Message as _;
use rollplan::proto::{Configuration, PlanRestartsRequest, PlanRestartsResponse};
use rollplan::service::MethodRequest as _;
use rollplan::wire::{self, ANSWER_BYTES_MAX, Context, Error};
use rollplan_core::interrupt::{Interrupt, Never};
use serde_json::json;

use super::{objects, request, workload};

/// Workloads that each read three ConfigMaps of their own.
fn many(count: usize) -> PlanRestartsRequest {
    let name = |index: usize, of: usize| format!("map-{index}-{of}");
    let workloads = (0..count).map(|index| {
        let sources = (0..3).map(|of| json!({"configMapRef": {"name": name(index, of)}}));
        let container = json!({"envFrom": sources.collect::<Vec<_>>()});
        workload(&format!("web-{index:05}"), json!({}), container)
    });
    let mut request = objects(
        &workloads.collect::<Vec<_>>(),
        json!({"allWorkloads": true}),
    );
    let maps = (0..count).flat_map(|index| (0..3).map(move |of| (index, of)));
    let configurations = maps.map(|(index, of)| {
        json!({"kind": 1, "namespace": "shop", "name": name(index, of),
            "keyChecksums": {"A": "0123456789abcdef".repeat(4)}})
    });
    request["configurations"] = configurations.collect();
    self::request(&request)
}

#[test]
fn large_answers_are_paged() {
    let mut request = many(8_000);
    let mut names = Vec::new();
    let mut pages = 0;
    loop {
        let page = rollplan::service::answer(request.clone()).unwrap();
        assert!(
            page.encoded_len() <= ANSWER_BYTES_MAX,
            "{}",
            page.encoded_len()
        );
        wire::check_answer(page.encoded_len()).unwrap();
        assert_eq!(page.counts.as_ref().unwrap().record, 8_000);
        names.extend(page.plans.into_iter().map(|it| it.name));
        pages += 1;
        if page.continue_after.is_empty() {
            break;
        }
        request.continue_after = page.continue_after;
    }
    assert!(pages > 1);
    assert!(names.is_sorted() && names.len() == 8_000, "{}", names.len());
    names.dedup();
    assert_eq!(names.len(), 8_000);
}

/// The rest of an answer is for the counts and the name in `continue_after`.
#[test]
fn plans_of_a_page_have_half_a_mebibyte_less_than_an_answer() {
    const PLANS_BYTES_MAX: usize = ANSWER_BYTES_MAX - (512 << 10);
    // A plan takes its bytes and up to eight bytes around them.
    const AROUND: usize = 8;
    let page = |last_uid: usize| {
        let workloads = (0..40).map(|index| {
            let uid = if index < 39 { 90_000 } else { last_uid };
            let mut workload = workload(&format!("web-{index:02}"), json!({}), json!({}));
            workload["metadata"]["uid"] = (format!("{index:02}") + &"x".repeat(uid - 2)).into();
            workload
        });
        let options = json!({"allWorkloads": true, "includeUnchanged": true});
        let request = request(&objects(&workloads.collect::<Vec<_>>(), options));
        rollplan::service::answer(request).unwrap()
    };
    let bytes = |page: &PlanRestartsResponse| {
        let plans = page.plans.iter().map(|it| it.encoded_len() + AROUND);
        let rest = PlanRestartsResponse {
            plans: Vec::new(),
            ..page.clone()
        };
        plans.sum::<usize>() + rest.encoded_len()
    };
    let small = page(90_000);
    assert_eq!(small.plans.len(), 40);
    let largest = 90_000 + PLANS_BYTES_MAX - bytes(&small);
    let full = page(largest);
    assert_eq!((full.plans.len(), bytes(&full)), (40, PLANS_BYTES_MAX));
    assert_eq!(full.continue_after, "");
    let next = page(largest + 1);
    assert_eq!(next.plans.len(), 39);
    assert!(next.continue_after.starts_with("shop Deployment web-38"));
}

#[test]
fn memory_of_items_is_estimated() {
    let memory = |request: PlanRestartsRequest| {
        rollplan::service::memory(
            &PlanRestartsRequest::METHOD,
            &request.encode_to_vec(),
            &Never,
        )
    };
    assert!(memory(many(1_000)).unwrap() > 4 << 20);
    let mut request = many(1);
    request.configurations = vec![Configuration::default(); 1_000_000];
    let error = memory(request).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}

struct After(std::cell::Cell<u32>);

impl Interrupt for After {
    fn is_interrupted(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left == 0
    }
}

#[test]
fn interrupted_plans_stop() {
    for questions in [0, 1, 50, 500] {
        let interrupt = After(std::cell::Cell::new(questions));
        let error = many(200)
            .answer(&mut Context::until(&interrupt))
            .unwrap_err();
        assert!(
            matches!(error, Error::Interrupted(_)),
            "{questions}: {error:?}"
        );
    }
}
