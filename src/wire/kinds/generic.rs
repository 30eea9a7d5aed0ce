//! Reads the fields of kinds without a view of their own, as their row in the table of kinds names them.

use rollplan_health::kinds::table::{Key, Nested, OWN_NAMESPACE, Row};
use rollplan_health::kinds::{Condition, Fields, Item};

use super::field::Field;
use super::views::conditions;

/// The maximum number of errors and nested conditions that are read.
const DETAILS_MAX: usize = 16;
/// The depth to which the status is searched for them.
const DEPTH_MAX: usize = 4;
/// Fields that contain errors, as texts or as objects with a text.
const ERRORS: [&str; 6] = [
    "error",
    "errors",
    "errorMessage",
    "failureMessage",
    "lastError",
    "validationErrors",
];
/// The fields of an error with its text.
const ERROR_TEXTS: [&str; 3] = ["message", "errorMessage", "error"];

/// The fields that a row reads.
pub(super) fn fields<'a, 'f>(
    row: &Row,
    namespace: &str,
    spec: &Field<'a, 'f>,
    status: &Field<'a, 'f>,
    has_status_subresource: Option<bool>,
) -> Fields {
    let at = |path: &str| match path.split_once('.') {
        Some(("spec", path)) => values(spec, path),
        Some(("status", path)) => values(status, path),
        _ => Vec::new(),
    };
    let text = |path| Some((path, at(path).first()?.scalar()?));
    let number = |path| {
        let numbers: Vec<i64> = at(path).iter().filter_map(Field::number).collect();
        let sum = numbers
            .iter()
            .fold(0_i64, |sum, it| sum.saturating_add(*it));
        (!numbers.is_empty()).then_some((path, sum))
    };
    let list = |path: &str| at(path).first().map(Field::list).unwrap_or_default();
    let items = |nested: Nested| -> Vec<Item> {
        let items = list(nested.path);
        let items = items.iter().map(|item| Item {
            key: match nested.reference {
                "" => key(item, nested.key, namespace),
                reference => key(&item.get(reference), nested.key, namespace),
            },
            conditions: conditions(item),
        });
        items.collect()
    };
    let wanted = |nested: Nested| -> Vec<Vec<String>> {
        let items = list(nested.wanted);
        let items = items.iter().map(|item| key(item, nested.key, namespace));
        items.collect()
    };
    let mut details = Details::default();
    details.collect(status, row.nested, 0);
    Fields {
        has_status: !status.is_empty(),
        has_status_subresource,
        texts: row.texts().filter_map(text).collect(),
        numbers: row.numbers().filter_map(number).collect(),
        nested: row.nested.map(items).unwrap_or_default(),
        wanted: row.nested.map(wanted).unwrap_or_default(),
        errors: details.errors,
        inner_conditions: details.conditions,
    }
}

/// The values that identify an item, after defaulting.
fn key(item: &Field<'_, '_>, fields: &[Key], namespace: &str) -> Vec<String> {
    let value = |key: &Key| {
        let field = item.get(key.field);
        let text = field.scalar().unwrap_or_default();
        match (key.default, key.alias) {
            (OWN_NAMESPACE, _) if text.is_empty() => namespace.to_owned(),
            (default, _) if !field.is_present() => default.to_owned(),
            (_, Some((alias, name))) if alias == text => name.to_owned(),
            _ => text,
        }
    };
    fields.iter().map(value).collect()
}

/// What a status reports apart from the conditions that are judged.
#[derive(Default)]
struct Details {
    errors: Vec<String>,
    conditions: Vec<(String, Condition)>,
}

impl Details {
    fn collect(&mut self, field: &Field<'_, '_>, nested: Option<Nested>, depth: usize) {
        let is_judged = nested.is_some_and(|nested| nested.path == field.path());
        if depth > DEPTH_MAX || is_judged {
            return;
        }
        // The conditions of the object itself are judged.
        if depth > 0 {
            let place = field.path();
            let conditions = conditions(field).into_iter();
            self.conditions
                .extend(conditions.map(|condition| (place.to_owned(), condition)));
        }
        for item in field.list() {
            self.collect(&item, nested, depth + 1);
        }
        for (name, value) in field.entries() {
            if ERRORS.contains(&name) {
                self.errors.extend(errors(&value));
            } else if name != "conditions" {
                self.collect(&value, nested, depth + 1);
            }
        }
        self.errors.truncate(DETAILS_MAX);
        self.conditions.truncate(DETAILS_MAX);
    }
}

/// The texts of a field that contains an error, or a list of them.
fn errors(field: &Field<'_, '_>) -> Vec<String> {
    let list = field.list();
    let items = if list.is_empty() {
        vec![field.clone()]
    } else {
        list
    };
    let text = |item: &Field<'_, '_>| {
        let texts = ERROR_TEXTS.iter().map(|name| item.get(name));
        let mut texts = std::iter::once(item.clone()).chain(texts);
        texts.find_map(|text| Some(text.text()).filter(|text| !text.is_empty()))
    };
    items.iter().filter_map(text).collect()
}

/// The values at a path such as "health.status". With "[]" after the name of a list, those in each of its items.
fn values<'a, 'f>(root: &Field<'a, 'f>, path: &str) -> Vec<Field<'a, 'f>> {
    let mut found = vec![root.clone()];
    for name in path.split('.') {
        found = match name.strip_suffix("[]") {
            Some(name) => found.iter().flat_map(|it| it.get(name).list()).collect(),
            None => found.iter().map(|it| it.get(name)).collect(),
        };
    }
    found
}
