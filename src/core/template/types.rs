//! The types of the fields of an object, as the decoder of the API server checks them.

use super::kind::Kind;
use super::quantity::Quantity;
use super::value::Value;
use crate::time::Time;

/// The maximum number of faults that are listed.
const FAULTS_MAX: usize = 20;

/// A value that the API server does not decode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeFault {
    /// The path below the object, for example `.containers[0].env[0].value`.
    pub path: String,
    /// What is wrong. It contains no value.
    pub description: String,
    /// Whether the field is one that Kubernetes does not know.
    pub is_unknown: bool,
}

/// The values in an object of a kind that the API server does not decode, the first twenty.
#[must_use]
pub fn type_faults(kind: &'static Kind, value: &Value) -> Vec<TypeFault> {
    let mut faults = Vec::new();
    collect(kind, value, &mut String::new(), &mut faults);
    faults
}

/// An object of a kind without the fields that Kubernetes does not know, which the API server does not store.
#[must_use]
pub fn known_fields(kind: &'static Kind, value: Value) -> Value {
    match (kind, value) {
        (Kind::Struct(of), Value::Map(entries)) => {
            let known = entries.into_iter().filter_map(|(key, value)| {
                let field = of.field(&key)?;
                Some((key, known_fields(&field.kind, value)))
            });
            Value::Map(known.collect())
        }
        (Kind::Map(of), Value::Map(entries)) => {
            let entries = entries.into_iter();
            let known = entries.map(|(key, value)| (key, known_fields(of, value)));
            Value::Map(known.collect())
        }
        (Kind::List(of), Value::List(items)) => {
            let known = items.into_iter().map(|item| known_fields(of, item));
            Value::from(known.collect::<Vec<Value>>())
        }
        (_, value) => value,
    }
}

fn collect(kind: &'static Kind, value: &Value, path: &mut String, faults: &mut Vec<TypeFault>) {
    if faults.len() == FAULTS_MAX {
        return;
    }
    let wanted = match (kind, value) {
        (_, Value::Null) | (Kind::Raw, _) => return,
        (Kind::Struct(of), Value::Map(entries)) => {
            for (key, value) in entries {
                let field = of.field(key);
                within(path, &format!(".{key}"), |path| match field {
                    Some(field) => collect(&field.kind, value, path, faults),
                    None if faults.len() == FAULTS_MAX => {}
                    None => faults.push(TypeFault {
                        path: path.clone(),
                        description: format!("is not a field of {}", of.name),
                        is_unknown: true,
                    }),
                });
            }
            return;
        }
        (Kind::Map(of), Value::Map(entries)) => {
            for (key, value) in entries {
                within(path, &format!("[{key:?}]"), |path| {
                    collect(of, value, path, faults);
                });
            }
            return;
        }
        (Kind::List(of), Value::List(items)) => {
            for (index, value) in items.iter().enumerate() {
                within(path, &format!("[{index}]"), |path| {
                    collect(of, value, path, faults);
                });
            }
            return;
        }
        (Kind::String, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => return,
        (Kind::Integer, Value::Number(number)) if number.as_i64().is_some() => return,
        (Kind::IntOrString, Value::String(_)) => return,
        (Kind::IntOrString, Value::Number(number)) => {
            let small = number.as_i64().map(i32::try_from);
            if let Some(Ok(_)) = small {
                return;
            }
            "a number of 32 bits, or a string"
        }
        (Kind::Quantity, Value::Number(_)) => return,
        (Kind::Quantity, Value::String(text)) if Quantity::parse(text).is_some() => return,
        (Kind::Time, Value::String(text)) if Time::parse(text).is_some() => return,
        (Kind::Quantity, _) => "a quantity, for example \"500m\" or \"2Gi\"",
        (Kind::Time, _) => "a time of RFC 3339",
        (Kind::String, _) => "a string",
        (Kind::Bool, _) => "true or false",
        (Kind::Integer, _) => "an integer",
        (Kind::IntOrString, _) => "an integer or a string",
        (Kind::Struct(_) | Kind::Map(_), _) => "an object",
        (Kind::List(_), _) => "a list",
    };
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::List(_) => "a list",
        Value::Map(_) => "an object",
    };
    let hint = match (kind, value) {
        (Kind::String, Value::Bool(_) | Value::Number(_)) => ": quote it",
        (Kind::Integer | Kind::Bool, Value::String(_)) => ": remove the quotes",
        _ => "",
    };
    faults.push(TypeFault {
        path: path.clone(),
        description: format!("is {given}, and must be {wanted}{hint}"),
        is_unknown: false,
    });
}

/// Appends a step to a path for a while.
fn within(path: &mut String, step: &str, work: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push_str(step);
    work(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::TEMPLATE;
    use crate::template::tests::json::parse;

    #[test]
    fn values_of_wrong_types_are_faults() {
        for (container, expected) in [
            (
                r#""env":[{"name":"A","value":8080}]"#,
                Some((
                    ".env[0].value",
                    "is a number, and must be a string: quote it",
                )),
            ),
            (
                r#""env":[{"name":"A","value":true}]"#,
                Some((
                    ".env[0].value",
                    "is a boolean, and must be a string: quote it",
                )),
            ),
            (
                r#""ports":[{"containerPort":"80"}]"#,
                Some((
                    ".ports[0].containerPort",
                    "is a string, and must be an integer: remove the quotes",
                )),
            ),
            (
                r#""resources":{"limits":{"cpu":"1x"}}"#,
                Some((
                    r#".resources.limits["cpu"]"#,
                    "is a string, and must be a quantity, for example \"500m\" or \"2Gi\"",
                )),
            ),
            (r#""resources":{"limits":{"cpu":1.5}}"#, None),
            (
                r#""livenessProbe":{"tcpSocket":{"port":"http"}},"env":null"#,
                None,
            ),
            (
                r#""tty":"true""#,
                Some((
                    ".tty",
                    "is a string, and must be true or false: remove the quotes",
                )),
            ),
            (
                r#""args":"x""#,
                Some((".args", "is a string, and must be a list")),
            ),
            (
                r#""imagePullPolcy":"Always""#,
                Some((".imagePullPolcy", "is not a field of Container")),
            ),
        ] {
            let template = parse(&format!(r#"{{"spec":{{"containers":[{{{container}}}]}}}}"#));
            let faults = type_faults(&TEMPLATE, &template);
            let found = faults
                .iter()
                .map(|it| (it.path.as_str(), it.description.as_str()));
            let expected =
                expected.map(|(path, text)| (format!(".spec.containers[0]{path}"), text));
            let expected = expected.iter().map(|(path, text)| (path.as_str(), *text));
            assert_eq!(
                found.collect::<Vec<_>>(),
                expected.collect::<Vec<_>>(),
                "{container}"
            );
        }
    }

    #[test]
    fn numeric_labels_are_faults() {
        let template = parse(r#"{"metadata":{"labels":{"version":1}}}"#);
        let faults = type_faults(&TEMPLATE, &template);
        assert_eq!(faults[0].path, r#".metadata.labels["version"]"#);
        assert_eq!(faults.len(), 1);
        let many = Value::from(vec![Value::from(1); 50]);
        let args = Value::from([("args", many)]);
        let containers = Value::from(vec![args]);
        let template = Value::from([("spec", Value::from([("containers", containers)]))]);
        assert_eq!(type_faults(&TEMPLATE, &template).len(), FAULTS_MAX);
    }
}
