use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use rollplan_restart::*;

/// printf 'a=1;b=2' | sha1sum
const SHA1_A1_B2: &str = "f83e99e324ba68ccc373a58ef1eb42f8ab88646a";

fn checksum(
    kind: ConfigurationKind,
    profile: Profile,
    data: Option<&Json>,
    binary: Option<&Json>,
) -> String {
    let map =
        |json: &Json| -> BTreeMap<String, String> { serde_json::from_value(json.clone()).unwrap() };
    let (data, binary) = (data.map(map), binary.map(map));
    let data = Data {
        data: data.as_ref(),
        binary_data: binary.as_ref(),
    };
    match Hasher::default().content(kind, profile, data).unwrap() {
        Content::Present { whole, .. } => whole,
        Content::Absent => panic!("it is there"),
    }
}

#[test]
fn xing_checksums_match_the_original() {
    use ConfigurationKind::{ConfigMap, Secret};
    let of = |kind, data: Option<Json>| checksum(kind, Profile::Xing, data.as_ref(), None);
    assert_eq!(
        of(ConfigMap, Some(json!({"key": "value"}))),
        "e43abcf337524483"
    );
    // printf '{"a":"1","b":"2"}' | sha256sum
    assert_eq!(
        of(ConfigMap, Some(json!({"b": "2", "a": "1"}))),
        "21f76dfbfe6dfe21"
    );
    // The value of a Secret is hashed as the base64 that Go prints for bytes.
    assert_eq!(
        of(Secret, Some(json!({"key": "dmFsdWU="}))),
        "fed7a27106a07691"
    );
    assert_eq!(of(ConfigMap, None), "74234e98afe7498f");
    assert_eq!(of(ConfigMap, Some(json!({}))), "44136fa355b3678a");
    assert_eq!(
        of(ConfigMap, Some(json!({"k": "<a&b>"}))),
        "003c0c5fb1a83eab"
    );
    let escapes = json!({"k": "\u{2028}\u{2029}\u{1}\u{8}\"\\\n\r\tä"});
    let go = r#"{"k":"\u2028\u2029\u0001\u0008\"\\\n\r\tä"}"#;
    let expected = &Hasher::default().hex(go.as_bytes())[..16];
    assert_eq!(of(ConfigMap, Some(escapes)), expected);
    // Binary data alone counts as no data, as in the original.
    let binary = json!({"b": "AAEC"});
    let whole = checksum(ConfigMap, Profile::Xing, None, Some(&binary));
    assert_eq!(whole, "74234e98afe7498f");
}

#[test]
fn reloader_checksums_are_sha1_of_sorted_entries() {
    use ConfigurationKind::{ConfigMap, Secret};
    let data = json!({"b": "2", "a": "1"});
    let whole = checksum(ConfigMap, Profile::Reloader, Some(&data), None);
    assert_eq!(whole, SHA1_A1_B2);
    let secret = json!({"a": "MQ==", "b": "Mg=="});
    assert_eq!(
        checksum(Secret, Profile::Reloader, Some(&secret), None),
        SHA1_A1_B2
    );
    let binary = json!({"b": "2".repeat(4)});
    let of_binary = checksum(
        ConfigMap,
        Profile::Reloader,
        Some(&json!({"a": "1"})),
        Some(&binary),
    );
    assert_eq!(of_binary.len(), 40);
    assert_ne!(of_binary, SHA1_A1_B2);
}

#[test]
fn checksums_depend_on_the_key_and_reject_invalid_base64() {
    let data = BTreeMap::from([("k".to_owned(), "dmFsdWU=".to_owned())]);
    let of = |hasher: &Hasher, profile| {
        let data = Data {
            data: Some(&data),
            binary_data: None,
        };
        hasher
            .content(ConfigurationKind::Secret, profile, data)
            .unwrap()
    };
    for profile in [Profile::Rollplan, Profile::Xing, Profile::Reloader] {
        let plain = of(&Hasher::default(), profile);
        let keyed = of(&Hasher::new(b"key"), profile);
        assert_ne!(plain, keyed, "{profile:?}");
        assert_ne!(keyed, of(&Hasher::new(b"other"), profile), "{profile:?}");
    }
    let bad = BTreeMap::from([("k".to_owned(), "hunter2!".to_owned())]);
    let data = Data {
        data: Some(&bad),
        binary_data: None,
    };
    let error = Hasher::default()
        .content(ConfigurationKind::Secret, Profile::Rollplan, data)
        .unwrap_err();
    assert_eq!(error.to_string(), "data[\"k\"] is not base64");
}
