//! Encoded requests have the answers of the messages that they encode.

use prost::Message as _;
use prost::encoding::encode_varint;
use rollplan::proto;
use rollplan::wire::{self, json};

use super::random::Random;
use super::{Parts as _, examples, mk_request, request};

#[test]
fn encoded_requests_have_the_answer_of_messages() {
    for (name, example) in examples() {
        for horizon in [proto::Horizon::Pass, proto::Horizon::Settled] {
            let mut request = request(&example);
            request.options.get_or_insert_default().horizon = horizon.into();
            let bytes = request.encode_to_vec();
            let answer = wire::plan_rollout_bytes(&bytes).unwrap();
            assert_eq!(wire::plan_rollout_bytes(&bytes).unwrap(), answer, "{name}");
            let response = wire::plan_rollout(request).unwrap();
            assert_eq!(response.encode_to_vec(), answer, "{name}");
            let json = json::to_json(&response).unwrap();
            assert_eq!(
                json::from_json::<proto::PlanRolloutResponse>(&json).unwrap(),
                response,
                "{name}"
            );
        }
    }
}

#[test]
fn encoded_status_requests_have_the_answer_of_messages() {
    for (name, example) in examples() {
        let request = request(&example);
        let request = proto::ComputeStatusRequest {
            snapshot: request.snapshot,
            ..proto::ComputeStatusRequest::default()
        };
        let bytes = wire::compute_status_bytes(&request.encode_to_vec()).unwrap();
        let response = wire::compute_status(request).unwrap();
        assert_eq!(bytes, response.encode_to_vec(), "{name}");
        assert!(response.status.is_some());
    }
}

/// Requests are decoded only as far as their plan needs. The answer must be that to the fully decoded message.
#[test]
fn malformed_requests_have_the_answer_of_messages() {
    let mut random = Random(11);
    let mut requests: Vec<proto::PlanRolloutRequest> = examples()
        .iter()
        .map(|(_, example)| request(example))
        .collect();
    requests.push(mk_request());
    let mut answered = 0;
    for round in 0..3_000 {
        let mut request = requests[random.below(requests.len())].clone();
        let snapshot = request.snapshot.as_mut().unwrap();
        snapshot.replica_sets_complete = random.below(8) > 0;
        let mut bytes = request.encode_to_vec();
        // In half of the rounds, only the pods are corrupted, which come last.
        let broken = random.below(2) * (bytes.len() - bytes.len() / 4);
        let mut part = bytes.split_off(broken);
        if random.below(4) > 0 {
            random.break_bytes(&mut part, |_, bytes, at| bytes.truncate(at + 1));
        }
        bytes.append(&mut part);
        if random.below(8) == 0 {
            let options = proto::PlanRolloutRequest {
                snapshot: None,
                options: Some(proto::PlanOptions {
                    report: true,
                    ..Default::default()
                }),
            };
            bytes.extend(options.encode_to_vec());
        }
        let whole = proto::PlanRolloutRequest::decode(&bytes[..]);
        let given = wire::plan_rollout_bytes(&bytes);
        match (given, whole) {
            (Err(wire::Error::Undecodable { source, .. }), Err(error)) => {
                assert_eq!(source, error, "{round}");
            }
            (Err(_), Err(_)) => {}
            (given, Ok(message)) => {
                answered += usize::from(given.is_ok());
                let expected = wire::plan_rollout(message).map(|it| it.encode_to_vec());
                let shown = |it: Result<Vec<u8>, wire::Error>| it.map_err(|it| it.to_string());
                assert_eq!(shown(given), shown(expected), "{round}");
            }
            (Ok(_), Err(error)) => panic!("{round}: {error}"),
        }
    }
    assert!(answered > 500, "{answered}");
}

/// Plans without a report do not decode pods completely.
#[test]
fn entries_of_maps_with_a_wrong_type_are_undecodable() {
    let message = |field: u64, inside: &[u8]| {
        let mut bytes = Vec::new();
        encode_varint(field << 3 | 2, &mut bytes);
        encode_varint(inside.len() as u64, &mut bytes);
        [&bytes, inside].concat()
    };
    let mut request = mk_request();
    let mut pod = request.snapshot().pods[0].clone();
    pod.metadata.as_mut().unwrap().uid = "another".to_owned();
    // Labels and annotations with the key "a", and with a number as another key or as the value.
    for (map, field) in [(8, 1), (8, 2), (9, 1), (9, 2)] {
        let entry = [&message(1, b"a")[..], &[field << 3, 5]].concat();
        let metadata = message(3, &message(map, &entry));
        let pod = [pod.encode_to_vec(), metadata].concat();
        let mut bytes = request.encode_to_vec();
        bytes.extend(message(1, &message(4, &pod)));
        let whole = proto::PlanRolloutRequest::decode(&bytes[..]).unwrap_err();
        match wire::plan_rollout_bytes(&bytes) {
            Err(wire::Error::Undecodable { source, .. }) => assert_eq!(source, whole),
            other => panic!("{map} {field}: {other:?}"),
        }
    }
}
