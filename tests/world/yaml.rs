//! YAML as JSON.

use saphyr::{LoadableYamlNode as _, Yaml};
use serde_json::Value;

/// The first document of a YAML text.
pub fn to_json(text: &str) -> Result<Value, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let document = documents.first().ok_or("an empty document")?;
    of_yaml(document)
}

fn of_yaml(yaml: &Yaml<'_>) -> Result<Value, String> {
    if let Some(list) = yaml.as_sequence() {
        return list.iter().map(of_yaml).collect();
    }
    if let Some(map) = yaml.as_mapping() {
        let entry = |(key, value): (&Yaml<'_>, _)| {
            let key = key.as_str().ok_or("a key that is not a string")?;
            Ok((key.to_owned(), of_yaml(value)?))
        };
        return map.iter().map(entry).collect();
    }
    let text = yaml.as_str().map(Value::from);
    let number = || yaml.as_integer().map(Value::from);
    let float = || yaml.as_floating_point().map(Value::from);
    let truth = || yaml.as_bool().map(Value::from);
    match text.or_else(number).or_else(float).or_else(truth) {
        Some(scalar) => Ok(scalar),
        None if yaml.is_null() => Ok(Value::Null),
        None => Err(format!("{yaml:?} is not a JSON value")),
    }
}
